"""Semi join (EXISTS, IN): Δ(L ⋉ R) = ΔL ⋉ R₁ + F.

F are the rows of L₀ that found their first match (+) or lost their last (−). A second match adds nothing, and one that
goes while another stays removes nothing.
"""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.matches import changes_of, shown, turned, with_current
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import union


def _delta(join: p.Join, derive: Derive) -> p.Plan | None:
    left, right = changes_of(join, derive)
    terms = [] if left is None else [with_current(join, left, derive)]
    if right is not None:
        terms.append(shown(join, turned(join, right, derive)))
    return union(terms) if terms else None


SEMI_JOIN = Rule("semi_join", p.Join, _delta, Linearity.BILINEAR, "ΔL ⋉ R₁ + F", "LeftSemi")
