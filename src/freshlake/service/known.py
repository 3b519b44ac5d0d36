"""The graph as a scheduler knows it: brought up to date by what has changed since it last looked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from freshlake.catalog.records import Dependency
from freshlake.catalog.store import Catalog
from freshlake.catalog.watching import Reader
from freshlake.refresh.edges import graph_of, mirrors
from freshlake.schedule.graph import Graph


@dataclass(frozen=True)
class Dag:
    """Stream tables, what they read, and what users declared about them, at one version of the graph."""

    graph: Graph
    edges: Mapping[str, tuple[Dependency, ...]]
    ids: Mapping[str, int]
    declared: tuple[frozenset[str], ...]
    """Refresh groups, and the mirrors of each source database."""


@dataclass
class Known:
    catalog: Catalog
    _version: int | None = None
    _readers: dict[int, Reader] = field(default_factory=dict)
    _dag: Dag | None = None

    def current(self) -> Dag:
        """The graph now; only tables that were made, changed or dropped since the last call are read."""
        change = self.catalog.graph_since(self._version)
        if self._dag is None or change.version != self._version:
            kept = {} if change.is_whole else {i: r for i, r in self._readers.items() if i not in change.gone}
            self._readers = kept | {reader.id: reader for reader in change.tables}
            self._dag, self._version = self._made(), change.version
        return self._dag

    def _made(self) -> Dag:
        readers = self._readers.values()
        names = [reader.name for reader in readers]
        return Dag(
            graph_of(self._readers),
            {reader.name: reader.edges for reader in readers},
            {reader.name: reader.id for reader in readers},
            (*(frozenset(map(str, group.members)) for group in self.catalog.groups()), *mirrors(names)),
        )
