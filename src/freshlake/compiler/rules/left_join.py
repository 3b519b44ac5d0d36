"""Left join: Δ(L ⟕ R) = ΔL ⟕ R₁ + L₀ ⋈ ΔR − F padded with NULLs.

F are the rows of L₀ that found their first match (+) or lost their last (−). Matches are counted, as a row of ΔR does
not say whether it is the first or the last; so padding goes and comes back exactly when it should, and rows of R that
hold nothing but NULLs are never taken for it.
"""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.matches import changes_of, inner_with, shown, turned, with_current
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import negate, union


def _delta(join: p.Join, derive: Derive) -> p.Plan | None:
    left, right = changes_of(join, derive)
    terms = [] if left is None else [with_current(join, left, derive)]
    if right is not None:
        terms.append(inner_with(join, right, derive))
        terms.append(shown(join, negate(turned(join, right, derive))))
    return union(terms) if terms else None


LEFT_JOIN = Rule("left_join", p.Join, _delta, Linearity.BILINEAR, "ΔL ⟕ R₁ + L₀ ⋈ ΔR − pad(F)", "LeftOuter")
