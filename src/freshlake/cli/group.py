"""`group create`, `group drop`, `group list`: stream tables that are refreshed and published together."""

from __future__ import annotations

from typing import Annotated

import typer

from freshlake.cli.invocation import invocation
from freshlake.service.groups import group_row

COLUMNS = ("name", "members", "created_at")

app = typer.Typer(name="group", no_args_is_help=True, help="Stream tables that are refreshed and published together.")

Group = Annotated[str, typer.Argument(help="Name of the group.", show_default=False)]


@app.command()
def create(
    context: typer.Context,
    name: Group,
    tables: Annotated[list[str], typer.Argument(help="Names of stream tables, two or more.", show_default=False)],
) -> None:
    """Refresh and publish stream tables together from now on."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records([group_row(fl.create_refresh_group(name, tables))], COLUMNS, "")


@app.command()
def drop(
    context: typer.Context,
    name: Group,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error when there is none.")] = False,
) -> None:
    """Refresh the members of a group each for itself again."""
    run = invocation(context)
    with run.open() as fl:
        fl.drop_refresh_group(name, if_exists=if_exists)
    run.terminal.dropped([name])


@app.command(name="list")
def list_(context: typer.Context) -> None:
    """List the groups and their members."""
    run = invocation(context)
    with run.open() as fl:
        rows = [group_row(group) for group in fl.refresh_groups()]
        run.terminal.records(rows, COLUMNS, "no refresh groups; make one with `freshlake group create`")
