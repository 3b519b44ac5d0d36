"""`cdc status`, `cdc health`, `cdc slots`, `cdc buffers`: how the tables of source databases are captured."""

from __future__ import annotations

import typer

from freshlake.cli.invocation import invocation

STATUS = ("stream_table", "source", "source_table", "cdc_mode", "copy_due", "left_out_columns")
HEALTH = ("source", "source_table", "cdc_mode", "selective_capture", "alert", "detail")
SLOTS = ("source", "slot_name", "active", "lag_bytes", "retained_bytes", "level", "alert", "detail")
BUFFERS = ("source", "source_table", "cdc_mode", "pending_rows", "buffer_bytes", "oldest_seconds")
NOTHING = "nothing is captured: no stream table reads a table of a source database"

app = typer.Typer(name="cdc", no_args_is_help=True, help="How the tables of source databases are captured.")


@app.command()
def status(context: typer.Context) -> None:
    """Show which stream table reads which captured table, and how that is captured; no database is asked."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.cdc_status(), STATUS, NOTHING)


@app.command()
def health(context: typer.Context) -> None:
    """Show whether what captures changes is as it should be, table by table."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.check_cdc_health(), HEALTH, NOTHING)


@app.command()
def slots(context: typer.Context) -> None:
    """Show how much log the servers keep for the slots that source databases are read through."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.slot_health(), SLOTS, "no source database is read from its log")


@app.command()
def buffers(context: typer.Context) -> None:
    """Show what waits in the databases to be read, table by table."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.change_buffer_sizes(), BUFFERS, NOTHING)
