"""What a process knows of the times of a table's refreshes: read from the history once, then kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from freshlake.catalog.enums import Action
from freshlake.catalog.records import Json, StreamTable
from freshlake.catalog.store import Catalog
from freshlake.compiler.compile import CompiledQuery
from freshlake.refresh.cost import Costs, Sample, Volume, Way, estimate, kept
from freshlake.refresh.inputs import SourceSpan
from freshlake.refresh.situation import SourceChange
from freshlake.sources.protocol import ChangeKind

MEASURED = "measured"
"""Where the history's record of a decision keeps what the refresh took."""

_DIFFERENTIALS, _RECOMPUTES = 300, 50


@dataclass(frozen=True)
class _Experience:
    stamp: tuple[int, int, str]
    samples: tuple[Sample, ...]
    """Newest first."""
    refreshes: int


class Learned:
    """One per engine. Refreshes of another process are noticed by the table's version."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[int, _Experience] = {}
        self._warm: set[tuple[int, Way]] = set()

    def costs(self, table: StreamTable, compiled: CompiledQuery, changes: Mapping[str, SourceChange]) -> Costs | None:
        """What both ways would take now; None when that cannot be said."""
        volume = _pending(table, changes)
        if volume is None or table.frontier is None:
            return None
        known = self._experience(table, compiled)
        return estimate(known.samples, known.refreshes, volume, compiled.complexity)

    def full_ms(self, table: StreamTable, compiled: CompiledQuery, changes: Mapping[str, SourceChange]) -> float | None:
        """What a FULL would take; also where it is not known what has changed, and for a query that is new."""
        sizes = [c.rows for c in changes.values() if c.rows is not None]
        if len(sizes) < len(changes):
            return None
        changed = sum((c.rows if c.triage.rows is None else c.triage.rows) or 0 for c in changes.values())
        known = self._experience(table, compiled)
        samples = known.samples or kept(Sample.from_json(r[MEASURED]) for r in self._decisions(table) if MEASURED in r)
        volume = Volume(changed, sum(sizes), table.row_count or 0)
        found = estimate(samples, known.refreshes, volume, compiled.complexity)
        return round(found.full.ms, 1) if found else None

    def measured(
        self,
        table: StreamTable,
        compiled: CompiledQuery,
        action: Action,
        sources: Mapping[str, Any],
        spans: Mapping[str, SourceSpan],
        target_rows: int | None,
        ms: float,
    ) -> dict[str, Any]:
        """What the history keeps of a refresh that did something, given what it was decided from."""
        sample = _sample(table, action, sources, spans, target_rows, ms)
        if sample is None:
            return {}
        key = (table.id, sample.way)
        sample = Sample(sample.way, sample.ms, sample.volume, cold=key not in self._warm)
        self._warm.add(key)
        query = {"query": _short(compiled), "complexity": str(compiled.complexity)}
        return {MEASURED: {**sample.to_json(), **query}}

    def add(self, before: StreamTable, after: StreamTable, compiled: CompiledQuery, decision: Json) -> None:
        """Take note of a refresh that was committed, if the ones before it are known."""
        known = self._known.get(before.id)
        if MEASURED not in decision or known is None or known.stamp != _stamp(before, compiled):
            return
        samples = kept((Sample.from_json(decision[MEASURED]), *known.samples))
        self._known[before.id] = _Experience(_stamp(after, compiled), samples, known.refreshes + 1)

    def _experience(self, table: StreamTable, compiled: CompiledQuery) -> _Experience:
        known, stamp = self._known.get(table.id), _stamp(table, compiled)
        if known is None or known.stamp != stamp:
            known = self._known[table.id] = _Experience(stamp, *self._read(table, compiled))
        return known

    def _read(self, table: StreamTable, compiled: CompiledQuery) -> tuple[tuple[Sample, ...], int]:
        mine = [
            r[MEASURED] for r in self._decisions(table) if MEASURED in r and r[MEASURED]["query"] == _short(compiled)
        ]
        return kept(Sample.from_json(m) for m in mine), len(mine)

    def _decisions(self, table: StreamTable) -> tuple[Json, ...]:
        """FULL is rare, so it is looked for farther back."""
        return (
            *self._catalog.decisions(table.id, (Action.DIFFERENTIAL,), _DIFFERENTIALS),
            *self._catalog.decisions(table.id, (Action.FULL, Action.REINITIALIZE), _RECOMPUTES),
        )


def _stamp(table: StreamTable, compiled: CompiledQuery) -> tuple[int, int, str]:
    return table.generation, table.version, compiled.fingerprint


def _short(compiled: CompiledQuery) -> str:
    return compiled.fingerprint[:12]


def _pending(table: StreamTable, changes: Mapping[str, SourceChange]) -> Volume | None:
    changed = {k: c for k, c in changes.items() if c.kind is not ChangeKind.NONE}
    rows = [c.triage.rows for c in changed.values() if c.triage.rows is not None]
    sizes = [c.rows for c in changes.values() if c.rows is not None]
    if not changed or len(rows) < len(changed) or len(sizes) < len(changes):
        return None
    return Volume(sum(rows), sum(sizes), table.row_count or 0, _shape({k: str(c.kind) for k, c in changed.items()}))


def _shape(kinds: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{key}:{kind}" for key, kind in sorted(kinds.items()) if kind != ChangeKind.NONE)


def _sample(
    table: StreamTable,
    action: Action,
    sources: Mapping[str, Any],
    spans: Mapping[str, SourceSpan],
    target_rows: int | None,
    ms: float,
) -> Sample | None:
    way = Way.DIFFERENTIAL if action is Action.DIFFERENTIAL else Way.FULL
    if action is Action.REINITIALIZE or not table.is_populated:
        way = Way.LOAD
    changed = [s["changed_rows"] for s in sources.values() if s["change"] != ChangeKind.NONE]
    sizes = [span.rows for span in spans.values()]
    if None in sizes or (way is Way.DIFFERENTIAL and None in changed):
        return None
    shape = _shape({k: s["change"] for k, s in sources.items()}) if way is Way.DIFFERENTIAL else ()
    pending = 0 if way is Way.LOAD else sum(n or 0 for n in changed)
    return Sample(way, ms, Volume(pending, sum(n or 0 for n in sizes), target_rows or 0, shape))
