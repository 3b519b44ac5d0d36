"""The bars: what a refresh of 1,000 changed rows has to reach over 10 million, judged from the measurements alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from bench.measured import Cell, Measurements, Way

ROWS, SMALL_ROWS, CHANGED = 10_000_000, 100_000, 1_000
_RECOMPUTE, _RECOMPUTE_BOTH = 12.0, 6.0
_APPEND, _GROWTH, _QUIET_MS = 1.5, 1.5, 10.0


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    UNMEASURED = "not measured"
    """The sizes that the bar speaks of were not run; what smaller ones gave is only a hint."""


@dataclass(frozen=True)
class Bar:
    name: str
    wanted: str
    measured: str
    verdict: Verdict


def judge(found: Measurements) -> list[Bar]:
    """Every bar of which anything was measured."""
    return [*_recompute(found), *_floor(found), *_growth(found), *_quiet(found)]


def _recompute(found: Measurements) -> Iterator[Bar]:
    for both, least in ((False, _RECOMPUTE), (True, _RECOMPUTE_BOTH)):
        cell = _largest(found, "join_agg", both)
        ratio = cell.ratio(Way.RECOMPUTE, Way.REFRESH) if cell else None
        if cell is not None and ratio is not None:
            name = f"join_agg, {'both sides change' if both else 'orders change'}: faster than recompute"
            yield Bar(name, f"≥ {least:g}×", *_verdict(cell, ratio, ratio >= least))


def _floor(found: Measurements) -> Iterator[Bar]:
    for case in ("scan", "filter", "aggregate"):
        cell = _largest(found, case)
        ratio = cell.ratio(Way.REFRESH, Way.APPEND) if cell else None
        if cell is not None and ratio is not None:
            yield Bar(
                f"{case}: time of appending the change", f"≤ {_APPEND}×", *_verdict(cell, ratio, ratio <= _APPEND)
            )


def _growth(found: Measurements) -> Iterator[Bar]:
    names = dict.fromkeys((cell.case, cell.both) for cell in found.cells)
    for case, both in names:
        large, small = _largest(found, case, both), found.cell(case, SMALL_ROWS, CHANGED, both)
        after, before = (cell.seconds(Way.REFRESH) if cell else None for cell in (large, small))
        if large is None or after is None or before is None or large.rows == SMALL_ROWS:
            continue
        name = f"{case}{', both sides' if both else ''}: time at most rows, of that at {SMALL_ROWS:,}"
        ratio = after / before
        yield Bar(name, f"≤ {_GROWTH}×", *_verdict(large, ratio, ratio <= _GROWTH))


def _quiet(found: Measurements) -> Iterator[Bar]:
    for quiet in found.quiet:
        what = f"{quiet.tables} × {quiet.sources} source{'s' if quiet.sources > 1 else ''}"
        reached = quiet.milliseconds <= _QUIET_MS and quiet.jobs == 0
        measured = f"{quiet.milliseconds:.1f} ms, {quiet.jobs} jobs"
        verdict = Verdict.PASS if reached else Verdict.FAIL
        yield Bar(f"NO_DATA, tables {what}: per table", f"≤ {_QUIET_MS:g} ms, no job", measured, verdict)


def _largest(found: Measurements, case: str, both: bool = False) -> Cell | None:
    cells = [c for c in found.cells if (c.case, c.both, c.changed) == (case, both, CHANGED)]
    return max(cells, key=lambda cell: cell.rows, default=None)


def _verdict(cell: Cell, ratio: float, reached: bool) -> tuple[str, Verdict]:
    if cell.rows != ROWS:
        return f"{ratio:.2f}× at {cell.rows:,} rows", Verdict.UNMEASURED
    return f"{ratio:.2f}×", Verdict.PASS if reached else Verdict.FAIL
