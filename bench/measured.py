"""What was measured, as plain values: the report and the bars are functions of these."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Way(StrEnum):
    """The ways to bring a result up to date that are compared."""

    REFRESH = "refresh"
    RECOMPUTE = "recompute"
    MERGE = "merge"
    APPEND = "append"


HEAVY = (Way.RECOMPUTE, Way.MERGE)


@dataclass(frozen=True)
class Sample:
    """One way, one round."""

    way: Way
    round: int
    seconds: float
    cpu_seconds: float
    jobs: int
    rows_read: int
    driver_rows: int = 0
    """Rows that Freshlake read by itself, without Spark."""
    fold_seconds: float = 0.0
    """A fold that was due after the refresh; it is off the critical path and not in the other figures."""
    steps: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds per step of a refresh."""


@dataclass(frozen=True)
class Cell:
    """One case at one size of source and change."""

    case: str
    rows: int
    change: str
    changed: int
    both: bool
    samples: tuple[Sample, ...]

    def of(self, way: Way) -> list[Sample]:
        return [sample for sample in self.samples if sample.way is way]

    def median(self, way: Way, value: Callable[[Sample], float]) -> float | None:
        values = [value(sample) for sample in self.of(way)]
        return statistics.median(values) if values else None

    def seconds(self, way: Way) -> float | None:
        return self.median(way, lambda sample: sample.seconds)

    def ratio(self, above: Way, below: Way, value: Callable[[Sample], float] = lambda s: s.seconds) -> float | None:
        """The median of the ratios of the rounds in which both ran, so that a slow moment is in both or in neither."""
        first = {sample.round: value(sample) for sample in self.of(above)}
        second = {sample.round: value(sample) for sample in self.of(below)}
        ratios = [first[n] / second[n] for n in first.keys() & second.keys() if second[n] > 0]
        return statistics.median(ratios) if ratios else None

    def steps(self) -> dict[str, float]:
        """Median milliseconds per step of a refresh, and what was outside all steps."""
        refreshes = self.of(Way.REFRESH)
        names = list(dict.fromkeys(name for sample in refreshes for name in sample.steps))
        found = {name: statistics.median(s.steps.get(name, 0.0) for s in refreshes) for name in names}
        found["around"] = statistics.median(s.seconds * 1000 - sum(s.steps.values()) for s in refreshes)
        return found


@dataclass(frozen=True)
class Quiet:
    """Refreshes of tables whose sources did not change."""

    tables: int
    sources: int
    """Of each table."""
    milliseconds: float
    """Per table, median."""
    jobs: int


@dataclass(frozen=True)
class Check:
    """Whether every way arrived at the same rows."""

    case: str
    rows: int
    same: bool
    detail: str


@dataclass
class Measurements:
    """Filled as the run goes on."""

    cells: list[Cell] = field(default_factory=list)
    quiet: list[Quiet] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def cell(self, case: str, rows: int, changed: int, both: bool = False) -> Cell | None:
        for cell in self.cells:
            if (cell.case, cell.rows, cell.changed, cell.both) == (case, rows, changed, both):
                return cell
        return None
