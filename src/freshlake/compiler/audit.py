"""What an audit compares: every stored node with its plan over what is stored below it; of a large one some keys.

If every node equals its operator over the nodes and sources below it, the table equals its query. Values that SQL
leaves open are settled by what is stored below, so that only the operator's own are open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from freshlake.compiler import plan as p
from freshlake.compiler.current_time import NOW
from freshlake.compiler.openness import Openness, openness
from freshlake.compiler.restrict import restrict
from freshlake.compiler.split import Node
from freshlake.compiler.walk import nodes as walk
from freshlake.compiler.walk import transform

KEY = "__fl_key"
"""The column of the step that holds the keys of a sample."""
_KEY_TYPES = re.compile(r"byte|short|integer|long|string|date|timestamp|timestamp_ntz|decimal\(\d+,\s*\d+\)")

Rows = Callable[[p.State], int | None]
"""How many rows a leaf has, if its metadata knows."""


@dataclass(frozen=True)
class Comparison:
    """Two plans with the same columns that must give the same rows."""

    expected: p.Plan
    stored: p.Plan


@dataclass(frozen=True)
class Sampling:
    """A comparison restricted to values of one column, which a step holds.

    `drawn` is a leaf that holds the values which the result should have, and `field` their column there.
    """

    comparison: Comparison
    column: str
    drawn: p.State
    field: str


def open_to_choice(node: Node) -> Openness:
    """What the operator of a node leaves open, given the rows below it."""
    if node.operator is None:
        return openness(node.plan, ties=False)
    plan = node.operator
    for above in reversed(node.above):
        plan = replace(above, child=plan)
    return openness(plan, ties=False)


def over_sources(plan: p.Plan) -> p.Plan:
    """A whole query as it is now, without anything stored."""
    return transform(
        plan, lambda n: p.State(n.columns, n.source, n.fields, p.When.AFTER) if isinstance(n, p.Scan) else n
    )


def leaves(plan: p.Plan) -> list[p.State]:
    return [n for n in walk(plan) if isinstance(n, p.State)]


def samplings(whole: Comparison, step: str, rows: Rows, limit: int) -> Iterator[Sampling]:
    """The ways to compare some keys only, such that no more than `limit` rows are read without regard to them."""
    for column in whole.stored.columns:
        if _KEY_TYPES.fullmatch(column.type):
            found = _sampling(whole, column.name, step)
            if found is not None and _unbounded(found.comparison.expected, rows) <= limit:
                yield found


def restricted(whole: Comparison, name: str, step: str) -> Comparison:
    """The rows whose column has one of the values that a step holds."""
    column = next(c for c in whole.stored.columns if c.name == name)
    keys = p.Ref((replace(column, name=KEY),), step)
    return Comparison(*(restrict(plan, keys, [(name, KEY)]) for plan in (whole.expected, whole.stored)))


def _sampling(whole: Comparison, column: str, step: str) -> Sampling | None:
    found = restricted(whole, column, step)
    reached = [(leaf, hint) for leaf in leaves(found.expected) for hint in leaf.prune if leaf.of != NOW]
    if not reached:
        return None
    leaf, hint = reached[0]
    return Sampling(found, column, replace(leaf, prune=()), hint.field)


def _unbounded(expected: p.Plan, rows: Rows) -> float:
    """Rows of the leaves that the keys do not reach."""
    known = [rows(leaf) for leaf in leaves(expected) if not leaf.prune]
    return float("inf") if None in known else sum(count or 0 for count in known)
