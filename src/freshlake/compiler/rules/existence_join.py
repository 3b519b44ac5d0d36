"""Existence join (EXISTS or IN as a value): Δ(L ∃ R) = ΔL ∃ R₁ + (F, true) − (F, false).

Every row of L stays, with a column that says whether it has a match. F are the rows of L₀ that found their first match
(+) or lost their last (−): such a row is replaced by itself with the other value.
"""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.matches import changes_of, shown, turned, with_current
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import negate, union


def _delta(join: p.Join, derive: Derive) -> p.Plan | None:
    left, right = changes_of(join, derive)
    terms = [] if left is None else [with_current(join, left, derive)]
    if right is not None:
        found = turned(join, right, derive)
        terms.append(_marked(join, found, "true"))
        terms.append(_marked(join, negate(found), "false"))
    return union(terms) if terms else None


def _marked(join: p.Join, rows: p.Plan, value: str) -> p.Plan:
    assert join.exists is not None
    return shown(join, p.project(rows, p.passing(rows, p.Item(join.exists, p.text(value)))))


EXISTENCE_JOIN = Rule(
    "existence_join", p.Join, _delta, Linearity.BILINEAR, "ΔL ∃ R₁ + (F, true) − (F, false)", "Existence"
)
