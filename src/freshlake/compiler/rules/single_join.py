"""Single join (scalar subquery): a left join in which no row may have two matches.

The change is that of the left join. A row of the changed input is tested by Spark's own operator; a row of L that the
change of R reaches is tested by its number of matches. Either error makes the refresh start again as FULL, which fails
with Spark's message if the query does.
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
        terms.append(shown(join, negate(turned(join, right, derive, single=True))))
    return union(terms) if terms else None


SINGLE_JOIN = Rule(
    "single_join", p.Join, _delta, Linearity.BILINEAR, "ΔL ⟕ R₁ + L₀ ⋈ ΔR − pad(F), where m₁ ≤ 1", "LeftSingle"
)
