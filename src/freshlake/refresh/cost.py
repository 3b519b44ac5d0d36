"""What the two ways of a refresh would take, learned from the refreshes before it; pure, and cautious where it guesses.

DIFFERENTIAL takes a fixed time and a time per changed row, FULL a fixed time and a time per row that it handles: source
rows read, stored rows read and compared, changed rows written. Both lines are fitted to what was measured, so that a
few slow refreshes on a busy machine do not bend them, and refreshes like the one at hand count most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from freshlake.compiler.complexity import Complexity
from freshlake.refresh.line import Line, Point, fit


class Way(StrEnum):
    """What was measured. A load writes a table that was empty, so it has nothing to compare with."""

    DIFFERENTIAL = "differential"
    FULL = "full"
    LOAD = "load"


class Basis(StrEnum):
    """What an estimate rests on."""

    MEASURED = "measured"
    """On refreshes of this way, of about this size."""
    EXTENDED = "extended"
    """On refreshes of this way of other sizes."""
    COLD = "cold"
    """On refreshes of this way that were each the first of a process, and slower for it."""
    DERIVED = "derived"
    """On the other way, or on sizes too far from this one."""


@dataclass(frozen=True)
class Volume:
    """How much there is to do: rows that changed, rows of the sources and of the table, and how each source changed."""

    changed_rows: int
    source_rows: int
    target_rows: int
    shape: tuple[str, ...] = ()

    def handled(self, way: Way) -> int:
        """Rows that pass through one way."""
        if way is Way.DIFFERENTIAL:
            return self.changed_rows
        if way is Way.LOAD:
            return self.source_rows + self.target_rows
        return self.source_rows + 2 * self.target_rows + self.changed_rows


@dataclass(frozen=True)
class Sample:
    """One refresh as it was measured: from the start of its computation to the end of its append."""

    way: Way
    ms: float
    volume: Volume
    cold: bool = False
    """The first of its kind in a process: it also compiled and filled caches."""

    def to_json(self) -> dict[str, Any]:
        cold = {"cold": True} if self.cold else {}
        volume = {**asdict(self.volume), "shape": list(self.volume.shape)}
        return {"way": str(self.way), "ms": round(self.ms, 1), **volume, **cold}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Sample:
        volume = Volume(data["changed_rows"], data["source_rows"], data["target_rows"], tuple(data["shape"]))
        return cls(Way(data["way"]), data["ms"], volume, data.get("cold", False))


@dataclass(frozen=True)
class Estimate:
    """`fixed_ms + per_row_ms * rows`, and by what factor the truth may be lower or higher."""

    fixed_ms: float
    per_row_ms: float
    rows: int
    samples: int
    basis: Basis

    @property
    def ms(self) -> float:
        return self.fixed_ms + self.per_row_ms * self.rows

    @property
    def low(self) -> float:
        return self.ms / _TOO_HIGH[self.basis]

    @property
    def high(self) -> float:
        return self.ms * _TOO_LOW[self.basis]


@dataclass(frozen=True)
class Costs:
    """What both ways would take; `refreshes` is how many the table has had with data."""

    differential: Estimate
    full: Estimate
    refreshes: int
    settled: bool = False
    """Both ways were measured several times at about this size."""

    def to_json(self) -> dict[str, Any]:
        ways = {"differential": self.differential, "full": self.full}
        shown = {name: {**asdict(e), "basis": str(e.basis), "ms": round(e.ms, 1)} for name, e in ways.items()}
        return {**shown, "refreshes": self.refreshes, "settled": self.settled}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Costs:
        differential, full = (_estimate_of(data[name]) for name in ("differential", "full"))
        return cls(differential, full, data["refreshes"], data["settled"])


def _estimate_of(data: Mapping[str, Any]) -> Estimate:
    return Estimate(data["fixed_ms"], data["per_row_ms"], data["rows"], data["samples"], Basis(data["basis"]))


_TOO_HIGH = {Basis.MEASURED: 1.0, Basis.EXTENDED: 2.0, Basis.COLD: 3.0, Basis.DERIVED: 4.0}
"""By what factor an estimate may be too high: what disturbs a measurement makes it slower, hardly ever faster."""
_TOO_LOW = {Basis.MEASURED: 1.0, Basis.EXTENDED: 1.3, Basis.COLD: 1.0, Basis.DERIVED: 2.0}
_PER_SIZE = 8
_FORGETTING = 0.85
"""What a sample counts against the next newer one of its size."""
_COLD, _LOAD, _OTHER_SHAPE = 0.2, 0.2, 0.3
"""What samples count that are less like the refresh at hand: cold, of an empty table, with other sources changed."""
_NEAR = math.log10(3)
"""Sizes within this many powers of ten are about the same."""
_REACH = 3
"""How far beyond the largest change a line is trusted, as a factor."""
_SPARE = 1.3
_ENOUGH, _MANY = 2, 3
_ROW_COST = {
    Complexity.SCAN: 2.0,
    Complexity.FILTER: 2.0,
    Complexity.AGGREGATE: 4.0,
    Complexity.JOIN: 6.0,
    Complexity.JOIN_AGG: 8.0,
}
"""A first guess at how many rows of a FULL one changed row costs; only for sizes that were never measured."""
_FIXED_MS = 300.0
"""A first guess at what the smallest refresh takes."""


def kept(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """The newest few of every way and size, newest first: many small refreshes must not push the rare large one out."""
    found: dict[tuple[Way, int], int] = {}
    chosen = []
    for sample in samples:
        key = (sample.way, _size(sample))
        found[key] = found.get(key, 0) + 1
        if found[key] <= _PER_SIZE:
            chosen.append(sample)
    return tuple(chosen)


def _size(sample: Sample) -> int:
    """Half a power of ten."""
    return int(2 * math.log10(sample.volume.handled(sample.way) + 1))


def estimate(samples: Sequence[Sample], refreshes: int, volume: Volume, kind: Complexity) -> Costs | None:
    """Both ways for this volume, from samples in the order newest first; None when nothing was measured."""
    known = [s for s in kept(samples) if s.ms > 0]
    changes = [s for s in known if s.way is Way.DIFFERENTIAL]
    whole = [s for s in known if s.way is not Way.DIFFERENTIAL]
    if not known:
        return None
    full = _full(whole, volume) if whole else _full_from(_differential(changes, volume), volume, kind)
    differential = _differential(changes, volume) if changes else _differential_from(full, volume, kind)
    if changes and differential.basis is Basis.DERIVED:
        differential = _at_least(differential, full, kind)
    near, real = _near(changes, volume, Way.DIFFERENTIAL), _near(whole, volume, Way.FULL)
    return Costs(differential, full, refreshes, min(len(near), len(real)) >= _MANY)


def _differential(samples: Sequence[Sample], volume: Volume) -> Estimate:
    line = fit(_weighted(samples, volume, Way.DIFFERENTIAL))
    near = _near(samples, volume, Way.DIFFERENTIAL)
    largest = max(s.volume.changed_rows for s in samples)
    basis = Basis.MEASURED if len(near) >= _ENOUGH else Basis.EXTENDED
    if volume.changed_rows > _REACH * largest:
        basis = Basis.DERIVED
    return Estimate(line.fixed, line.per_row, volume.changed_rows, len(samples), basis)


def _full(samples: Sequence[Sample], volume: Volume) -> Estimate:
    """A table that grew is taken to cost in proportion, one that shrank as much as before, until both were seen.

    FULL is rare, so one slow refresh may be all there is; but what was once done faster can be done so again.
    """
    rows = volume.handled(Way.FULL)
    points = _weighted(samples, volume, Way.FULL)
    scaled = [Point(0, p.y * max(1.0, rows / max(1, p.x)), p.weight) for p in points]
    sizes = [p.x for p in points]
    line = fit(points if max(sizes) >= 2 * max(1, min(sizes)) else scaled)
    fastest = _SPARE * min(p.y for p in scaled)
    if fastest < line.at(rows):
        line = Line(fastest, 0.0)
    return Estimate(line.fixed, line.per_row, rows, len(samples), _basis_of_full(samples, volume))


def _basis_of_full(samples: Sequence[Sample], volume: Volume) -> Basis:
    if all(s.way is Way.LOAD for s in samples):
        return Basis.DERIVED
    if all(s.way is Way.LOAD or s.cold for s in samples):
        return Basis.COLD
    return Basis.MEASURED if len(_near(samples, volume, Way.FULL)) >= _ENOUGH else Basis.EXTENDED


def _differential_from(full: Estimate, volume: Volume, kind: Complexity) -> Estimate:
    """Never seen: a changed row costs several rows of a FULL, by the class of the query."""
    per_row = _ROW_COST[kind] * full.ms / max(1, full.rows)
    return Estimate(min(_FIXED_MS, full.ms), per_row, volume.changed_rows, 0, Basis.DERIVED)


def _full_from(differential: Estimate, volume: Volume, kind: Complexity) -> Estimate:
    per_row = differential.per_row_ms / _ROW_COST[kind]
    return Estimate(differential.fixed_ms, per_row, volume.handled(Way.FULL), 0, Basis.DERIVED)


def _at_least(differential: Estimate, full: Estimate, kind: Complexity) -> Estimate:
    """Small changes say little about the time per row, so far beyond them it is not taken to be less than the guess."""
    per_row = max(differential.per_row_ms, _ROW_COST[kind] * full.ms / max(1, full.rows))
    return Estimate(differential.fixed_ms, per_row, differential.rows, differential.samples, differential.basis)


def _near(samples: Sequence[Sample], volume: Volume, way: Way) -> list[Sample]:
    return [s for s in samples if s.way is way and not s.cold and _distance(s, volume, way) <= _NEAR]


def _distance(sample: Sample, volume: Volume, way: Way) -> float:
    """Powers of ten between the sizes."""
    return abs(math.log10((sample.volume.handled(sample.way) + 1) / (volume.handled(way) + 1)))


def _weighted(samples: Sequence[Sample], volume: Volume, way: Way) -> list[Point]:
    ranks: dict[int, int] = {}
    points = []
    for sample in samples:
        size = _size(sample)
        weight = _FORGETTING ** ranks.get(size, 0) / (1 + (_distance(sample, volume, way) / _NEAR) ** 2)
        ranks[size] = ranks.get(size, 0) + 1
        weight *= _COLD if sample.cold else 1
        weight *= _LOAD if sample.way is Way.LOAD else 1
        weight *= _OTHER_SHAPE if way is Way.DIFFERENTIAL and sample.volume.shape != volume.shape else 1
        points.append(Point(sample.volume.handled(sample.way), sample.ms, weight))
    return points


def verdict(costs: Costs, margin: float) -> Way | None:
    """The way that is clearly cheaper; None leaves it open, which only happens where one way is not well known.

    Where both were measured, DIFFERENTIAL wins unless FULL is clearly cheaper; the more was measured, the less is
    needed to be clear.
    """
    differential, full = costs.differential, costs.full
    if full.high < (1 - (1 - margin) / 4 if costs.settled else margin) * differential.low:
        return Way.FULL
    known = differential.basis is Basis.MEASURED and full.basis is Basis.MEASURED
    return Way.DIFFERENTIAL if known or differential.high < margin * full.low else None
