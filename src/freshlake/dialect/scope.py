"""Which columns a part of a query sees, with their types: enough to choose a translation, never to resolve names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from freshlake.dialect.types import OTHER, Type, common


@dataclass(frozen=True)
class Output:
    """A column of a relation."""

    name: str
    type: Type


Columns = tuple[Output, ...]


@dataclass
class Scope:
    """The relations of one FROM clause, those of the queries around it, and the WITH queries in force."""

    parent: Scope | None = None
    relations: list[tuple[str | None, Columns]] = field(default_factory=list)
    star: Columns = ()
    queries: dict[str, Columns] = field(default_factory=dict)

    def add(self, alias: str | None, columns: Columns) -> None:
        self.relations.append((alias, columns))

    def with_query(self, name: str) -> Columns | None:
        """The columns of a WITH query."""
        for scope in self._outwards():
            if name in scope.queries:
                return scope.queries[name]
        return None

    def type_of(self, table: str | None, column: str) -> Type:
        """`other` when it is not known; a column that USING or NATURAL merges has the common type of both sides."""
        for scope in self._outwards():
            found = [
                output.type
                for alias, columns in scope.relations
                if table is None or alias == table
                for output in columns
                if output.name.lower() == column
            ]
            if found:
                return common(found) or OTHER
        return OTHER

    def all_columns(self, table: str | None = None) -> Columns:
        """What a star stands for, roughly: merged columns are there twice."""
        return tuple(c for alias, columns in self.relations if table is None or alias == table for c in columns)

    def _outwards(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


def renamed(columns: Columns, names: list[str]) -> Columns:
    """With the first columns named anew, as in AS t(a, b)."""
    return tuple(Output(names[i] if i < len(names) else c.name, c.type) for i, c in enumerate(columns))
