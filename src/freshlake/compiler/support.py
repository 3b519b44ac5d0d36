"""Which operators have a rule, and what to say about those that do not."""

from __future__ import annotations

from dataclasses import dataclass

from freshlake.compiler import plan as p
from freshlake.compiler.current_time import in_result
from freshlake.compiler.walk import nodes

_KINDS = {
    "LeftOuter": "LEFT OUTER JOIN",
    "RightOuter": "RIGHT OUTER JOIN",
    "FullOuter": "FULL OUTER JOIN",
    "LeftSemi": "EXISTS / IN (semi join)",
    "LeftAnti": "NOT EXISTS / NOT IN (anti join)",
    "Existence": "EXISTS or IN inside an expression",
    "LeftSingle": "a scalar subquery",
}


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


def _without_rule(node: p.Plan) -> str | None:
    match node:
        case p.Join():
            return _KINDS.get(node.kind, node.kind)
        case p.SetOp():
            return f"{node.kind.upper()}{' ALL' if node.all else ''}"
        case p.Window():
            return "a window function"
        case p.Limit():
            return "OFFSET" if node.offset else "LIMIT"
        case p.Sort():
            return "ORDER BY with LIMIT"
        case p.Generate():
            return f"a row generator ({node.generator.text})"
        case p.Expand():
            return "GROUPING SETS, CUBE or ROLLUP"
        case p.Loop() | p.LoopRef():
            return "a recursive query"
    return None
