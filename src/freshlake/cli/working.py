"""`sql`, `refresh`, `fold`, `vacuum`, `changes`, `snapshot`, `wait`, `audit`, `repair`: work on the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshlake.cli.arguments import All, Name, Names, QueryFile, QueryText, required_query
from freshlake.cli.define import ModeOption
from freshlake.cli.failure import FAILED, as_freshlake_error
from freshlake.cli.invocation import Invocation, chosen, invocation, one_by_one, require_choice
from freshlake.cli.looking import AUDITS, DIFFERENT
from freshlake.cli.script import statements
from freshlake.cli.terminal import objects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from freshlake.refresh.result import RefreshResult

REFRESHED = (
    *("table", "action", "rows_inserted", "rows_deleted", "spark_jobs", "duration_ms", "version"),
    *("reason", "detail"),
)
VACUUMED = ("table", "deleted_files")
WAITED = ("table", "source", "version")
FOLDED = ("table", "folded_versions", "rows", "duration_ms")
Limit = Annotated[int, typer.Option(min=1, help="Show at most this many rows.")]


def sql(context: typer.Context, query: QueryText = None, file: QueryFile = None, limit: Limit = 1000) -> None:
    """Run SQL: Spark SQL, and statements such as CREATE STREAM TABLE; several are separated by semicolons."""
    run = invocation(context)
    script = statements(str(required_query(query, file)))
    if not script:
        raise typer.BadParameter("there is no statement to run")
    with run.open(create=True) as fl:
        for number, statement in enumerate(script, 1):
            with _located(number, len(script)):
                with run.terminal.working("running"):
                    answer = fl.sql(statement)
                _show(run, answer, limit)


@contextmanager
def _located(number: int, total: int) -> Iterator[None]:
    """A statement that fails says where in the script it stands."""
    try:
        yield
    except Exception as error:
        if total == 1:
            raise
        failure = as_freshlake_error(error)
        place = f"statement {number} of {total}; those before it were run, those after it were not"
        failure.detail = f"{failure.detail}; {place}" if failure.detail else place
        raise failure from error


def changes(
    context: typer.Context,
    name: Name,
    since: Annotated[int, typer.Option(min=0, help="Changes after this version.")],
    limit: Limit = 1000,
) -> None:
    """Show what changed in a stream table after a version, as rows with weights."""
    run = invocation(context)
    with run.open() as fl:
        _show(run, fl.changes(name, since=since), limit)


def refresh(context: typer.Context, names: Names = None, everything: All = False, mode: ModeOption = None) -> None:
    """Bring stream tables up to date with their sources; exit code 1 when one failed."""
    run = invocation(context)
    require_choice(names, everything)
    if everything and mode is not None:
        raise typer.BadParameter("--mode is for named tables, each table of --all has its own")
    with run.open() as fl:
        if everything:
            with run.terminal.working("refreshing all stream tables"):
                done = fl.refresh_all()
        else:
            done = one_by_one(run, names or [], "refreshing", lambda name: fl.refresh(name, mode=mode), REFRESHED)
    run.terminal.records(done, REFRESHED, "no stream tables to refresh")
    _end(run, [result for result in done if result.error])


def _end(run: Invocation, failed: list[RefreshResult]) -> None:
    """An error is told once, however many tables wait for the one that failed, or could not be published with it."""
    told: list[Mapping[str, Any]] = []
    for result in failed if not run.terminal.as_json else ():
        if result.error and result.error not in told:
            run.terminal.failure(result.error)
            told.append(result.error)
    if failed:
        raise typer.Exit(FAILED)


def fold(context: typer.Context, names: Names = None, everything: All = False) -> None:
    """Bring the change logs of stream tables into their base tables."""
    run = invocation(context)
    require_choice(names, everything)
    with run.open() as fl:
        done = one_by_one(run, chosen(fl, names), "folding", fl.fold, FOLDED)
    run.terminal.records(done, FOLDED, "no stream tables to fold")


def vacuum(context: typer.Context, names: Names = None, everything: All = False) -> None:
    """Delete files of stream tables that no version in use needs."""
    run = invocation(context)
    require_choice(names, everything)
    with run.open() as fl:
        loaded = names or [table.name for table in fl.status() if table.is_populated]
        done = one_by_one(run, loaded, "vacuuming", lambda n: {"table": n, "deleted_files": fl.vacuum(n)}, VACUUMED)
    run.terminal.records(done, VACUUMED, "no stream tables to vacuum")


def wait(
    context: typer.Context,
    name: Name,
    source: Annotated[str, typer.Argument(help="A table that it reads, also through others.", show_default=False)],
    version: Annotated[
        int | None, typer.Option(min=0, help="The version of the source.", show_default="its newest")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.0, help="Give up after so many seconds.")] = 60.0,
) -> None:
    """Wait until readers of a stream table see a version of a source; refreshing it is for a scheduler."""
    run = invocation(context)
    with run.open() as fl:
        with run.terminal.working(f"waiting for {name}"):
            seen = fl.wait_for(name, source, version, timeout=timeout)
        run.terminal.records([{"table": name, "source": source, "version": seen}], WAITED, "")


def snapshot(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help="Names of stream tables, and of tables that they read.")],
    limit: Limit = 1000,
) -> None:
    """Show several tables at one point in time."""
    run = invocation(context)
    with run.open() as fl:
        frames = fl.snapshot(*names)
        if run.terminal.as_json:
            run.terminal.data({name: objects(frame.columns, frame.take(limit)) for name, frame in frames.items()})
            return
        for name, frame in frames.items():
            run.terminal.note(f"{name}:")
            _show(run, frame, limit)


def audit(context: typer.Context, names: Names = None, everything: All = False) -> None:
    """Compare stream tables and their internal nodes with their queries; what differs is quarantined and repaired.

    Exit code 3 if one is left in quarantine.
    """
    run = invocation(context)
    require_choice(names, everything)
    with run.open() as fl:
        done = one_by_one(run, chosen(fl, names), "auditing", fl.audit, AUDITS)
    _finish(run, done)


def repair(context: typer.Context, names: Names) -> None:
    """Put the rows of stream tables right and end their quarantine; exit code 3 if one is left in it."""
    run = invocation(context)
    require_choice(names, False)
    with run.open() as fl:
        done = one_by_one(run, names or [], "repairing", fl.repair, AUDITS)
    _finish(run, done)


def _finish(run: Invocation, done: list[Any]) -> None:
    run.terminal.records(done, AUDITS, "no stream tables to audit")
    if any(each.outcome in ("MISMATCH", "UNREPAIRED") for each in done):
        raise typer.Exit(DIFFERENT)


def _show(run: Invocation, answer: DataFrame | None, limit: int) -> None:
    if answer is None or not answer.columns:
        return
    with run.terminal.working("running"):
        rows = answer.take(limit + 1)
    run.terminal.rows(answer.columns, rows[:limit])
    if len(rows) > limit:
        run.terminal.note(f"only the first {limit:,} rows; use --limit or a LIMIT clause")
