"""A line through measured times: y = fixed + per_row · x, neither negative, with the least sum of relative errors.

Absolute errors, not squares, so that half of the weight may be far off without moving it; relative ones, so that a
refresh of 0.1 s counts as much as one of 10 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    """Above zero."""
    weight: float = 1.0


@dataclass(frozen=True)
class Line:
    fixed: float
    per_row: float

    def at(self, x: float) -> float:
        return self.fixed + self.per_row * x


_ROUNDS = 20
_SMALLEST, _CLOSE = 0.01, 0.005


def fit(points: Sequence[Point]) -> Line:
    """At least one point. Least squares again and again, each point weighing less the farther it is off."""
    plain = [(p.x, p.y, p.weight / p.y**2) for p in points]
    largest = max(p.x for p in points)
    line = _least_squares(plain)
    for _ in range(_ROUNDS):
        before, fixed, slope = line, line.fixed, line.per_row
        line = _least_squares([(x, y, w / max(abs(y - fixed - slope * x) / y, _SMALLEST)) for x, y, w in plain])
        if abs(line.fixed - before.fixed) + abs(line.per_row - before.per_row) * largest <= _CLOSE * line.at(largest):
            break
    return line


def _least_squares(points: Sequence[tuple[float, float, float]]) -> Line:
    """With both coefficients at least zero: where one would be negative, the better line without it."""
    total = sum_x = sum_y = sum_xx = sum_xy = 0.0
    for x, y, w in points:
        total += w
        sum_x += w * x
        sum_y += w * y
        sum_xx += w * x * x
        sum_xy += w * x * y
    spread = sum_xx - sum_x * sum_x / total
    slope = (sum_xy - sum_x * sum_y / total) / spread if spread > 1e-9 * sum_xx else 0.0
    if slope <= 0:
        return Line(sum_y / total, 0.0)
    if sum_y < slope * sum_x:
        return Line(0.0, sum_xy / sum_xx)
    return Line((sum_y - slope * sum_x) / total, slope)
