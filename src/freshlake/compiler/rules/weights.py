"""Weighted relations: a row with weight n stands for n copies, a negative weight removes copies."""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.compiler import plan as p

COLUMN = p.Column(p.WEIGHT, "long", False, p.WEIGHT)


def is_weighted(plan: p.Plan) -> bool:
    return p.WEIGHT in plan.names


def weighted(plan: p.Plan) -> p.Plan:
    """Every row once."""
    return _with_weight(plan, "1L") if not is_weighted(plan) else plan


def negate(plan: p.Plan) -> p.Plan:
    """The same rows, removed instead of added."""
    return _with_weight(plan, f"-{p.WEIGHT}" if is_weighted(plan) else "-1L")


def _with_weight(plan: p.Plan, formula: str) -> p.Plan:
    rest = [n for n in plan.names if n != p.WEIGHT]
    reads = (p.WEIGHT,) if is_weighted(plan) else ()
    weight = p.Item(p.WEIGHT, p.text(formula, *reads))
    return p.project(plan, (*p.passing(plan, only=rest), weight), [COLUMN])


def union(terms: Sequence[p.Plan]) -> p.Plan:
    return terms[0] if len(terms) == 1 else p.Union(terms[0].columns, tuple(terms))
