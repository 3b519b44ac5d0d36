"""Whether what readers see is right: published states against the queries over the sources, computed by DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import sqlglot
from deltalake import DeltaTable

import freshlake
from freshlake.catalog.enums import RefreshMode
from freshlake.catalog.records import StreamTable
from freshlake.errors import NotAligned
from freshlake.refresh.roots import Disagreement, Point, Roots, common, from_json
from freshlake.sources.protocol import Position
from tests.soak.dag import Defined

Bag = Counter[tuple[Any, ...]]


@dataclass
class Checker:
    """Compares; `wrong` collects what differs."""

    fl: freshlake.Freshlake
    defined: Sequence[Defined]
    paths: Mapping[str, Path]
    wrong: list[str] = field(default_factory=list)
    states: int = 0
    snapshots: int = 0
    ages: list[float] = field(default_factory=list)
    """How old the states of random snapshots were, in seconds."""

    def check(self, chance: random.Random) -> None:
        """Everything that is published now, and a snapshot of some tables that have nothing else in common."""
        self.published()
        self._snapshot(chance.sample([d.name for d in self.defined], 6))

    def published(self) -> None:
        """All published states of one moment; those of a group show one state of every source."""
        tables = {t.name: t for t in self.fl._engine.catalog.stream_tables()}
        for names in self._units(tables):
            chosen = common({name: self._points(tables[name]) for name in names})
            if isinstance(chosen, Disagreement):
                self._say(f"published together, but not of one moment: {', '.join(names)}: {chosen}")
                continue
            roots = {key: at for point in chosen.values() for key, at in point.roots.items()}
            expected = self._expected(roots, names)
            for name, point in chosen.items():
                frame = self.fl._reading.state_at(tables[name], point.generation, point.version)
                self._compare(name, f"version {point.version}", _bag(frame.collect()), expected[name])

    def _snapshot(self, names: Sequence[str]) -> None:
        try:
            snapshot = self.fl.snapshot(*names)
        except NotAligned as error:  # all were loaded from one state, so there is one at least
            self._say(f"{error.message}: {error.detail}")
            return
        roots = {key: Position.from_json(at) for key, at in snapshot.roots.items()}
        expected = self._expected(roots, names)
        for name in names:
            self._compare(name, "in a snapshot", _bag(snapshot[name].collect()), expected[name])
        self.snapshots += 1
        self.ages.append(self._age(names, roots))

    def _units(self, tables: Mapping[str, StreamTable]) -> Iterator[tuple[str, ...]]:
        """Tables that are published together. One in mode IMMEDIATE goes ahead of its group with a write."""
        of = self.fl._rounds.known().groups.of
        members = {
            of[str(t.full_name)].tables if str(t.full_name) in of else (str(t.full_name),) for t in tables.values()
        }
        for names in sorted(members):
            found = [tables[name.removeprefix("default.")] for name in names]
            ahead = [t.name for t in found if t.refresh_mode is RefreshMode.IMMEDIATE]
            rest = [t.name for t in found if t.refresh_mode is not RefreshMode.IMMEDIATE]
            yield from ((name,) for name in ahead)
            if rest:
                yield tuple(rest)

    def _points(self, table: StreamTable) -> list[Point]:
        """The moments at which the query has the published rows, newest first."""
        seen = (table.published_generation, table.published_version)
        found = [p for p in self.fl._engine.catalog.points(table.id) if (p.generation, p.version) == seen]
        return [Point(p.generation, p.version, from_json({"roots": p.roots}) or {}) for p in found]

    def _expected(self, roots: Roots, names: Sequence[str]) -> dict[str, Bag]:
        """The queries over the sources at these positions, in a database that knows nothing of stream tables."""
        places = {str(path): source for source, path in self.paths.items()}
        at = {places[key]: position.version for key, position in roots.items()}
        with duckdb.connect() as database:
            for source, path in self.paths.items():
                database.register(source, DeltaTable(str(path), version=at.get(source)).to_pyarrow_table())
            for table in self.defined:
                query = sqlglot.transpile(table.query, read="spark", write="duckdb")[0]
                database.execute(f"CREATE VIEW {table.name} AS {query}")
            return {name: Counter(database.execute(f"FROM {name}").fetchall()) for name in names}

    def _compare(self, name: str, what: str, found: Bag, expected: Bag) -> None:
        self.states += 1
        missing, unexpected = sum((expected - found).values()), sum((found - expected).values())
        if missing or unexpected:
            self._say(f"{name} {what}: {missing} missing, {unexpected} unexpected")

    def _age(self, names: Sequence[str], roots: Roots) -> float:
        """Since when the oldest of the states is no longer the newest one of its table that readers may see."""
        now, left = datetime.now(UTC), []
        for name in names:
            table = self.fl._engine.catalog.get(name)
            newer = None
            for point in self.fl._reading.published_points(table):
                known = from_json({"roots": point.roots}) or {}
                if all(roots[key] == at for key, at in known.items()):
                    break
                newer = point
            left.append(0.0 if newer is None else (now - newer.at).total_seconds())
        return max(left)

    def _say(self, line: str) -> None:
        self.wrong.append(line)
        print(f"WRONG: {line}", flush=True)


def _bag(rows: Sequence[Any]) -> Bag:
    return Counter(tuple(row) for row in rows)
