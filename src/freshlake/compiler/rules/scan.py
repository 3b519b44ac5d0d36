"""Scan: Δ comes from the source."""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import COLUMN


def _delta(scan: p.Scan, derive: Derive) -> p.Plan:
    return p.Delta((*scan.columns, COLUMN), scan.source, scan.fields)


SCAN = Rule("scan", p.Scan, _delta, Linearity.LINEAR, "Δ from the source")
