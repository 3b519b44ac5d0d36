"""The application: global options, commands, and how every failure ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from freshlake.cli import cdc, daemon, define, delivery, group, looking, source, working
from freshlake.cli.arguments import hoist
from freshlake.cli.demonstrate import demo
from freshlake.cli.failure import FAILED, as_freshlake_error, silence_alerts, silence_spark
from freshlake.cli.invocation import Invocation
from freshlake.cli.terminal import Terminal
from freshlake.version import VERSION

INTERRUPTED = 130

app = typer.Typer(
    name="freshlake",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed or unhealthy, 2 wrong usage, 3 a difference was found.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"freshlake {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    lake: Annotated[Path, typer.Option(envvar="FRESHLAKE_LAKE", help="Folder of the lake.")] = Path("lake"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show stack traces.")] = False,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Stream tables on Spark and Delta Lake: query results that stay fresh. Global options may stand anywhere."""
    if not debug:
        silence_spark()
        silence_alerts()
    context.obj = Invocation(lake, Terminal(as_json))


_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start": (demo,),
    "Define": (define.create, define.alter, define.drop, define.resume),
    "Run": (
        daemon.run,
        working.sql,
        working.refresh,
        working.fold,
        working.vacuum,
        working.changes,
        working.snapshot,
        working.wait,
        working.audit,
        working.repair,
    ),
    "Look": (
        looking.status,
        looking.health,
        looking.doctor,
        looking.history,
        looking.alerts,
        looking.audits,
        looking.workers,
        looking.sources,
        looking.tree,
        looking.config,
        looking.explain,
        looking.choice,
        looking.validate,
        looking.verify,
    ),
}
for panel, commands in _COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(source.app, rich_help_panel="Define")
app.add_typer(delivery.app, rich_help_panel="Define")
app.add_typer(group.app, rich_help_panel="Define")
app.add_typer(cdc.app, rich_help_panel="Look")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command and exit; an error is shown as code, message, detail and hint."""
    words = hoist(sys.argv[1:] if arguments is None else arguments)
    try:
        app(args=words, prog_name="freshlake")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if "--debug" in words:
            raise
        Terminal("--json" in words).error(as_freshlake_error(error))
        sys.exit(FAILED)
    sys.exit(0)
