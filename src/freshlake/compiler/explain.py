"""Explain a query: the operators with their rules, the stored nodes, and every step of a refresh, from the same values
that are run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from freshlake.compiler import plan as p
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.derive import Changed
from freshlake.compiler.program import RefreshProgram
from freshlake.compiler.rules import STORED
from freshlake.compiler.rules.lookup import rule_of
from freshlake.compiler.split import Node
from freshlake.compiler.sql import to_sql


@dataclass(frozen=True)
class Explanation:
    """`str()` is for people, `to_dict()` for tools."""

    subject: str
    query: str
    differential: bool
    reasons: tuple[dict[str, Any], ...]
    operators: str
    nodes: tuple[dict[str, Any], ...]
    steps: tuple[dict[str, Any], ...]
    rules: tuple[dict[str, str], ...]
    sources: tuple[dict[str, Any], ...]
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        from dataclasses import asdict

        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def explain(compiled: CompiledQuery, subject: str, query: str, facts: dict[str, Any]) -> Explanation:
    """What a refresh would do if every source had changed."""
    sources = frozenset(s.key for s in compiled.sources)
    program = compiled.full(True) if compiled.reasons else compiled.differential(Changed(sources))
    return Explanation(
        subject=subject,
        query=query,
        differential=not compiled.reasons,
        reasons=tuple(r.to_dict() for r in compiled.reasons),
        operators="\n".join(tree(compiled.plan)),
        nodes=tuple(_node(n) for n in compiled.nodes),
        steps=tuple(_steps(program)),
        rules=tuple({"operator": a.operator, "rule": a.rule, "law": a.why} for a in program.applied),
        sources=tuple({"name": s.name or s.path, "key": s.key, "columns": list(s.fields)} for s in compiled.sources),
        facts=facts,
    )


def tree(plan: p.Plan, depth: int = 0) -> Iterator[str]:
    """The operator tree, one line each, with the rule that differentiates it."""
    rule = rule_of(plan) or STORED.get(type(plan))
    name = "recursion" if isinstance(plan, p.LoopRef) else rule.name if rule else "no rule"
    yield f"{'  ' * depth}{_operator(plan)}  [{name}]"
    for child in plan.children:
        yield from tree(child, depth + 1)


def _operator(plan: p.Plan) -> str:
    match plan:
        case p.Scan():
            return f"Scan {plan.source.rsplit('/', 1)[-1]} ({', '.join(plan.fields)})"
        case p.Filter():
            return f"Filter {' AND '.join(e.text for e in plan.on)}"
        case p.InnerJoin():
            return f"InnerJoin {' AND '.join(e.text for e in plan.on) or 'cross'}"
        case p.Aggregate():
            keys = ", ".join(k.name for k in plan.keys)
            return f"Aggregate by ({keys}): {', '.join(c.text for c in plan.calls) or 'distinct'}"
        case p.Project():
            return f"Project {', '.join(plan.names)}"
        case p.Join():
            return f"{plan.kind} join {' AND '.join(e.text for e in plan.on) or 'on true'}"
    return _other_operator(plan)


def _other_operator(plan: p.Plan) -> str:
    match plan:
        case p.Window():
            by = f" by ({', '.join(plan.partition)})" if plan.partition else ""
            return f"Window{by}: {', '.join(i.expr.text for i in plan.items if i.expr)}"
        case p.Generate():
            return f"Generate {plan.generator.text}"
        case p.TopK():
            upto = "" if plan.end is None else f" to {plan.end}"
            return f"TopK rows {plan.start + 1}{upto} by {', '.join(o.sql for o in plan.order)}"
        case p.SetOp():
            return f"{plan.kind}{' all' if plan.all else ''}"
    return type(plan).__name__


def _node(node: Node) -> dict[str, Any]:
    return {
        "id": node.id or "root",
        "strategy": STORED[type(node.operator)].strategy(node) if node.operator else "linear",
        "columns": [c.field for c in node.visible],
        "hidden": [c.field for c in node.columns if c.hidden],
    }


def _steps(program: RefreshProgram) -> Iterator[dict[str, Any]]:
    for step in program.steps:
        sql = to_sql(step.plan)
        if step.body is not None:
            sql += f"\nthen, until it is empty:\n{to_sql(step.body)}"
        yield {"name": step.name, "kind": str(step.kind), "purpose": step.purpose, "sql": sql}


def _lines(x: Explanation) -> Iterator[str]:
    yield f"{x.subject}: {'DIFFERENTIAL' if x.differential else 'FULL'}"
    for reason in x.reasons:
        place = reason["position"]
        where = f" at line {place['line']}, column {place['column']}" if place else ""
        yield f"  because {reason['message']}{where}" + (f" ({reason['hint']})" if reason["hint"] else "")
    for key, value in x.facts.items():
        yield f"  {key}: {value}"
    yield from ("", "Query", *(f"  {line}" for line in x.query.strip().splitlines()))
    yield from ("", "Sources", *(f"  {s['name']} ({', '.join(s['columns'])})" for s in x.sources))
    yield from ("", "Operators and their rules", *(f"  {line}" for line in x.operators.splitlines()))
    yield from ("", "Laws used", *(f"  {r['operator']}: {r['rule']}: {r['law']}" for r in x.rules))
    yield from ("", "Stored nodes")
    for node in x.nodes:
        hidden = f"; hidden {', '.join(node['hidden'])}" if node["hidden"] else ""
        yield f"  {node['id']}: {node['strategy']}; columns {', '.join(node['columns'])}{hidden}"
    yield from ("", "Program, when every source has changed")
    for step in x.steps:
        yield f"  {step['name']} ({step['kind']}): {step['purpose']}"
        yield from (f"      {line}" for line in step["sql"].splitlines())
