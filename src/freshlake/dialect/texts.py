"""Functions over text: NULLs, starts before the first character and fillers as in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshlake.dialect import types as t
from freshlake.dialect.calling import Call, Handler, arguments
from freshlake.dialect.casts import as_text
from freshlake.dialect.tree import atom, binary, call, case, exp, number, string
from freshlake.dialect.typed import Typed, is_literal, whole

if TYPE_CHECKING:
    from freshlake.dialect.expressions import Expressions


def concat(x: Expressions, c: Call) -> Typed:
    """NULLs are left out, where Spark's concat gives NULL."""
    parts = [call("coalesce", as_text(x, x.typed(a, "concat"), c.node), string("")) for a in c.args]
    return Typed(call("concat", *parts), t.TEXT)


def concat_ws(x: Expressions, c: Call) -> Typed:
    parts = [as_text(x, x.typed(a, "concat_ws"), c.node) for a in c.args]
    return Typed(call("concat_ws", *parts), t.TEXT)


def substring(x: Expressions, c: Call) -> Typed:
    """A start before the first character counts, where Spark counts from the end."""
    node = c.node
    parts = c.args if isinstance(node, exp.Anonymous) else [node.this, node.args.get("start"), node.args.get("length")]
    value, start, length = (*[p for p in parts if p is not None], None, None)[:3]
    text = x.typed(value, "substring") if value is not None else Typed(exp.Null(), t.NULL)
    at = x.typed(start, "substring") if start is not None else None
    size = whole(length) if length is not None else None
    if not text.type.is_text or at is None or not at.type.is_int or (length is not None and (size is None or size < 0)):
        reason = "only a start, and a constant length, have a proven translation"
        raise x.refuse("substring of this form", reason, "use substring(text, start, constant length)", node)
    begin = whole(start)
    first = at.node if begin is not None and begin > 0 else _at_least(at.node, 1)
    if size is None:
        return Typed(call("substring", text.node, first), t.TEXT)
    if begin is not None and begin > 0:
        return Typed(call("substring", text.node, first, number(size)), t.TEXT)
    left = exp.Sub(this=exp.Add(this=atom(at.node.copy()), expression=number(size)), expression=first.copy())
    return Typed(call("substring", text.node, first, _at_least(left, 0)), t.TEXT)


def _at_least(value: exp.Expr, low: int) -> exp.Expr:
    """NULL stays NULL, which greatest would pass over."""
    return case((binary(exp.LT, value, number(low)), number(low)), default=value)


def trim(x: Expressions, c: Call) -> Typed:
    node = c.node
    if isinstance(node, exp.Anonymous):
        side = {"ltrim": "LEADING", "rtrim": "TRAILING", "btrim": "BOTH"}[c.word]
        found = arguments(x, c, "text", "text", optional=1)
        value, characters = found[0], found[1].node if len(found) > 1 else string(" ")
    else:
        x.only(node, "this", "position", "expression")
        side = str(node.args.get("position") or "BOTH")
        value = x.typed(node.this, "trim")
        characters = x.typed(node.expression, "trim").node if node.args.get("expression") else string(" ")
    return Typed(exp.Trim(this=value.node, expression=characters, position=side), t.TEXT)


def position(x: Expressions, c: Call) -> Typed:
    node = c.node
    if isinstance(node, exp.Anonymous):
        text, part = arguments(x, c, "text", "text")
    else:
        x.only(node, "this", "substr")
        text, part = x.typed(node.this, "position"), x.typed(node.args["substr"], "position")
    return Typed(call("position", part.node, text.node), t.INT4)


def end(spark: str) -> Handler:
    """left and right: a negative number of characters means all but so many."""

    def handler(x: Expressions, c: Call) -> Typed:
        value, _ = arguments(x, c, "text", "int")
        size = whole(c.args[1])
        if size is None or size < 0:
            reason = "a negative number means something else in Spark"
            raise x.refuse(f"{spark} of a computed length", reason, "use a constant from 0 on", c.node)
        return Typed(call(spark, value.node, number(size)), t.TEXT)

    return handler


def pad(spark: str) -> Handler:
    def handler(x: Expressions, c: Call) -> Typed:
        value, _, *fill = arguments(x, c, "text", "int", "text", optional=1)
        filler = c.args[2] if fill else None
        if filler is not None and not (is_literal(filler, text=True) and filler.this):
            raise x.refuse(f"{spark} with this filler", "an empty filler differs", "use a constant text", c.node)
        nodes = [value.node, x.expr(c.args[1]).node, fill[0].node if fill else string(" ")]
        return Typed(call(spark, *nodes), t.TEXT)

    return handler
