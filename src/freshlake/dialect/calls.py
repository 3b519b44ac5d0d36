"""Calls with clauses around them: aggregates, FILTER, WITHIN GROUP, OVER."""

from __future__ import annotations

from collections.abc import Iterable

from freshlake.dialect.aggregates import AGGREGATES, WINDOWS, Aggregation, Wrap
from freshlake.dialect.calling import Call
from freshlake.dialect.expressions import Expressions, folded
from freshlake.dialect.tree import exp, name, place
from freshlake.dialect.typed import AFTER, Typed
from freshlake.dialect.types import Type
from freshlake.errors import NonDeterministic, UnsupportedAggregate

_RANDOM = ("random", "gen_random_uuid", "uuid_generate_v4", "clock_timestamp", "timeofday")
_RANGES = ("range_agg", "range_intersect_agg")


def _alone(node: exp.Expr) -> exp.Expr:
    return node


class Calls(Expressions):
    def on_anonymous(self, node: exp.Expr) -> Typed:
        word = node.name.lower()
        if word in AGGREGATES:
            return self._aggregate(node, _alone)
        if word in WINDOWS:
            raise self.refuse(f"{word} without OVER", "it is a window function", f"{word}() OVER (…)", node)
        if word in _RANDOM:
            raise NonDeterministic(
                f"the query is not deterministic: {word}()", construct=f"{word}()", position=place(node, self.text)
            )
        if word == "array":
            raise self.refuse("ARRAY(subquery)", "Spark has no array of a subquery", "use array_agg", node)
        if word in _RANGES:
            reason = "range types, and so aggregates over them, do not exist in Spark"
            raise self.refuse(word, reason, "use min and max of the bounds", node, UnsupportedAggregate)
        return self.function(word, node)

    def on_filter(self, node: exp.Expr) -> Typed:
        self.only(node, "this", "expression")
        condition = self.condition(node.expression.this)
        return self._aggregate(node.this, lambda e: exp.Filter(this=e, expression=exp.Where(this=condition.copy())))

    def on_withingroup(self, node: exp.Expr) -> Typed:
        return self._aggregate(node, _alone)

    def on_window(self, node: exp.Expr) -> Typed:
        self.only(node, "this", "partition_by", "order", "spec", "alias", "over")
        if isinstance(node.this, exp.Filter):
            reason = "Spark has no FILTER with OVER"
            raise self.refuse("FILTER with OVER", reason, "sum(CASE WHEN condition THEN x END) OVER (…)", node)
        over = self.window(node)

        def wrap(e: exp.Expr) -> exp.Expr:
            whole = over.copy()
            whole.set("this", e)
            return whole

        return self._aggregate(node.this, wrap, over=True)

    def window(self, node: exp.Expr) -> exp.Expr:
        """A window, without the function; `this` and `over` are the caller's."""
        partition = [self.expr(e).node for e in node.args.get("partition_by") or ()]
        order = node.args.get("order")
        keys = exp.Order(expressions=self.ordering(order.expressions)) if order is not None else None
        alias = node.args.get("alias")
        return exp.Window(
            partition_by=partition or None,
            order=keys,
            spec=self._frame(node.args.get("spec")),
            alias=name(folded(alias)) if alias is not None else None,
            over="OVER",
        )

    def _frame(self, spec: exp.Expr | None) -> exp.Expr | None:
        if spec is None:
            return None
        self.only(spec, "kind", "start", "start_side", "end", "end_side")
        bounds = [spec.args.get("start"), spec.args.get("end")]
        offsets = [b for b in bounds if isinstance(b, exp.Expr)]
        kind = str(spec.args["kind"]).upper()
        if kind not in ("ROWS", "RANGE") or (kind == "RANGE" and offsets):
            reason = "only ROWS, and RANGE without a distance, have a proven translation"
            raise self.refuse(f"a window frame in {kind}", reason, "use ROWS BETWEEN … AND …", spec)
        if any(not isinstance(b, exp.Literal) for b in offsets):
            raise self.refuse("a computed window frame", "Spark takes constants", "use constants", spec)
        return spec.copy()

    def ordering(self, keys: Iterable[exp.Expr]) -> list[exp.Expr]:
        return [self.ordered(key)[0] for key in keys]

    def ordered(self, key: exp.Expr) -> tuple[exp.Expr, Type]:
        """With the place of NULLs always said: PostgreSQL has them last, Spark first."""
        self.only(key, "this", "desc", "nulls_first")
        found = self.expr(key.this)
        return exp.Ordered(this=found.node, desc=key.args.get("desc"), nulls_first=_nulls_first(key)), found.type

    def _aggregate(self, node: exp.Expr, wrap: Wrap, over: bool = False) -> Typed:
        within: tuple[tuple[exp.Expr, Type], ...] = ()
        inner = node
        if isinstance(node, exp.WithinGroup):
            inner = node.this
            within = tuple(self.ordered(key) for key in node.expression.expressions)
        word = inner.name.lower() if isinstance(inner, exp.Anonymous) else str(inner.key)
        handler = AGGREGATES.get(word) or (WINDOWS.get(word) if over else None)
        if handler is None:
            reason = "it is not in the list of aggregates whose translation is proven"
            raise self.refuse(f"the aggregate {word}", reason, AFTER, node)
        c = Call.of(word, inner)
        if over and (c.distinct or c.order):
            raise self.refuse(f"{word} with DISTINCT or ORDER BY, and OVER", "Spark has none", AFTER, node)
        stars = any(isinstance(a, exp.Star | exp.Tuple) for a in c.args)
        arguments = () if stars else tuple(self.typed(a, word) for a in c.args)
        order = tuple(self.ordering(c.order)) if word in ("array_agg", "string_agg") else ()
        return handler(self, Aggregation(c, arguments, order, within, over, wrap))


def _nulls_first(key: exp.Expr) -> bool:
    said = key.args.get("nulls_first")
    return bool(key.args.get("desc")) if said is None else bool(said)
