"""Which operators have a rule, and what to say about those that do not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from freshlake.compiler import plan as p
from freshlake.compiler.current_time import in_result
from freshlake.compiler.recursion import why_not_linear
from freshlake.compiler.refusals import (
    JOIN_CONDITION,
    MAP_KEY,
    OWN_RANDOM,
    RECURSIVE_STEP,
    TIME_IN_RESULT,
    UNSTORABLE,
    Position,
    WithoutRule,
)
from freshlake.compiler.rules.matches import condition_of
from freshlake.compiler.split import ROOT, Node
from freshlake.compiler.walk import nodes

_UNCOMPARABLE = re.compile(r'ype": ?"(map|variant|geo)|^(variant|geo)')
_UNSTORABLE = re.compile(r'(^|ype": ?")(interval|void|time\(|geometry|geography)|^[^{]* collate ')
"""Types that a Delta table cannot hold, not fields of such a name; visible columns of them are Delta's to refuse."""


@dataclass(frozen=True)
class Reason:
    """Why a query or a refresh is not differential."""

    code: str
    message: str
    hint: str | None = None
    construct: str | None = None
    position: Position | None = None

    @property
    def told(self) -> str:
        """For people: what, where, and what to do about it."""
        where = f" at line {self.position[0]}, column {self.position[1]}" if self.position else ""
        return f"{self.message}{where}" + (f"; {self.hint}" if self.hint else "")

    def to_dict(self) -> dict[str, object]:
        place = {"line": self.position[0], "column": self.position[1]} if self.position else None
        plain = {"code": self.code, "message": self.message, "hint": self.hint}
        return {**plain, "construct": self.construct, "position": place}


def reasons(plan: p.Plan, places: Mapping[str, Position] | None = None) -> tuple[Reason, ...]:
    """Empty when every operator has a rule; `places` are where constructs stand in the query's text."""
    known, found = places or {}, {}
    for node in nodes(plan):
        case = without_rule(node)
        if case:
            message = _why(node, case)
            found[message] = _reason(case, message, known.get(case.construct))
    for field in in_result(plan):
        message = f"{field.label} is part of the result, so that every row changes at each refresh"
        found[message] = _reason(TIME_IN_RESULT, message, known.get(field.name))
    return tuple(found.values())


def of_random(function: str, position: Position | None) -> Reason:
    """Why a query with such a function of the user is computed in full."""
    return _reason(OWN_RANDOM, f"the function {function} is not deterministic", position)


def unstorable(nodes: Iterable[Node]) -> tuple[Reason, ...]:
    """Columns of internal state whose types a Delta table cannot hold; visible ones are Delta's to refuse."""
    found = {}
    for node in nodes:
        for column in node.columns:
            if (column.hidden or node.id != ROOT) and _UNSTORABLE.search(column.type):
                message = f"a part of the query has to be stored, and a column of type {column.type} cannot be"
                found[column.type] = _reason(UNSTORABLE, message)
    return tuple(found.values())


def without_rule(node: p.Plan) -> WithoutRule | None:
    """What an operator without a rule is; None when it has one."""
    match node:
        case p.Join() if _reads_uncomparable(node):
            return JOIN_CONDITION
        case p.Aggregate() if _groups_by_uncomparable(node):
            return MAP_KEY
        case p.Loop() if why_not_linear(node):
            return RECURSIVE_STEP
    return None


def _why(node: p.Plan, case: WithoutRule) -> str:
    if isinstance(node, p.Loop):
        return f"a recursive query is recomputed because {why_not_linear(node)}"
    return f"{case.construct} has no differential rule yet"


def _reason(case: WithoutRule, message: str, position: Position | None = None) -> Reason:
    return Reason("not-differentiable", message, case.rewrite, case.construct, position)


def _groups_by_uncomparable(aggregate: p.Aggregate) -> bool:
    """Stored groups would have to be found by values that cannot be compared; elsewhere Spark refuses such keys."""
    keys = {key.name for key in aggregate.keys}
    return any(c.name in keys and _UNCOMPARABLE.search(c.type) for c in aggregate.columns)


def _reads_uncomparable(join: p.Join) -> bool:
    """Rows with the same number of matches are found by the columns the condition reads, which must be comparable."""
    reads = {c for e in join.on for c in e.columns} if condition_of(join).rest else set()
    kept = join.inputs if join.kind == "FullOuter" else join.inputs[:1]
    return any(c.name in reads and _UNCOMPARABLE.search(c.type) for i in kept for c in i.columns)
