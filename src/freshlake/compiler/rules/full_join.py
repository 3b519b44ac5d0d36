"""Full join: Δ(L ⟗ R) = Δ(L ⟕ R) + Δ(R ▷ L) padded with NULLs.

A full join is a left join and, apart from it, the rows of R without a match.
"""

from __future__ import annotations

from dataclasses import replace

from freshlake.compiler import plan as p
from freshlake.compiler.rules.anti_join import ANTI_JOIN
from freshlake.compiler.rules.left_join import LEFT_JOIN
from freshlake.compiler.rules.matches import shown
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import union


def _delta(join: p.Join, derive: Derive) -> p.Plan | None:
    left, right = join.inputs
    kept = LEFT_JOIN.delta(replace(join, kind="LeftOuter"), derive)
    others = ANTI_JOIN.delta(p.Join(right.columns, (right, left), "LeftAnti", join.on), derive)
    terms = [shown(join, change) for change in (kept, others) if change is not None]
    return union(terms) if terms else None


FULL_JOIN = Rule("full_join", p.Join, _delta, Linearity.BILINEAR, "Δ(L ⟕ R) + pad(Δ(R ▷ L))", "FullOuter")
