"""What there is, and whether it is right: `status`, `health`, `history`, `alerts`, `explain`, `choice` and others."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from freshlake.cli.arguments import All, DialectOption, Name, Names, QueryFile, QueryText, required_query
from freshlake.cli.invocation import Invocation, chosen, invocation, one_by_one, require_choice
from freshlake.cli.plain import plain
from freshlake.config import Settings
from freshlake.dialect import Dialect
from freshlake.service.settings import setting_infos

STATUS = (
    "name",
    "status",
    "refresh_mode",
    "schedule",
    "effective_schedule",
    "schedule_note",
    "tier",
    "level",
    "rows",
    "version",
    "staleness_seconds",
    "is_stale",
    "next_due",
    "last_action",
    "last_reason",
)
# Not shown where the terminal has no room for all columns; the last one goes first.
SPARE = ("next_due", "is_stale", "effective_schedule", "tier", "level", "schedule_note")
HEALTH = ("severity", "code", "name", "message", "hint")
DOCTOR = ("check", "verdict", "detail", "hint")
HISTORY = (
    "version",
    "action",
    "status",
    "reason",
    "rows_inserted",
    "rows_deleted",
    "rows_updated",
    "duration_ms",
    "started",
    "error_code",
    "error",
)
ALERTS = ("at", "event", "table", "payload")
AUDITS = ("started", "table", "outcome", "version", "missing", "unexpected", "compared_rows", "asked_by", "detail")
SOURCES = ("stream_table", "source", "source_type", "position", "head", "pending", "problem", "columns_used")
CONFIG = ("name", "value", "origin", "default")
POOLS = ("daemon", "is_alive", "workers", "running", "waiting", "quota", "started", "last_tick", "version")
JOBS = ("unit", "tables", "state", "worker", "asked", "started", "ended", "error")
CHOICE = (*("table", "action", "by", "reason", "detail", "error", "changed_rows", "differential_ms", "full_ms"),)
REPLAYED = ("started", "action", "by", "reason", "error", "again", "same")
VERIFIED = ("table", "equal", "compared_rows", "missing", "unexpected", "not_compared")
UNHEALTHY = 1
DIFFERENT = 3


def status(context: typer.Context) -> None:
    """List the stream tables and how fresh they are."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.status(), STATUS, "no stream tables yet; make one with `freshlake create`", SPARE)


def health(context: typer.Context) -> None:
    """List what a person should act on, worst first; exit code 1 when there is an ERROR."""
    run = invocation(context)
    with run.open() as fl:
        found = fl.health()
    run.terminal.records(found, HEALTH, "healthy: there is nothing to act on")
    if any(finding.severity == "ERROR" for finding in found):
        raise typer.Exit(UNHEALTHY)


def doctor(context: typer.Context, name: Name) -> None:
    """Look at all that keeps a stream table fresh, in turn; exit code 1 when something is an ERROR."""
    run = invocation(context)
    with run.open() as fl:
        found = fl.doctor(name)
    run.terminal.records(found, DOCTOR, "")
    if any(line.verdict == "ERROR" for line in found):
        raise typer.Exit(UNHEALTHY)


def history(
    context: typer.Context,
    name: Name,
    limit: Annotated[int, typer.Option(min=1, help="At most this many refreshes.")] = 20,
) -> None:
    """Show the refreshes of a stream table, newest first."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.history(name, limit=limit), HISTORY, f"{name} was never refreshed")


def alerts(
    context: typer.Context,
    event: Annotated[str | None, typer.Option(help="Only alerts of this event.", show_default=False)] = None,
    table: Annotated[str | None, typer.Option(help="Only alerts about this stream table.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many alerts.")] = 50,
) -> None:
    """Show the alerts that were sent, newest first."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.alerts(limit, event, table), ALERTS, "no alerts")


