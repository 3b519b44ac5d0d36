"""Reports: status, history, sources, the dependency tree, explain and validate, as frozen records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from freshlake.catalog.enums import RefreshMode, RefreshStatus, Status
from freshlake.catalog.records import Refresh, StreamTable
from freshlake.compiler.explain import Explanation, explain
from freshlake.compiler.support import Reason
from freshlake.dialect import Dialect
from freshlake.errors import FreshlakeError
from freshlake.refresh.definition import Builder
from freshlake.refresh.pinned import pinned_settings
from freshlake.refresh.shape import output_schema
from freshlake.service.capturing import capturing
from freshlake.service.definitions import define_in
from freshlake.service.feasible import bound
from freshlake.service.planned import plan_of
from freshlake.service.tables import Tables


@dataclass(frozen=True)
class StreamTableStatus:
    name: str
    status: Status
    refresh_mode: RefreshMode
    schedule: str
    effective_schedule: str
    schedule_note: str | None
    next_due: datetime | None
    tier: str
    level: int
    staleness_seconds: float | None
    is_stale: bool
    last_refresh: datetime | None
    last_action: str | None
    last_reason: str | None
    consecutive_errors: int
    data_timestamp: datetime | None
    is_populated: bool
    rows: int | None
    version: int
    unfolded_versions: int
    depends_on: tuple[str, ...]
    query: str
    dialect: str


@dataclass(frozen=True)
class RefreshRecord:
    table: str
    refresh_id: str
    started: datetime
    ended: datetime | None
    status: RefreshStatus
    action: str | None
    reason: str | None
    rows_inserted: int
    rows_deleted: int
    rows_updated: int | None
    data_timestamp: datetime | None
    duration_ms: int | None
    source_changes: int | None
    version: int | None
    error_code: str | None
    error: str | None
    decision: Any


@dataclass(frozen=True)
class SourceInfo:
    stream_table: str
    source: str
    source_type: str
    columns_used: tuple[str, ...]
    position: int | None
    head: int | None
    pending: bool
    problem: str | None


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    ERROR = "ERROR"
    WARNING = "WARNING"


@dataclass(frozen=True)
class Finding:
    """Something that a person should act on."""

    severity: Severity
    code: str
    name: str
    message: str
    hint: str


@dataclass(frozen=True)
class Validation:
    differential: bool
    reasons: tuple[Reason, ...]
    columns: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]
    query: str


@dataclass(frozen=True)
class TreeLine:
    tree_line: str
    node: str
    node_type: str
    depth: int
    status: str | None
    refresh_mode: str | None


@dataclass
class Report:
    tables: Tables

    def status(self) -> list[StreamTableStatus]:
        catalog = self.tables.engine.catalog
        now = self.tables.engine.clock.now()
        plan = plan_of(self.tables.engine, now)
        found = []
        # one that was made or dropped in between is not listed yet, or no more
        for t in (t for t in catalog.stream_tables() if str(t.full_name) in plan.schedules):
            name = str(t.full_name)
            last = next(iter(catalog.history(t.id, 1)), None)
            found.append(
                StreamTableStatus(
                    name=t.full_name.short,
                    status=t.shown_status,
                    refresh_mode=t.refresh_mode,
                    schedule=t.schedule or "calculated",
                    effective_schedule=str(plan.schedules[name]),
                    schedule_note=plan.schedules[name].note,
                    next_due=plan.due.get(name),
                    tier=str(plan.seen[name].tier),
                    level=plan.levels[name],
                    staleness_seconds=(now - t.data_timestamp).total_seconds() if t.data_timestamp else None,
                    is_stale=name in plan.stale,
                    last_refresh=t.last_refresh_at,
                    last_action=str(last.action) if last and last.action else None,
                    last_reason=last.fallback_reason if last else None,
                    consecutive_errors=t.consecutive_errors,
                    data_timestamp=t.data_timestamp,
                    is_populated=t.is_populated,
                    rows=t.row_count,
                    version=max(t.version, 0),
                    unfolded_versions=unfolded_versions(t),
                    depends_on=tuple(e.source_name for e in catalog.dependencies(t.id)),
                    query=t.defining_query,
                    dialect=t.dialect,
                )
            )
        return found

    def history(self, table: StreamTable | None, limit: int) -> list[RefreshRecord]:
        catalog = self.tables.engine.catalog
        names = {t.id: t.full_name.short for t in catalog.stream_tables()}
        rows = catalog.history(table.id if table else None, limit)
        return [_record(r, names.get(r.stream_table_id, "?")) for r in rows]

    def sources(self, table: StreamTable | None) -> list[SourceInfo]:
        catalog = self.tables.engine.catalog
        chosen = [table] if table else list(catalog.stream_tables())
        return [info for t in chosen for info in self._sources_of(t)]

    def _sources_of(self, table: StreamTable) -> Iterator[SourceInfo]:
        engine = self.tables.engine
        known = (table.frontier or {}).get("sources", {})
        for edge in engine.catalog.dependencies(table.id):
            at = known.get(edge.source_key)
            head, problem = None, None
            try:
                head = engine.head(edge)
            except FreshlakeError as error:
                problem = f"{error.code}: {error.message}"
            yield SourceInfo(
                stream_table=table.full_name.short,
                source=edge.source_name,
                source_type=str(edge.source_type),
                columns_used=edge.columns_used or (),
                position=at["version"] if at else None,
                head=head.version if head else None,
                pending=head is not None and (at is None or head.to_json() != at),
                problem=problem,
            )

    def tree(self) -> list[TreeLine]:
        """Stream tables with what they read below them; sources are leaves marked [src]."""
        catalog = self.tables.engine.catalog
        tables = {str(t.full_name): t for t in catalog.stream_tables()}
        reads = {
            str(t.full_name): [
                str(catalog.get_by_id(e.stream_table_id).full_name) if e.stream_table_id else e.source_name
                for e in catalog.dependencies(t.id)
            ]
            for t in tables.values()
        }
        below = {n for sources in reads.values() for n in sources}
        tops = [n for n in tables if n not in below]
        return [line for n in tops for line in _branch(n, tables, reads, 0, "", "")]

    def explain(self, subject: str) -> Explanation:
        """Of a stream table by name, or of a query."""
        engine = self.tables.engine
        table = None
        if " " not in subject.strip() and ":" not in subject:
            table = engine.catalog.get(self.tables._name(subject))
        if table is None:
            settings = pinned_settings(engine.spark)
            with capturing(self.tables.captures, subject) as captured:
                definition = define_in(engine, subject, None, settings)
                compiled = captured.attempt(lambda: engine.compile(definition, settings))
                return explain(compiled, "query", definition.text, {})
        last = next(iter(engine.catalog.history(table.id, 1)), None)
        facts = {
            "mode": str(table.refresh_mode),
            "status": str(table.shown_status),
            "version": max(table.version, 0),
            "frontier": table.frontier,
            "last refresh": f"{last.action} {last.fallback_reason or ''}".strip() if last else "never",
            "last decision": last.decision if last else None,
        }
        if table.dialect != Dialect.SPARK:
            facts |= {"dialect": table.dialect, "written as": table.original_query}
        return explain(engine.compiled(table), table.full_name.short, table.defining_query, facts)

    def validate(self, query: str | Builder, dialect: str | None) -> Validation:
        engine = self.tables.engine
        settings = pinned_settings(engine.spark)
        with capturing(self.tables.captures, query) as captured:
            definition = define_in(engine, query, dialect, settings)
            compiled, _ = captured.attempt(lambda: bound(engine, definition, settings))
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(output_schema(compiled.root))
        return Validation(
            differential=not compiled.reasons,
            reasons=compiled.reasons,
            columns=tuple((f.name, f.dataType.simpleString()) for f in schema),
            sources=tuple(s.name or s.path for s in compiled.sources),
            query=definition.text,
        )


def unfolded_versions(table: StreamTable) -> int:
    """Versions that are in the log and not in the base."""
    return max(table.version, 0) - (table.folded_version or 0)


def _record(r: Refresh, name: str) -> RefreshRecord:
    return RefreshRecord(
        table=name,
        refresh_id=r.refresh_id,
        started=r.start_time,
        ended=r.end_time,
        status=r.status,
        action=str(r.action) if r.action else None,
        reason=r.fallback_reason,
        rows_inserted=r.rows_inserted,
        rows_deleted=r.rows_deleted,
        rows_updated=r.rows_updated,
        data_timestamp=r.data_timestamp,
        duration_ms=r.duration_ms,
        source_changes=r.source_changes,
        version=r.version,
        error_code=r.error_code,
        error=r.error_message,
        decision=r.decision,
    )


def _branch(
    name: str, tables: dict[str, StreamTable], reads: dict[str, list[str]], depth: int, lead: str, mark: str
) -> Iterator[TreeLine]:
    table = tables.get(name)
    shown = name.removeprefix("default.")
    if table is None:
        yield TreeLine(f"{lead}{mark}{shown} [src]", name, "source_table", depth, None, None)
        return
    yield TreeLine(
        f"{lead}{mark}{shown}", name, "stream_table", depth, str(table.shown_status), str(table.refresh_mode)
    )
    below = reads[name]
    lead += {"": "", "├─ ": "│  ", "└─ ": "   "}[mark]
    for i, child in enumerate(below):
        yield from _branch(child, tables, reads, depth + 1, lead, "└─ " if i == len(below) - 1 else "├─ ")
