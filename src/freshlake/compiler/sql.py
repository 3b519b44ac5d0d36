"""Plans as readable SQL, for people (and, with text-only expressions, for another engine in tests)."""

from __future__ import annotations

from freshlake.compiler import plan as p

_KINDS = {
    "LeftOuter": "LEFT OUTER",
    "RightOuter": "RIGHT OUTER",
    "FullOuter": "FULL OUTER",
    "LeftSemi": "LEFT SEMI",
    "LeftAnti": "LEFT ANTI",
    "LeftSingle": "LEFT SINGLE",
}


def to_sql(plan: p.Plan, indent: int = 0) -> str:
    """One SELECT per operator; user expressions as Spark shows them."""
    pad = "  " * indent
    match plan:
        case p.State():
            side = "stored " if plan.stored else ""
            hint = f" /* only {', '.join(f'{h.field} of {h.ref}' for h in plan.prune)} */" if plan.prune else ""
            return f"{pad}{side}{_name(plan.of)} {plan.when} the refresh{hint}"
        case p.Delta():
            return f"{pad}changes of {_name(plan.source)}"
        case p.Ref():
            return f"{pad}{plan.step}"
        case p.Values():
            return f"{pad}VALUES {plan.text}"
        case p.Scan():
            return f"{pad}{_name(plan.source)}"
        case p.NodeRef():
            return f"{pad}node {plan.node}"
    return _operator(plan, indent, pad)


def _operator(plan: p.Plan, indent: int, pad: str) -> str:
    match plan:
        case p.Project():
            return f"{pad}SELECT {_items(plan.items)}\n{pad}FROM\n{_below(plan.child, indent)}"
        case p.Filter():
            on = " AND ".join(e.text for e in plan.on)
            return f"{pad}SELECT *\n{pad}FROM\n{_below(plan.child, indent)}\n{pad}WHERE {on}"
        case p.Group():
            keys = ", ".join(plan.keys)
            group = f"\n{pad}GROUP BY {keys}" if keys else ""
            shown = ", ".join([*plan.keys, *(f"{i.expr.text if i.expr else i.name} AS {i.name}" for i in plan.items)])
            return f"{pad}SELECT {shown}\n{pad}FROM\n{_below(plan.child, indent)}{group}"
        case p.Aggregate():
            keys = ", ".join(k.expr.text if k.expr else k.name for k in plan.keys)
            calls = [f"{c.text} AS {c.name}" for c in plan.calls]
            group = f"\n{pad}GROUP BY {keys}" if keys else ""
            shown = ", ".join([*(_item(k) for k in plan.keys), *calls])
            return f"{pad}SELECT {shown}\n{pad}FROM\n{_below(plan.child, indent)}{group}"
        case p.InnerJoin():
            inputs = f"\n{pad}JOIN\n".join(_below(c, indent) for c in plan.inputs)
            on = f"\n{pad}ON {' AND '.join(e.text for e in plan.on)}" if plan.on else ""
            return f"{inputs}{on}"
        case p.SemiJoin():
            on = " AND ".join(f"{a} <=> {b}" for a, b in plan.pairs)
            left, right = (_below(c, indent) for c in plan.inputs)
            return f"{left}\n{pad}LEFT SEMI JOIN\n{right}\n{pad}ON {on}"
        case p.Union():
            return f"\n{pad}UNION ALL\n".join(_below(c, indent) for c in plan.inputs)
        case p.Join():
            on = f"\n{pad}ON {' AND '.join(e.text for e in plan.on)}" if plan.on else ""
            left, right = (_below(c, indent) for c in plan.inputs)
            word = f"EXISTENCE ({plan.exists})" if plan.exists else _KINDS.get(plan.kind, plan.kind.upper())
            return f"{left}\n{pad}{word} JOIN\n{right}{on}"
    return _other_operator(plan, indent, pad)


def _other_operator(plan: p.Plan, indent: int, pad: str) -> str:
    match plan:
        case p.Given():
            return to_sql(plan.inputs[0], indent)
        case p.Generate():
            outer, new = " OUTER" if plan.outer else "", ", ".join(plan.new)
            return (
                f"{pad}SELECT *\n{pad}FROM\n{_below(plan.child, indent)}\n"
                f"{pad}LATERAL VIEW{outer} {plan.generator.text} AS {new}"
            )
        case p.Expand():
            rows = ", ".join(f"({', '.join(e.text for e in row)})" for row in plan.rows)
            return f"{pad}SELECT each of {rows}\n{pad}FROM\n{_below(plan.child, indent)}"
        case p.Window():
            return f"{pad}SELECT *, {_items(plan.items)}\n{pad}FROM\n{_below(plan.child, indent)}{_ordered(plan, pad)}"
        case p.TopK():
            shown = f"{pad}SELECT *\n{pad}FROM\n{_below(plan.child, indent)}{_ordered(plan, pad)}"
            shown += "" if plan.end is None else f"\n{pad}LIMIT {plan.end - plan.start}"
            return shown + (f"\n{pad}OFFSET {plan.start}" if plan.start else "")
        case p.SetOp():
            word = f"{plan.kind.upper()}{' ALL' if plan.all else ''}"
            return f"\n{pad}{word}\n".join(_below(c, indent) for c in plan.inputs)
    below = "\n".join(_below(c, indent) for c in plan.children)
    return f"{pad}{type(plan).__name__.upper()}\n{below}"


def _ordered(plan: p.Window | p.TopK, pad: str) -> str:
    """The whole order, with what decides ties; for a window only where that matters."""
    order = (*plan.order, *plan.ties) if plan.ties or isinstance(plan, p.TopK) else ()
    return f"\n{pad}ORDER BY {', '.join(o.sql for o in order)}" if order else ""


def _below(plan: p.Plan, indent: int) -> str:
    if plan.children:
        pad = "  " * (indent + 1)
        return f"{pad}(\n{to_sql(plan, indent + 2)}\n{pad})"
    return to_sql(plan, indent + 1)


def _item(item: p.Item) -> str:
    return item.name if item.expr is None else f"{item.expr.text} AS {item.name}"


def _items(items: tuple[p.Item, ...]) -> str:
    return ", ".join(_item(i) for i in items) or "1"


def _name(key: str) -> str:
    return key.rsplit("/", 1)[-1]
