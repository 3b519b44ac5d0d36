"""A function call as it was written, and how its arguments are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from freshlake.dialect.tree import call, exp
from freshlake.dialect.typed import AFTER, CAST, Typed
from freshlake.dialect.types import Type

if TYPE_CHECKING:
    from freshlake.dialect.expressions import Expressions


@dataclass(frozen=True)
class Call:
    """A call as it was written, taken apart."""

    word: str
    node: exp.Expr
    args: tuple[exp.Expr, ...] = ()
    distinct: bool = False
    order: tuple[exp.Expr, ...] = ()

    @classmethod
    def of(cls, word: str, node: exp.Expr) -> Call:
        args, order, distinct = list(node.expressions), [], False
        if args and isinstance(args[-1], exp.Order):
            order = list(args[-1].expressions)
            args[-1] = args[-1].this
        if args and isinstance(args[0], exp.Distinct):
            distinct = True
            args = [*args[0].expressions, *args[1:]]
        return cls(word, node, tuple(args), distinct, tuple(order))


Handler = Callable[["Expressions", Call], Typed]


def arguments(x: Expressions, c: Call, *families: str, optional: int = 0) -> list[Typed]:
    """The arguments, each of one of the named kinds ('number text'); nothing else may be in the call."""
    required = len(families) - optional
    if c.distinct or c.order or not required <= len(c.args) <= len(families):
        raise x.refuse(f"{c.word} of this form", "this form of the call has no translation", AFTER, c.node)
    found = [x.typed(a, c.word) for a in c.args]
    for value, family in zip(found, families, strict=False):
        if value.type.name != "null" and not any(_fits(value.type, word) for word in family.split()):
            raise x.refuse(f"{c.word} of {value.type}", "it has no translation for this type", CAST, c.node)
    return found


def _fits(kind: Type, word: str) -> bool:
    if word == "text":
        return kind.is_text
    if word == "int":
        return kind.is_int
    return word in ("any", kind.family, kind.name)


def same(spark: str, result: Type | None, *families: str, optional: int = 0) -> Handler:
    """Spark has this function with the same meaning; the result has the type of the first argument when not said."""

    def handler(x: Expressions, c: Call) -> Typed:
        found = arguments(x, c, *families, optional=optional)
        return Typed(call(spark, *(f.node for f in found)), result or found[0].type)

    return handler
