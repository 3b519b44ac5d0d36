"""Which operators have a rule, and what to say about those that do not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from freshlake.compiler import plan as p
from freshlake.compiler.current_time import in_result
from freshlake.compiler.recursion import why_not_linear
from freshlake.compiler.rules import JOINS
from freshlake.compiler.rules.matches import condition_of
from freshlake.compiler.split import ROOT, Node
from freshlake.compiler.walk import nodes

_UNCOMPARABLE = re.compile(r'ype": ?"(map|variant|geo)|^(variant|geo)')


@dataclass(frozen=True)
class Reason:
    """Why a query or a refresh is not differential."""

    code: str
    message: str
    hint: str | None = None


def reasons(plan: p.Plan) -> tuple[Reason, ...]:
    """Empty when every operator has a rule."""
    found = {}
    for node in nodes(plan):
        construct = _without_rule(node)
        if isinstance(node, p.Loop) and (why := why_not_linear(node)):
            found[why] = Reason(
                "not-differentiable",
                f"a recursive query is recomputed because {why}",
                "use refresh mode AUTO or FULL, or write the step as a join of the reference with other tables",
            )
        if construct:
            found[construct] = Reason(
                "not-differentiable",
                f"{construct} has no differential rule yet",
                "use refresh mode AUTO or FULL, or move this part into a query over the stream table",
            )
    return (*found.values(), *(_of_time(function) for function in in_result(plan)))


def _of_time(function: str) -> Reason:
    return Reason(
        "not-differentiable",
        f"{function} is part of the result, so that every row changes at each refresh",
        "use it in WHERE, HAVING, QUALIFY or ON only, or compute it when reading the stream table",
    )


def unstorable(nodes: Iterable[Node]) -> tuple[Reason, ...]:
    """Columns of internal state whose types a Delta table cannot hold; visible ones are Delta's to refuse."""
    found = {}
    for node in nodes:
        for column in node.columns:
            if (column.hidden or node.id != ROOT) and re.search(r"\b(interval|void)\b", column.type):
                found[column.type] = Reason(
                    "not-differentiable",
                    f"a part of the query has to be stored, and a column of type {column.type} cannot be",
                    "cast it to a type that Delta tables have",
                )
    return tuple(found.values())


def _without_rule(node: p.Plan) -> str | None:
    match node:
        case p.Join():
            return _join_without_rule(node)
    return None


def _join_without_rule(join: p.Join) -> str | None:
    """Rows with the same number of matches are found by the columns the condition reads, which must be comparable."""
    if join.kind not in JOINS:
        return f"{join.kind} join"
    reads = {c for e in join.on for c in e.columns} if condition_of(join).rest else set()
    kept = join.inputs if join.kind == "FullOuter" else join.inputs[:1]
    if any(c.name in reads and _UNCOMPARABLE.search(c.type) for i in kept for c in i.columns):
        return "an outer, semi or anti join whose condition reads a map or variant"
    return None
