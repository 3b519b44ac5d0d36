"""The graph of stream tables with its groups, read again only when it has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from freshlake.catalog.enums import RefreshMode
from freshlake.catalog.store import Catalog
from freshlake.refresh.edges import graph, mirrors
from freshlake.schedule.graph import Graph
from freshlake.schedule.selection import Part, brought, followers, in_order, parts
from freshlake.schedule.state import Consistency
from freshlake.schedule.units import Groups, groups_of


@dataclass(frozen=True)
class Grouping:
    """`groups` are atomic diamonds and what users declared; an IMMEDIATE table belongs to what it reads besides."""

    version: int
    graph: Graph
    groups: Groups
    immediate: frozenset[str]

    @classmethod
    def read(cls, catalog: Catalog) -> Grouping:
        version, known, tables = catalog.graph_version(), graph(catalog), catalog.stream_tables()
        loose = [str(t.full_name) for t in tables if t.diamond_consistency != Consistency.ATOMIC]
        declared = [frozenset(map(str, group.members)) for group in catalog.groups()]
        declared += mirrors(str(t.full_name) for t in tables)
        immediate = frozenset(str(t.full_name) for t in tables if t.refresh_mode is RefreshMode.IMMEDIATE)
        return cls(version, known, groups_of(known, loose=loose, declared=declared), immediate)

    def with_table(self, name: str, reads: Iterable[str]) -> Grouping:
        """As it will be after a table is made or altered; groups are still those of before."""
        return replace(self, graph=self.graph.with_table(name, reads))

    def is_alone(self, name: str) -> bool:
        """Whether nothing comes along with a table."""
        if name in self.groups.of or self.graph.inputs(name):
            return False
        return self.immediate.isdisjoint(self.graph.readers(name))

    def mates(self, name: str) -> set[str]:
        """The tables that are published with one."""
        group = self.groups.of.get(name)
        mates = set(group.tables if group is not None else ()) | (self.graph.readers(name) & self.immediate)
        return (mates | (self.graph.inputs(name) if name in self.immediate else set())) - {name}

    def beside(self, part: Collection[str]) -> list[str]:
        """What is in the groups of tables that are refreshed together, and not among them."""
        groups = {self.groups.of[name].tables for name in part if name in self.groups.of}
        return sorted({name for names in groups for name in names} - set(part))

    def brought(self, names: Iterable[str]) -> set[str]:
        return brought(self.graph, self.groups, self.immediate, names)

    def parts(self, selected: Collection[str]) -> list[Part]:
        """What is refreshed and published as one, upstreams first."""
        return in_order(self.graph, parts(self.graph, self.groups, self.immediate, selected))

    def followers(self, names: Iterable[str]) -> tuple[str, ...]:
        """The IMMEDIATE tables that read these, directly or through others in that mode; in order."""
        return self.graph.order(followers(self.graph, self.immediate, names))
