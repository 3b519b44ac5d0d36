"""Anti join (NOT EXISTS, NOT IN): Δ(L ▷ R) = ΔL ▷ R₁ − F.

F are the rows of L₀ that found their first match (+) or lost their last (−). NOT IN is an anti join on
`(a = b) OR (a = b) IS NULL`: a comparison that is unknown counts as a match.
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
        terms.append(shown(join, negate(turned(join, right, derive))))
    return union(terms) if terms else None


ANTI_JOIN = Rule("anti_join", p.Join, _delta, Linearity.BILINEAR, "ΔL ▷ R₁ − F", "LeftAnti")
