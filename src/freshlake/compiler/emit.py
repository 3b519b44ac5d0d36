"""Build an unresolved Catalyst plan from the algebra; Spark analyzes it once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from freshlake.compiler import plan as p
from freshlake.compiler.bridge import Bridge
from freshlake.compiler.current_time import NOW

Leaves = Mapping[str, DataFrame]
"""Data behind the leaves of a plan, by `leaf_key`; columns in the leaf's order, under any names."""


def leaf_key(leaf: p.Plan) -> str:
    """Leaves with equal keys read the same rows."""
    match leaf:
        case p.State():
            hints = ",".join(f"{h.field}~{h.ref}.{h.key}" for h in leaf.prune)
            return f"{leaf.when}:{leaf.of}:{','.join(leaf.fields)}:{hints}"
        case p.Delta():
            return f"delta:{leaf.source}:{','.join(leaf.fields)}"
        case p.Ref():
            return f"step:{leaf.step}"
    raise TypeError(type(leaf).__name__)


def emit(plan: p.Plan, leaves: Leaves, bridge: Bridge, spark: SparkSession, single: bool = False) -> DataFrame:
    """The DataFrame of `plan`, its columns under the plan's names; `single` keeps few rows in one partition."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    with bridge.active():
        logical = _Emitter(bridge, leaves, single).emit(plan)
    dataset = bridge.dataset.ofRows(spark._jsparkSession, logical)
    return cast(DataFrame, ClassicDataFrame(dataset, spark))


class _Emitter:
    def __init__(self, bridge: Bridge, leaves: Leaves, single: bool) -> None:
        self.b, self.leaves, self.single = bridge, leaves, single
        self.node = bridge.node

    def emit(self, plan: p.Plan) -> Any:
        method = cast("Callable[[Any], Any]", getattr(self, "emit_" + type(plan).__name__.lower()))
        return method(plan)

    def expr(self, e: p.Expr) -> Any:
        if e.handle is not None:
            return e.handle
        if e.null_of is not None:
            return self.b.null(e.null_of.attribute, e.null_of.type)
        return self.b.attribute(e.columns[0]) if e.is_column else self.b.parse(e.text)

    def items(self, items: tuple[p.Item, ...], columns: tuple[p.Column, ...]) -> Any:
        metadata = {c.name: c.metadata for c in columns}
        return self.b.seq(
            self.b.attribute(i.name)
            if i.expr is None
            else self.b.alias(self.expr(i.expr), i.name, metadata.get(i.name, "{}"))
            for i in items
        )

    def every(self, conjuncts: tuple[p.Expr, ...]) -> Any:
        handles = [self.expr(e) for e in conjuncts]
        result = handles[0]
        for h in handles[1:]:
            result = getattr(self.b.expressions, "And")(result, h)  # noqa: B009 - `and` lookups confuse py4j packages
        return result

    def renamed(self, plan: Any, source: tuple[str, ...], target: tuple[str, ...]) -> Any:
        if source == target:
            return plan
        pairs = zip(source, target, strict=True)
        return self.node["Project"](self.b.seq(self.b.alias(self.b.attribute(s), t, None) for s, t in pairs), plan)

    def leaf(self, plan: p.Plan) -> Any:
        frame = self.leaves[leaf_key(plan)]
        analyzed = frame._jdf.queryExecution().analyzed()
        return self.b.column_aliases(self.b.seq(plan.names), analyzed)

    emit_state = emit_delta = emit_ref = leaf

    def emit_values(self, plan: p.Values) -> Any:
        if not plan.columns:
            return self.node["OneRowRelation"]()
        return self.b.column_aliases(self.b.seq(plan.names), plan.handle)

    def emit_project(self, plan: p.Project) -> Any:
        return self.node["Project"](self.items(plan.items, plan.columns), self.emit(plan.child))

    def emit_filter(self, plan: p.Filter) -> Any:
        return self.node["Filter"](self.every(plan.on), self.emit(plan.child))

    def emit_innerjoin(self, plan: p.InnerJoin) -> Any:
        """Left-deep in the order given; a conjunct is placed at the first join that has its columns."""
        waiting = list(plan.on)
        joined, names = self.emit(plan.inputs[0]), set(plan.inputs[0].names)
        for i, right in enumerate(plan.inputs[1:], 1):
            names |= set(right.names)
            ready = tuple(e for e in waiting if set(e.columns) <= names)
            waiting = [e for e in waiting if e not in ready]
            if isinstance(right, p.State) and right.of == NOW:
                joined = self.at_moment(joined, plan.inputs[:i], right)
                joined = self.node["Filter"](self.every(ready), joined) if ready else joined
                continue
            condition = self.b.some(self.every(ready)) if ready else self.b.none
            joined = self.join(joined, self.emit(right), self.b.join_type("Inner"), condition)
        assert not waiting, waiting
        return joined

    def at_moment(self, joined: Any, inputs: tuple[p.Plan, ...], moment: p.State) -> Any:
        """One known row joins as constants, which Spark can fold and push into the scan of a table."""
        row = self.leaves[leaf_key(moment)]._jdf.queryExecution().analyzed()
        values = [e.child() for e in self.b.items(row.projectList())]
        known = [self.b.attribute(n) for child in inputs for n in child.names]
        added = [self.b.alias(v, n) for v, n in zip(values, moment.names, strict=True)]
        return self.node["Project"](self.b.seq([*known, *added]), joined)

    def join(self, left: Any, right: Any, kind: Any, condition: Any) -> Any:
        return self.node["Join"](left, right, kind, condition, self.b.no_hint)

    def emit_semijoin(self, plan: p.SemiJoin) -> Any:
        left, right = plan.inputs
        aliases = tuple(f"__fl_match{i}" for i in range(len(plan.pairs)))
        keys = self.node["Project"](
            self.b.seq(
                self.b.alias(self.b.attribute(k), a, None) for (_, k), a in zip(plan.pairs, aliases, strict=True)
            ),
            self.emit(right),
        )
        pairs = zip(plan.pairs, aliases, strict=True)
        on = tuple(p.text(f"{p.quote(c)} <=> {a}", c) for (c, _), a in pairs)
        return self.join(self.emit(left), keys, self.b.join_type("LeftSemi"), self.b.some(self.every(on)))

    def emit_join(self, plan: p.Join) -> Any:
        if plan.exists is None:
            kind = self.b.join_type(plan.kind)
        else:
            column = next(c for c in plan.columns if c.name == plan.exists)
            kind = self.b.join_types.ExistenceJoin(column.attribute.withName(plan.exists).newInstance())
        condition = self.b.some(self.every(plan.on)) if plan.on else self.b.none
        return self.join(self.emit(plan.inputs[0]), self.emit(plan.inputs[1]), kind, condition)

    def emit_aggregate(self, plan: p.Aggregate) -> Any:
        keys = self.b.seq(self.b.attribute(k.name) if k.expr is None else self.expr(k.expr) for k in plan.keys)
        named = [
            self.b.attribute(k.name) if k.expr is None else self.b.alias(self.expr(k.expr), k.name) for k in plan.keys
        ] + [self.b.alias(c.handle, c.name) for c in plan.calls]
        return self.node["Aggregate"](keys, self.b.seq(named), self.emit(plan.child), self.b.none)

    def emit_group(self, plan: p.Group) -> Any:
        keys = [self.b.attribute(k) for k in plan.keys]
        named = keys + [self.b.alias(self.expr(i.expr or p.column_expr(i.name)), i.name) for i in plan.items]
        return self.node["Aggregate"](self.b.seq(keys), self.b.seq(named), self.emit(plan.child), self.b.none)

    def emit_union(self, plan: p.Union) -> Any:
        inputs = [self.renamed(self.emit(c), c.names, plan.names) for c in plan.inputs]
        if len(inputs) == 1:
            return inputs[0]
        union = self.node["Union"](self.b.seq(inputs), False, False)
        # a union has the partitions of all its inputs, and bringing them together later would be a shuffle
        return self.node["Repartition"](1, False, union) if self.single else union

    def emit_setop(self, plan: p.SetOp) -> Any:
        left, right = plan.inputs
        return self.node[plan.kind](self.renamed(self.emit(left), left.names, plan.names), self.emit(right), plan.all)

    def emit_expand(self, plan: p.Expand) -> Any:
        rows = self.b.seq(self.b.seq(self.expr(e) for e in row) for row in plan.rows)
        return self.node["Expand"](rows, self.b.seq(self.new_attribute(c) for c in plan.columns), self.emit(plan.child))

    def new_attribute(self, column: p.Column) -> Any:
        if column.attribute is not None:
            return column.attribute.withName(column.name).newInstance()
        return self.b.new_attribute(column.name, column.type)

    def emit_generate(self, plan: p.Generate) -> Any:
        new = self.b.seq(self.b.attribute(n) for n in plan.new)
        return self.node["Generate"](
            self.expr(plan.generator), self.b.nil, plan.outer, self.b.none, new, self.emit(plan.child)
        )

    def emit_window(self, plan: p.Window) -> Any:
        partition = self.b.seq(self.b.attribute(n) for n in plan.partition)
        items = self.items(plan.items, plan.columns)
        child = self.settled(plan) if plan.ties else self.emit(plan.child)
        return self.node["Window"](items, partition, self.ordering(plan.order), child, self.b.none)

    def settled(self, plan: p.Window) -> Any:
        """The input, brought together and sorted as the window wants it, so that Spark does not sort it again."""
        keys = tuple(p.Order(p.column_expr(n)) for n in plan.partition)
        partition = self.b.seq(self.b.attribute(n) for n in plan.partition)
        child = self.emit(plan.child)
        if self.single or not plan.partition:
            together = self.node["Repartition"](1, not self.single, child)
        else:
            together = self.node["RepartitionByExpression"](partition, child, self.b.none, self.b.none)
        return self.node["Sort"](self.ordering((*keys, *plan.order, *plan.ties)), False, together, self.b.none)

    def ordering(self, order: tuple[p.Order, ...]) -> Any:
        return self.b.seq(self.b.sort_order(self.expr(o.expr), o.direction) for o in order)

    def emit_sort(self, plan: p.Sort) -> Any:
        return self.node["Sort"](self.ordering(plan.order), plan.is_global, self.emit(plan.child), self.b.none)

    def emit_limit(self, plan: p.Limit) -> Any:
        child = self.emit(plan.child)
        return self.after_first(plan.count, child) if plan.offset else self.first(plan.count, child)

    def emit_topk(self, plan: p.TopK) -> Any:
        order = self.ordering((*plan.order, *plan.ties))
        rows = self.node["Sort"](order, True, self.emit(plan.child), self.b.none)
        if plan.start:
            rows = self.after_first(plan.start, rows)
        return rows if plan.end is None else self.first(plan.end - plan.start, rows)

    def first(self, count: int, child: Any) -> Any:
        number = self.b.parse(str(count))
        return self.node["GlobalLimit"](number, self.node["LocalLimit"](number, child))

    def after_first(self, count: int, child: Any) -> Any:
        return self.node["Offset"](self.b.parse(str(count)), child)

    def emit_loop(self, plan: p.Loop) -> Any:
        name, names = f"__fl_loop{plan.id}", tuple(f"c{i}" for i in range(len(plan.columns)))
        union = self.node["Union"](
            self.b.seq(self.renamed(self.emit(c), c.names, names) for c in plan.inputs), False, False
        )
        identifier = self.b.jvm.org.apache.spark.sql.catalyst.AliasIdentifier(name, self.b.nil)
        definition = self.b.triple(name, self.node["SubqueryAlias"](identifier, union), plan.depth)
        use = self.renamed(self.b.relation(self.b.seq([name]), self.b.options, False), names, plan.names)
        return self.node["UnresolvedWith"](use, self.b.seq([definition]), True)

    def emit_loopref(self, plan: p.LoopRef) -> Any:
        relation = self.b.relation(self.b.seq([f"__fl_loop{plan.id}"]), self.b.options, False)
        return self.renamed(relation, tuple(f"c{i}" for i in range(len(plan.columns))), plan.names)
