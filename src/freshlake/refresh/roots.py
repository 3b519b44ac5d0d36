"""Root positions: which state of the plain tables (and which moment) a stream table equals, through all that it reads.

Law: all paths from a stream table to one root lead to one position of it. A stream table over orders and over another
stream table over orders sees orders once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from freshlake.catalog.idle import Standing
from freshlake.catalog.records import STREAM_TABLE, StreamTable
from freshlake.sources.protocol import Position

Roots = Mapping[str, Position]

STREAM = STREAM_TABLE


@dataclass(frozen=True)
class Disagreement:
    """A root that is seen at several positions."""

    root: str
    positions: tuple[Position, ...]

    def __str__(self) -> str:
        versions = " and ".join(str(p.fingerprint or p.version) for p in self.positions)
        return f"{self.root} is seen at {versions}"


def stands_at(table: StreamTable | Standing, heads: Mapping[str, Position]) -> bool:
    """Whether a table was last refreshed to exactly these positions of exactly these sources."""
    known = (table.frontier or {}).get("sources", {})
    return set(known) == set(heads) and all(known[key] == head.to_json() for key, head in heads.items())


def from_json(frontier: Mapping[str, Any] | None) -> Roots | None:
    """The roots of a frontier; None for one that was written before roots were kept, or whose paths disagree."""
    if frontier is None or "roots" not in frontier or frontier.get("mixed"):
        return None
    return {key: Position.from_json(value) for key, value in frontier["roots"].items()}


def to_json(heads: Roots, upstream: Mapping[str, Roots | None]) -> dict[str, Any]:
    """What a frontier says about its roots: `mixed` lists those whose paths disagree."""
    seen = _seen(heads, upstream)
    agreed = {key: positions[0].to_json() for key, positions in sorted(seen.items()) if len(positions) == 1}
    mixed = {key: [p.to_json() for p in positions] for key, positions in sorted(seen.items()) if len(positions) > 1}
    if any(roots is None for roots in upstream.values()):
        return {}
    return {"roots": agreed, "mixed": mixed} if mixed else {"roots": agreed}


def aligned(heads: Roots, upstream: Mapping[str, Roots | None], done: Roots) -> Roots | Disagreement:
    """Heads under which all paths agree: a plain table can be read at any position, so it goes where the stream tables
    beside it stand, unless this table is past that already (`done`)."""
    moved = dict(heads)
    for root, positions in _seen({}, upstream).items():
        if len(positions) > 1:
            return Disagreement(root, tuple(positions))
        (there,) = positions
        own = heads.get(root)
        if own is None or own == there:
            continue
        past = done.get(root)
        if past is not None and (past.table_id != there.table_id or past.version > there.version):
            return Disagreement(root, (past, there))
        moved[root] = there
    return moved


def furthest(pins: Roots, known: Iterable[Roots]) -> dict[str, Position]:
    """Pins of a round, moved on to where anything stands that is read or written in it: nothing can go back.

    A position of another table under the same key says nothing about which is later.
    """
    moved = dict(pins)
    for roots in known:
        for key, at in roots.items():
            pin = moved.get(key)
            if pin is not None and pin.table_id == at.table_id and pin.version < at.version:
                moved[key] = at
    return moved


def is_past(shown: Roots, pins: Roots) -> bool:
    """Whether every root is shown where it is pinned, or later."""
    both = ((shown[key], pins[key]) for key in shown.keys() & pins.keys())
    return all(at.table_id == pin.table_id and at.version >= pin.version for at, pin in both)


def disagreement(known: Iterable[Roots]) -> Disagreement | None:
    """A root of which these do not show one position."""
    for root, positions in _seen({}, {str(n): roots for n, roots in enumerate(known)}).items():
        if len(positions) > 1:
            return Disagreement(root, tuple(positions))
    return None


def _seen(heads: Roots, upstream: Mapping[str, Roots | None]) -> dict[str, list[Position]]:
    seen: dict[str, list[Position]] = {key: [at] for key, at in heads.items() if not key.startswith(STREAM)}
    for roots in upstream.values():
        for key, at in (roots or {}).items():
            if at not in seen.setdefault(key, []):
                seen[key].append(at)
    return seen


@dataclass(frozen=True)
class Point:
    """A state of a stream table and the roots that it equals its query at."""

    generation: int
    version: int
    roots: Roots


def common(points: Mapping[str, Sequence[Point]]) -> dict[str, Point] | Disagreement:
    """The newest state of each table such that all agree on every root they share.

    `points` are newest first. A table that is ahead on a shared root steps back until it is not: positions only grow
    from point to point, so nothing newer is passed over.
    """
    at = dict.fromkeys(points, 0)
    while True:
        conflict = _conflict({name: points[name][i] for name, i in at.items()})
        if conflict is None:
            return {name: points[name][i] for name, i in at.items()}
        root, ahead = conflict
        for name in ahead:
            at[name] += 1
            if at[name] >= len(points[name]):
                kept = [points[n][min(i, len(points[n]) - 1)].roots for n, i in at.items()]
                return Disagreement(root, tuple(dict.fromkeys(r[root] for r in kept if root in r)))


def _conflict(chosen: Mapping[str, Point]) -> tuple[str, list[str]] | None:
    """A root on which the chosen states differ, and the tables that are ahead there."""
    for root in sorted({root for point in chosen.values() for root in point.roots}):
        seen = {name: point.roots[root] for name, point in chosen.items() if root in point.roots}
        if len(set(seen.values())) > 1:
            oldest = _oldest(seen.values())
            return root, [name for name, position in seen.items() if position != oldest]
    return None


def _oldest(positions: Iterable[Position]) -> Position:
    """By version; of two tables under one name neither is older, so the choice only has to be the same each time."""
    return min(positions, key=lambda p: (p.version, p.table_id, p.fingerprint))
