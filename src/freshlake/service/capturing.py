"""Mirrors while a definition is taken: of the tables that it names, and none of them if it is not taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from freshlake.catalog.names import TableName
from freshlake.catalog.records import StreamTable
from freshlake.errors import TableNotFound
from freshlake.refresh.definition import Builder
from freshlake.service.captures import Captures

T = TypeVar("T")

_NAME = re.compile(r"`(\w+)`\.`(\w+)` cannot be found")


@dataclass
class Capturing:
    captures: Captures
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

    def _meant(self, error: TableNotFound) -> TableName | None:
        found = _NAME.search(error.message)
        return self.captures.meant(found[1], found[2]) if found else None


@contextmanager
def capturing(captures: Captures, query: str | Builder | None) -> Iterator[Capturing]:
    """What the query names has a mirror inside the block, and afterwards if somebody reads it then."""
    own = Capturing(captures)
    try:
        if isinstance(query, str):
            own.made += captures.ensure(captures.mentioned(query))
        yield own
    finally:
        captures.unread([str(mirror.full_name) for mirror in own.made])
