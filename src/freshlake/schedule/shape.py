"""What lies above what in a graph, as bit sets: worked out once per graph, then compared in one operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from freshlake.schedule.graph import Graph


@dataclass(frozen=True)
class Shape:
    """The nodes of a graph, stream tables upstream first and then base sources, each with a bit."""

    names: tuple[str, ...]
    bits: Mapping[str, int]
    above: Mapping[str, int]
    """A node and everything it reads, directly or through others."""
    roots: Mapping[str, int]
    """Of these, what reads nothing: base sources, and tables without any."""
    below: Mapping[str, int]
    """For a root: itself and everything that reads it."""

    def members(self, mask: int) -> Iterator[str]:
        """The names in a set, upstream first."""
        while mask:
            low = mask & -mask
            yield self.names[low.bit_length() - 1]
            mask ^= low


def shape_of(graph: Graph) -> Shape:
    """The shape of a graph, kept with it."""
    if Shape not in graph.kept:
        graph.kept[Shape] = _shape(graph)
    kept: Shape = graph.kept[Shape]
    return kept


def _shape(graph: Graph) -> Shape:
    names = (*graph.order(), *sorted(graph.sources))
    bits = {name: 1 << place for place, name in enumerate(names)}
    above: dict[str, int] = {source: bits[source] for source in graph.sources}
    roots: dict[str, int] = dict(above)
    below: dict[str, int] = {}
    for table in graph.order():
        above[table], roots[table] = bits[table], 0 if graph.reads[table] else bits[table]
        for name in graph.reads[table]:
            above[table] |= above[name]
            roots[table] |= roots[name]
    for name in names:
        for root in _bits(roots[name]):
            below[names[root]] = below.get(names[root], 0) | bits[name]
    return Shape(names, bits, above, roots, below)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
