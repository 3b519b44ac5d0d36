"""`source add`, `source alter`, `source drop`, `source list`: databases whose tables stream tables may name."""

from __future__ import annotations

from typing import Annotated

import typer

from freshlake.catalog.enums import CdcMode
from freshlake.cli.invocation import invocation

COLUMNS = ("name", "connection", "cdc_mode", "captured_by", "captured_tables", "position", "schemas", "tables")

app = typer.Typer(name="source", no_args_is_help=True, help="Databases whose tables stream tables may name.")

Source = Annotated[str, typer.Argument(help="Name of the source.", show_default=False)]


@app.command()
def add(
    context: typer.Context,
    name: Source,
    connection: Annotated[str, typer.Argument(help="Where its address is kept: env:…, service:… or file:….")],
    schema: Annotated[list[str] | None, typer.Option(help="Only tables of this schema; may be repeated.")] = None,
    table: Annotated[list[str] | None, typer.Option(help="Only this table (schema.table); may be repeated.")] = None,
    as_text: Annotated[
        list[str] | None, typer.Option(help="A column (schema.table.column) to take as text; may be repeated.")
    ] = None,
    cdc_mode: Annotated[
        CdcMode | None, typer.Option(case_sensitive=False, help="How changes are captured; by default a setting.")
    ] = None,
) -> None:
    """Add a PostgreSQL database, so that queries can name its tables as name.schema.table."""
    run = invocation(context)
    with run.open(create=True) as fl:
        with run.terminal.working(f"connecting to {name}"):
            made = fl.add_postgres(name, connection, schemas=schema, tables=table, as_text=as_text, cdc_mode=cdc_mode)
        run.terminal.records([made], COLUMNS, "")


@app.command()
def alter(
    context: typer.Context,
    name: Source,
    cdc_mode: Annotated[
        CdcMode | None, typer.Option(case_sensitive=False, help="How changes are captured from now on.")
    ] = None,
    as_text: Annotated[
        list[str] | None, typer.Option(help="A column, schema.table.column, that is taken as text; no others are.")
    ] = None,
    no_as_text: Annotated[bool, typer.Option("--no-as-text", help="No column is taken as text any more.")] = False,
) -> None:
    """Capture a database another way, without a new copy, or other columns of it as text."""
    if no_as_text and as_text:
        raise typer.BadParameter("give either --as-text or --no-as-text")
    if cdc_mode is None and as_text is None and not no_as_text:
        raise typer.BadParameter("nothing to change: give --cdc-mode, --as-text or --no-as-text")
    texts = [] if no_as_text else as_text
    run = invocation(context)
    with run.open() as fl:
        with run.terminal.working(f"altering {name}"):
            altered = fl.alter_source(name, cdc_mode=cdc_mode, as_text=texts)
        run.terminal.records([altered], COLUMNS, "")


@app.command()
def drop(
    context: typer.Context,
    name: Source,
    cascade: Annotated[bool, typer.Option("--cascade", help="Also drop the stream tables that read it.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error when there is none.")] = False,
) -> None:
    """Forget a database and remove what was installed in it."""
    run = invocation(context)
    with run.open() as fl, run.terminal.working(f"dropping {name}"):
        fl.drop_source(name, if_exists=if_exists, cascade=cascade)
    run.terminal.dropped([name])


@app.command(name="list")
def list_(context: typer.Context) -> None:
    """List the databases and what is captured of them."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.list_sources(), COLUMNS, "no sources; add one with `freshlake source add`")
