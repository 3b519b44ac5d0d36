"""A history: tables, queries over them, and rounds of changes. As a value it can be made smaller, as SQL it is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from tests.property.query import Col, Query, reads

DIFFERENTIAL = "DIFFERENTIAL"


@dataclass(frozen=True)
class SourceTable:
    name: str
    columns: tuple[tuple[str, str], ...]
    """(name, SQL type)."""
    options: str
    rows: tuple[str, ...]
    """Rows of the first INSERT, each as a SQL tuple."""

    def sql(self) -> tuple[str, ...]:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        create = f"CREATE TABLE {self.name} ({columns}) USING delta{self.options}"
        return (create, f"INSERT INTO {self.name} VALUES {', '.join(self.rows)}") if self.rows else (create,)


@dataclass(frozen=True)
class Change:
    table: str
    sql: str


@dataclass(frozen=True)
class Act:
    """What happens to one stream table in a round; mode None leaves it behind."""

    query: str
    mode: str | None = DIFFERENTIAL
    fold: bool = False


@dataclass(frozen=True)
class Turn:
    changes: tuple[Change, ...]
    acts: tuple[Act, ...]
    reconnect: bool = False


@dataclass(frozen=True)
class Case:
    tables: tuple[SourceTable, ...]
    queries: Mapping[str, Query]
    turns: tuple[Turn, ...]

    def script(self) -> Script:
        return Script(
            setup=tuple(s for t in self.tables for s in t.sql()),
            tables=tuple(t.name for t in self.tables),
            queries={name: query.sql() for name, query in self.queries.items()},
            rounds=tuple(
                Round(tuple(c.sql for c in t.changes), tuple((a.query, a.mode, a.fold) for a in t.acts), t.reconnect)
                for t in self.turns
            ),
        )

    def only(self, query: str, turns: int) -> Case:
        """This query with what it reads, and the first rounds."""
        wanted, frontier = set(), {query}
        while frontier:
            name = frontier.pop()
            wanted.add(name)
            frontier |= set(reads(self.queries[name])) if name in self.queries else set()
        return Case(
            tuple(t for t in self.tables if t.name in wanted),
            {n: q for n, q in self.queries.items() if n in wanted},
            tuple(_restricted(t, wanted) for t in self.turns[:turns]),
        )


def _restricted(turn: Turn, wanted: set[str]) -> Turn:
    changes = tuple(c for c in turn.changes if c.table in wanted)
    return replace(turn, changes=changes, acts=tuple(a for a in turn.acts if a.query in wanted))


@dataclass(frozen=True)
class Round:
    changes: tuple[str, ...]
    refreshes: tuple[tuple[str, str | None, bool], ...] = ()
    """(stream table, mode or None to leave it behind, fold it after the refresh); by default all, differentially."""
    reconnect: bool = False


@dataclass(frozen=True)
class Script:
    """A history as plain SQL: what is kept as an example, and what is run."""

    setup: tuple[str, ...]
    tables: tuple[str, ...]
    queries: Mapping[str, str] = field(default_factory=dict)
    rounds: tuple[Round, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Script:
        data = json.loads(text)
        rounds = tuple(
            Round(tuple(r["changes"]), tuple((q, m, f) for q, m, f in r["refreshes"]), r["reconnect"])
            for r in data["rounds"]
        )
        return cls(tuple(data["setup"]), tuple(data["tables"]), dict(data["queries"]), rounds)


__all__ = ["DIFFERENTIAL", "Act", "Case", "Change", "Col", "Round", "Script", "SourceTable", "Turn"]
