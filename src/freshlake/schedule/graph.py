"""The dependency graph of stream tables: every table comes after all tables it reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any

from freshlake.errors import CycleDetected


@dataclass(frozen=True)
class Graph:
    """Stream tables and what each of them reads directly; a name that is only read is a base source."""

    reads: Mapping[str, frozenset[str]]
    databases: frozenset[str] = frozenset()
    """Base sources that hold many tables: who reads two of these meets one state of the database, and no diamond."""

    @classmethod
    def of(cls, reads: Mapping[str, Iterable[str]], databases: Iterable[str] = ()) -> Graph:
        return cls({table: frozenset(upstreams) for table, upstreams in reads.items()}, frozenset(databases))

    def with_table(self, table: str, upstreams: Iterable[str]) -> Graph:
        """The graph after creating or altering a table; raises CycleDetected when it would read itself."""
        changed = Graph({**self.reads, table: frozenset(upstreams)}, self.databases)
        changed.check()
        return changed

    def without_table(self, table: str) -> Graph:
        """The graph after dropping a table; tables that read it keep the name as a base source."""
        return Graph({name: reads for name, reads in self.reads.items() if name != table}, self.databases)

    def check(self) -> None:
        """Raise CycleDetected with the path when a table reads itself through any number of others."""
        cycle = self.cycle()
        if cycle:
            raise CycleDetected(f"stream table {cycle[0]} would depend on itself", detail=" -> ".join(cycle))

    def cycle(self) -> tuple[str, ...] | None:
        """A cycle as the path `a, b, a` (a reads b, b reads a), or None."""
        left = set(self.reads) - set(self._sorted_part)
        if not left:
            return None
        # what cannot be ordered reads something that cannot be ordered: walking on must come back
        path = [min(left)]
        while (following := min(self.reads[path[-1]] & left)) not in path:
            path.append(following)
        loop = path[path.index(following) :]
        start = loop.index(min(loop))
        return (*loop[start:], *loop[:start], loop[start])

    def order(self, tables: Iterable[str] | None = None) -> tuple[str, ...]:
        """The given stream tables (all by default), upstream before downstream, ties by name."""
        self.check()
        wanted = set(self.reads if tables is None else tables)
        return tuple(table for table in self._sorted_part if table in wanted)

    def upstream(self, table: str) -> frozenset[str]:
        """All stream tables that a table reads, directly or through others."""
        return self._reach(table, self._stream_upstreams)

    def downstream(self, table: str) -> frozenset[str]:
        """All stream tables that read a table or a base source, directly or through others."""
        return self._reach(table, self._readers)

    def inputs(self, table: str) -> frozenset[str]:
        """The stream tables that a table reads directly."""
        return self._stream_upstreams.get(table, frozenset())

    def readers(self, table: str) -> frozenset[str]:
        """The stream tables that read a table or a base source directly."""
        return self._readers.get(table, frozenset())

    @cached_property
    def sources(self) -> frozenset[str]:
        """The base sources."""
        return frozenset(name for upstreams in self.reads.values() for name in upstreams if name not in self.reads)

    @cached_property
    def levels(self) -> Mapping[str, int]:
        """0 for a table that reads no stream table, otherwise one more than the highest table it reads."""
        levels: dict[str, int] = {}
        for table in self.order():
            levels[table] = 1 + max((levels[name] for name in self._stream_upstreams[table]), default=-1)
        return levels

    @cached_property
    def kept(self) -> dict[Hashable, Any]:
        """What others have worked out of this graph, so that it is done once and goes with it."""
        return {}

    @cached_property
    def _stream_upstreams(self) -> Mapping[str, frozenset[str]]:
        return {
            table: frozenset(name for name in upstreams if name in self.reads)
            for table, upstreams in self.reads.items()
        }

    @cached_property
    def _readers(self) -> Mapping[str, frozenset[str]]:
        readers: dict[str, set[str]] = {}
        for table, upstreams in self.reads.items():
            for name in upstreams:
                readers.setdefault(name, set()).add(table)
        return {name: frozenset(tables) for name, tables in readers.items()}

    @cached_property
    def _sorted_part(self) -> tuple[str, ...]:
        """Kahn's algorithm; tables on or behind a cycle are left out."""
        waiting = {table: len(upstreams) for table, upstreams in self._stream_upstreams.items()}
        ready = [table for table, count in waiting.items() if count == 0]
        heapify(ready)
        done: list[str] = []
        while ready:
            table = heappop(ready)
            done.append(table)
            for reader in self._readers.get(table, ()):
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    heappush(ready, reader)
        return tuple(done)

    @staticmethod
    def _reach(start: str, edges: Mapping[str, frozenset[str]]) -> frozenset[str]:
        found: set[str] = set()
        pending = [start]
        while pending:
            for name in edges.get(pending.pop(), frozenset()) - found:
                found.add(name)
                pending.append(name)
        return frozenset(found)
