"""`create`, `alter`, `drop`, `resume`: the definitions of stream tables."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshlake.catalog.enums import FoldPolicy, RefreshMode
from freshlake.catalog.names import TableName
from freshlake.cli.arguments import (
    DialectOption,
    Function,
    Name,
    Names,
    QueryFile,
    QueryText,
    one_query,
    required_query,
)
from freshlake.cli.invocation import Invocation, invocation, require_choice
from freshlake.cli.looking import SPARE, STATUS
from freshlake.schedule.state import Consistency, Policy
from freshlake.schedule.tiers import Declared

if TYPE_CHECKING:
    from freshlake.lake import Freshlake


class Wanted(StrEnum):
    """Whether a stream table is refreshed."""

    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"


class Capture(StrEnum):
    """How the source databases of a stream table are captured."""

    AUTO = "auto"
    TRIGGER = "trigger"
    WAL = "wal"
    INHERIT = "inherit"


class Existing(StrEnum):
    """What create does when the name is taken."""

    ERROR = "error"
    REPLACE = "replace"
    KEEP = "keep"


Schedule = Annotated[str | None, typer.Option(help="How fresh: 30s, 5m, 1h, a cron expression, or calculated.")]
ModeOption = Annotated[RefreshMode | None, typer.Option("--mode", case_sensitive=False, help="How it is refreshed.")]
PartitionOption = Annotated[
    list[str] | None, typer.Option(help="A column that the files are partitioned by; may be repeated.")
]
AppendOption = Annotated[
    bool | None, typer.Option("--append-only/--no-append-only", help="Whether rows of its sources are only added.")
]
NeverFullOption = Annotated[
    bool | None, typer.Option("--never-full/--no-never-full", help="Whether it is never recomputed by itself.")
]
FullRowsOption = Annotated[
    int | None, typer.Option(min=0, help="Not recomputed by itself over sources of more rows; 0: no limit.")
]
FullSecondsOption = Annotated[
    int | None,
    typer.Option(min=0, help="Not recomputed by itself when that is estimated to take longer; 0: no limit."),
]
FuseOption = Annotated[int | None, typer.Option(min=0, help="A change of more rows of a source stops it; 0: no limit.")]
CaptureOption = Annotated[
    Capture | None, typer.Option(case_sensitive=False, help="How the source databases that it reads are captured.")
]
FoldOption = Annotated[FoldPolicy | None, typer.Option("--fold", case_sensitive=False, help="When the log is folded.")]
TierOption = Annotated[Declared | None, typer.Option(case_sensitive=False, help="How often it is worth refreshing.")]
ConsistencyOption = Annotated[
    Consistency | None, typer.Option(case_sensitive=False, help="Whether its paths to a source must agree.")
]
PolicyOption = Annotated[
    Policy | None, typer.Option(case_sensitive=False, help="A diamond is due with its first member, or its last.")
]


def create(
    context: typer.Context,
    name: Name,
    query: QueryText = None,
    file: QueryFile = None,
    function: Function = None,
    dialect: DialectOption = None,
    schedule: Schedule = None,
    mode: ModeOption = None,
    fold: FoldOption = None,
    partition_by: PartitionOption = None,
    append_only: AppendOption = None,
    tier: TierOption = None,
    diamond_consistency: ConsistencyOption = None,
    diamond_schedule_policy: PolicyOption = None,
    never_full: NeverFullOption = None,
    max_full_rows: FullRowsOption = None,
    max_full_seconds: FullSecondsOption = None,
    fuse_rows: FuseOption = None,
    cdc_mode: CaptureOption = None,
    empty: Annotated[bool, typer.Option("--empty", help="Create without data; the first refresh loads it.")] = False,
    existing: Annotated[Existing, typer.Option(case_sensitive=False, help="When the name is taken.")] = Existing.ERROR,
) -> None:
    """Create a stream table from a query."""
    run = invocation(context)
    definition = required_query(query, file, function)
    options = _given(
        schedule=schedule,
        refresh_mode=mode,
        fold_policy=fold,
        partition_by=partition_by,
        append_only=append_only,
        tier=tier,
        diamond_consistency=diamond_consistency,
        diamond_schedule_policy=diamond_schedule_policy,
        never_full=never_full,
        max_full_rows=max_full_rows,
        max_full_seconds=max_full_seconds,
        fuse_rows=fuse_rows,
        cdc_mode=cdc_mode,
        initialize=False if empty else None,
        dialect=dialect,
    )
    with run.open(create=True) as fl:
        make = {
            Existing.ERROR: fl.create_stream_table,
            Existing.REPLACE: fl.create_or_replace_stream_table,
            Existing.KEEP: fl.create_stream_table_if_not_exists,
        }[existing]
        with run.terminal.working(f"creating {name}"):
            make(name, definition, **options)
        _show(run, fl, name)


def alter(
    context: typer.Context,
    name: Name,
    query: QueryText = None,
    file: QueryFile = None,
    function: Function = None,
    dialect: DialectOption = None,
    schedule: Schedule = None,
    mode: ModeOption = None,
    status: Annotated[Wanted | None, typer.Option(case_sensitive=False, help="Pause or continue it.")] = None,
    fold: FoldOption = None,
    partition_by: PartitionOption = None,
    append_only: AppendOption = None,
    tier: TierOption = None,
    diamond_consistency: ConsistencyOption = None,
    diamond_schedule_policy: PolicyOption = None,
    never_full: NeverFullOption = None,
    max_full_rows: FullRowsOption = None,
    max_full_seconds: FullSecondsOption = None,
    fuse_rows: FuseOption = None,
    cdc_mode: CaptureOption = None,
) -> None:
    """Change the query or options of a stream table."""
    run = invocation(context)
    changes = _given(
        query=one_query(query, file, function),
        dialect=dialect,
        schedule=schedule,
        refresh_mode=mode,
        status=status,
        fold_policy=fold,
        partition_by=partition_by,
        append_only=append_only,
        tier=tier,
        diamond_consistency=diamond_consistency,
        diamond_schedule_policy=diamond_schedule_policy,
        never_full=never_full,
        max_full_rows=max_full_rows,
        max_full_seconds=max_full_seconds,
        fuse_rows=fuse_rows,
        cdc_mode=cdc_mode,
    )
    if not changes:
        raise typer.BadParameter("nothing to change: give a query or an option")
    with run.open() as fl:
        with run.terminal.working(f"altering {name}"):
            fl.alter_stream_table(name, **changes)
        _show(run, fl, name)


def drop(
    context: typer.Context,
    names: Names = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All of them, and the source databases with what was installed there.")
    ] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="Also the stream tables that read them.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A missing one is no error.")] = False,
) -> None:
    """Drop stream tables and their data."""
    run = invocation(context)
    require_choice(names, everything)
    with run.open() as fl:
        if everything:
            names = fl.drop_all()
        for name in () if everything else names or ():
            fl.drop_stream_table(name, if_exists=if_exists, cascade=cascade)
    run.terminal.dropped(names or ())


def resume(context: typer.Context, name: Name) -> None:
    """Continue a stream table that is suspended, in error or in quarantine."""
    run = invocation(context)
    with run.open() as fl:
        fl.resume(name)
        _show(run, fl, name)


def _given(**options: Any) -> dict[str, Any]:
    """Only what the user said; the API has the defaults."""
    return {name: value for name, value in options.items() if value is not None}


def _show(run: Invocation, fl: Freshlake, name: str) -> None:
    found = [table for table in fl.status() if table.name == TableName.parse(name).short]
    run.terminal.records(found, STATUS, "", SPARE)
