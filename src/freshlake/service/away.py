"""Source databases that did not answer: until they do, only who needs them waits for them, not a whole tick."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from freshlake.catalog.enums import SourceType
from freshlake.catalog.records import Dependency


@dataclass
class Away:
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _keys: frozenset[str] = frozenset()

    def without(self, edges: Iterable[Dependency]) -> Iterator[Dependency]:
        """Edges to all but the databases that did not answer when they were last asked."""
        away = self._keys
        return (edge for edge in edges if edge.source_key not in away)

    def note(self, edges: Iterable[Dependency], unreachable: Iterable[str]) -> None:
        """These sources could not be looked at; a database costs a time-out each time."""
        databases = {edge.source_key for edge in edges if edge.source_type is SourceType.POSTGRES}
        with self._lock:
            self._keys |= databases & set(unreachable)

    def back(self, key: str) -> None:
        """A database has answered."""
        with self._lock:
            self._keys -= {key}
