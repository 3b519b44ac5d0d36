"""`delivery add`, `delivery end`, `delivery list`: stream tables that are kept in tables of a database, too."""

from __future__ import annotations

from typing import Annotated

import typer

from freshlake.cli.invocation import invocation

COLUMNS = ("stream_table", "target", "version", "published_version", "rows", "reason", "delivered_at", "error")

app = typer.Typer(name="delivery", no_args_is_help=True, help="Stream tables that are kept in a database, too.")

Target = Annotated[str, typer.Argument(help="Table of a source: source.schema.table.", show_default=False)]


@app.command()
def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the stream table.", show_default=False)],
    to: Target,
) -> None:
    """Keep a stream table in a table of a database from now on, or bring it up to date there."""
    run = invocation(context)
    with run.open() as fl:
        with run.terminal.working(f"delivering {name}"):
            made = fl.deliver(name, to)
        run.terminal.records([made], COLUMNS, "")


@app.command()
def end(
    context: typer.Context,
    to: Target,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error when there is none.")] = False,
) -> None:
    """Drop a delivered table, and deliver no more."""
    run = invocation(context)
    with run.open() as fl, run.terminal.working(f"ending the delivery into {to}"):
        fl.end_delivery(to, if_exists=if_exists)
    if run.terminal.as_json:
        run.terminal.data({"ended": [to]})
    else:
        run.terminal.note(f"ended {to}")


@app.command(name="list")
def list_(context: typer.Context) -> None:
    """List which stream tables are kept where, how far, and what went wrong."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.deliveries(), COLUMNS, "no deliveries; add one with `freshlake delivery add`")
