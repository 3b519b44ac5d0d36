"""Drop ORDER BY that no LIMIT reads: a stored bag has no order, readers order themselves."""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.walk import transform


def drop_sorts(plan: p.Plan) -> p.Plan:
    """After `find_top_k`, which takes the sorts that a limit reads."""
    return transform(plan, lambda n: n.child if isinstance(n, p.Sort) else n)
