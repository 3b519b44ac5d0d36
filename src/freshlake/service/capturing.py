"""Mirrors while a definition is taken: of the tables that it names, and none of them if it is not taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.errors import InvalidQuery, TableNotFound
from freshlake.refresh.definition import Builder
from freshlake.service.captures import Captures
from freshlake.service.rounds import Rounds
from freshlake.statements.relations import has_star
from freshlake.statements.target import mentioned

T = TypeVar("T")
Bound = tuple[CompiledQuery, tuple[Dependency, ...]]
"""What a definition compiles to, and reads."""

_NAME = re.compile(r"`(\w+)`\.`(\w+)` cannot be found")


@dataclass
class Capturing:
    captures: Captures
    query: str | Builder | None
    made: list[StreamTable] = field(default_factory=list)

    def attempt(self, act: Callable[[], T]) -> T:
        """Do something that looks names up; a captured table that a view or a function reads shows only there."""
        while True:
            try:
                return act()
            except TableNotFound as error:
                name = self._meant(error)
                if name is None or self.captures.engine.catalog.find(name) is not None:
                    raise
                self.made += self.captures.ensure([name])

    def bound(self, act: Callable[[], Bound], rounds: Rounds) -> Bound:
        """Look names up in mirrors that have the columns that their tables have by now, if that may matter."""
        if isinstance(self.query, str) and has_star(self.query):
            self._reshape(self._named(), rounds)
        try:
            found = self.attempt(act)
        except InvalidQuery:
            if not self._reshape(self._named(), rounds):
                raise
            return self.attempt(act)
        # a column that nobody has read may be gone by now
        return self.attempt(act) if self._reshape(self.captures.lacking(found[1]), rounds) else found

    def _named(self) -> set[TableName]:
        """The captured tables that the query may name; what a function does shows only when it runs."""
        if isinstance(self.query, str):
            return self.captures.mentioned(self.query)
        return {table.full_name for table in self.captures.engine.catalog.stream_tables() if table.is_mirror}

    def _reshape(self, names: Iterable[TableName], rounds: Rounds) -> bool:
        """Give mirrors the columns that their tables have by now; whether those were others."""
        words = mentioned(self.query) if isinstance(self.query, str) and not has_star(self.query) else None
        found = self.captures.reshaped(names, words)
        for mirror in {table.full_name.database: table for table in found}.values():
            rounds.refresh(mirror, None, waits=True)
        return bool(found)

    def _meant(self, error: TableNotFound) -> TableName | None:
        found = _NAME.search(error.message)
        return self.captures.meant(found[1], found[2]) if found else None


@contextmanager
def capturing(captures: Captures, query: str | Builder | None) -> Iterator[Capturing]:
    """What the query names has a mirror inside the block, and afterwards if somebody reads it then."""
    own = Capturing(captures, query)
    try:
        if isinstance(query, str):
            own.made += captures.ensure(captures.mentioned(query))
        yield own
    finally:
        captures.unread([str(mirror.full_name) for mirror in own.made])