def audits(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Only audits of this stream table.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many audits.")] = 20,
) -> None:
    """Show when stream tables were compared with their queries, and what came of it; newest first."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.audits(name, limit=limit), AUDITS, "no audits yet")


def workers(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=0.0, help="Also jobs that ended so many seconds ago.")] = 60.0,
) -> None:
    """Show the daemons that keep the lake fresh, and what they run."""
    run = invocation(context)
    with run.open() as fl:
        pools, jobs = fl.worker_pool_status(), fl.parallel_job_status(seconds)
    if run.terminal.as_json:
        run.terminal.data({"daemons": plain(pools), "jobs": plain(jobs)})
        return
    run.terminal.records(pools, POOLS, "no daemon keeps this lake fresh; start one with `freshlake run`")
    if pools:
        run.terminal.records(jobs, JOBS, "nothing waits, runs, or has ended lately")


def sources(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Only what this stream table reads.", show_default=False)] = None,
) -> None:
    """List the tables that stream tables read."""
    run = invocation(context)
    with run.open() as fl:
        run.terminal.records(fl.sources(name), SOURCES, "no sources: no stream table reads anything yet")


def tree(context: typer.Context) -> None:
    """Draw the stream tables with what they read below them."""
    run = invocation(context)
    with run.open() as fl:
        lines = fl.dependency_tree()
    if run.terminal.as_json:
        run.terminal.data(plain(lines))
    elif not lines:
        run.terminal.note("no stream tables yet; make one with `freshlake create`")
    for line in () if run.terminal.as_json else lines:
        run.terminal.text(line.tree_line)


def config(context: typer.Context) -> None:
    """Show the settings and where each value comes from; Spark is not started."""
    run = invocation(context)
    run.require_lake()
    run.terminal.records(setting_infos(Settings.load(run.lake)), CONFIG, "")


def explain(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="Name of a stream table, or SQL text.", show_default=False)],
) -> None:
    """Show how a stream table, or a query, is refreshed: plan, rules, steps, and why."""
    run = invocation(context)
    with run.open() as fl:
        with run.terminal.working("compiling"):
            explanation = fl.explain(subject)
        if run.terminal.as_json:
            run.terminal.data(explanation.to_dict())
        else:
            run.terminal.text(str(explanation))


def choice(
    context: typer.Context,
    name: Name,
    past: Annotated[int | None, typer.Option(min=1, help="Make this many past decisions again instead.")] = None,
) -> None:
    """Show what the next refresh would do, and why; exit code 3 when a past decision would be another one now."""
    run = invocation(context)
    with run.open() as fl:
        if past is None:
            with run.terminal.working("compiling"):
                answer = fl.explain_choice(name)
            run.terminal.records([answer], CHOICE, "")
            return
        found = fl.replay_choices(name, limit=past)
    run.terminal.records(found, REPLAYED, f"nothing was chosen for {name} yet")
    if not all(each.same for each in found):
        raise typer.Exit(DIFFERENT)


def validate(
    context: typer.Context, query: QueryText = None, file: QueryFile = None, dialect: DialectOption = None
) -> None:
    """Tell whether a query can be refreshed differentially, and why not."""
    run = invocation(context)
    text = required_query(query, file)
    with run.open() as fl:
        with run.terminal.working("compiling"):
            answer = fl.validate(text, dialect=dialect)
        if run.terminal.as_json:
            run.terminal.data(plain(answer))
            return
        verdict = "[green]differential[/]" if answer.differential else "[yellow]full[/]"
        work = "each refresh computes only what changed" if answer.differential else "each refresh computes everything"
        run.terminal.out.print(f"{verdict}: {work}")
        if dialect not in (None, Dialect.SPARK):
            run.terminal.text(f"as Spark SQL:\n{answer.query}")
        if answer.reasons:
            run.terminal.records(answer.reasons, ("code", "message", "position", "hint"), "")


def verify(context: typer.Context, names: Names = None, everything: All = False) -> None:
    """Recompute stream tables at their frontier and compare row by row; exit code 3 on a difference."""
    run = invocation(context)
    require_choice(names, everything)
    with run.open() as fl:
        found = one_by_one(run, chosen(fl, names), "verifying", fl.verify, VERIFIED)
    run.terminal.records(found, VERIFIED, "no stream tables to verify")
    different = [answer for answer in found if not answer.equal]
    if different:
        _show_samples(run, different)
        raise typer.Exit(DIFFERENT)


def _show_samples(run: Invocation, different: list[Any]) -> None:
    if run.terminal.as_json:
        return
    for answer in different:
        run.terminal.out.print(f"[red]{answer.table} differs[/], for example:")
        run.terminal.rows(list(answer.sample[0]), [list(row.values()) for row in answer.sample])
