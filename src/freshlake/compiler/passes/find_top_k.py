"""Bring a LIMIT or OFFSET and the ORDER BY it cuts into one operator.

Sound because a projection computes row by row, so that cutting before or after it is the same, and a cut of a cut is
one cut: rows a up to b, without the first n, are a + n up to b; the first n of them are a up to a + n.
"""

from __future__ import annotations

from dataclasses import replace

from freshlake.compiler import plan as p
from freshlake.compiler.walk import transform


def find_top_k(plan: p.Plan) -> p.Plan:
    return transform(plan, lambda n: _cut(n, n.child) if isinstance(n, p.Limit) else n)


def _cut(limit: p.Limit, below: p.Plan) -> p.Plan:
    match below:
        case p.Project():
            return replace(below, child=_cut(limit, below.child))
        case p.Sort():
            return _narrowed(p.TopK(below.columns, below.child, below.order), limit)
        case p.TopK():
            return _narrowed(below, limit)
    raise AssertionError(f"LIMIT over {type(below).__name__}")


def _narrowed(top: p.TopK, limit: p.Limit) -> p.Plan:
    if limit.offset:
        start = top.start + limit.count
        return replace(top, start=start if top.end is None else min(start, top.end))
    end = top.start + limit.count
    return replace(top, end=end if top.end is None else min(end, top.end))
