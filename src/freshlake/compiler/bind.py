"""Read Spark's analyzed plan into the algebra: names become unique, expressions become opaque handles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from freshlake.compiler import plan as p
from freshlake.compiler.bind_call import bind_call
from freshlake.compiler.bind_digest import rows_of
from freshlake.compiler.bind_expression import ExpressionBinder, json_type
from freshlake.compiler.bind_guard import without_guards
from freshlake.compiler.bind_pivot import without_pivot
from freshlake.compiler.bind_source import Source, not_delta, refuse_global, source_of
from freshlake.compiler.bind_spoken import refuse_moments
from freshlake.compiler.bind_window import bind_window_functions
from freshlake.compiler.bridge import CATALYST, Bridge
from freshlake.compiler.current_time import NOW, TITLE, is_now
from freshlake.compiler.normalise import normalise
from freshlake.compiler.origin import located, place_of
from freshlake.compiler.refusals import (
    GROUPING,
    GROUPING_BRANCHES,
    SESSION_ROWS,
    TABLESAMPLE,
    TIME_PLACE,
    TRANSFORM,
    UNKNOWN_OPERATOR,
    UNORDERED_LIMIT,
    Position,
)
from freshlake.compiler.rules import JOINS
from freshlake.compiler.support import without_rule
from freshlake.compiler.walk import nodes

_TRANSPARENT = frozenset(
    [
        "SubqueryAlias",
        "View",
        "ResolvedHint",
        "Subquery",
        "Repartition",
        "RepartitionByExpression",
        "RebalancePartitions",
        "SQLFunctionNode",
        "PipeOperator",
        "CollectMetrics",
        "LocalLimit",
    ]
)
_JOINS = frozenset(["Inner", "Cross", "RightOuter", *JOINS])
_OF_FILES = '"__metadata_col"'
_REFUSED = {"ScriptTransformation": TRANSFORM, "Sample": TABLESAMPLE}


@dataclass(frozen=True)
class Bound:
    """A query as the algebra: `output` gives the user's column labels in order."""

    plan: p.Plan
    output: tuple[p.Column, ...]
    sources: tuple[Source, ...]
    places: Mapping[str, Position]
    """Where constructs without a rule stand in the query's text."""
    functions: Mapping[str, str]
    """Python functions of the query, with a digest of their code."""
    random: Mapping[str, Position | None]
    """Functions of the user that are not deterministic, and where they stand."""


def bind(frame: DataFrame, bridge: Bridge) -> Bound:
    with bridge.active():
        return _Binder(bridge).bind(frame)


class _Binder(ExpressionBinder):
    def __init__(self, bridge: Bridge) -> None:
        super().__init__(bridge)
        self.ctes: dict[int, p.Plan] = {}
        self.sources: dict[str, Source] = {}
        self.scans = 0
        self.loops: dict[int, int] = {}

    def bind(self, frame: DataFrame) -> Bound:
        analyzed = frame._jdf.queryExecution().analyzed()
        refuse_global(analyzed)
        output = self.columns(analyzed)
        plan = self.walk(self.normalise(analyzed))
        if any(is_now(n) for n in nodes(plan)):
            self.sources[NOW] = Source(NOW, NOW, TITLE, "{}")
        return Bound(plan, output, tuple(self.sources.values()), self.places, dict(self.functions), dict(self.random))

    def normalise(self, plan: Any) -> Any:
        return normalise(plan, self.b)

    # Plans -----------------------------------------------------------------------------------------------------------

    def walk(self, node: Any) -> p.Plan:
        kind = node.nodeName().split(" ")[0]
        if kind in _TRANSPARENT:
            return self.walk(node.children().head())
        method = getattr(self, "bind_" + kind.lower(), None)
        if kind in _REFUSED:
            raise _REFUSED[kind].raised(place_of(node, _REFUSED[kind].word))
        if method is None:
            raise UNKNOWN_OPERATOR.raised(place_of(node), kind)
        with located(node):
            bound: p.Plan = method(node)
            if self.moments:
                raise TIME_PLACE.raised(shown=next(iter(self.moments.values())).label)
        self.remember(bound, node)
        return bound

    def remember(self, bound: p.Plan, node: Any) -> None:
        """Where the first of each construct without a rule stands; a recursion has no place, but its first part has."""
        while isinstance(bound, p.Project):
            bound = bound.child
        case = without_rule(bound)
        if case and case.construct not in self.places:
            found = place_of(node) or (isinstance(bound, p.Loop) and place_of(node.children().head()))
            if found:
                self.places[case.construct] = found

    def child(self, node: Any) -> p.Plan:
        return self.walk(node.children().head())

    def bind_withcte(self, node: Any) -> p.Plan:
        for definition in self.b.items(node.cteDefs()):
            self.ctes[definition.id()] = self.all_places(definition.child())
        return self.walk(node.plan())

    def bind_cterelationref(self, node: Any) -> p.Plan:
        definition, columns = self.ctes[node.cteId()], self.columns(node)
        items = (p.Item(c.name, p.column_expr(d.name)) for c, d in zip(columns, definition.columns, strict=True))
        return p.Project(columns, definition, tuple(items))

    def bind_logicalrelation(self, node: Any) -> p.Plan:
        self.scans += 1
        columns = self.columns(node, self.scans)
        self.file_columns |= {c.attribute.exprId().id() for c in columns if _OF_FILES in c.metadata}
        source = source_of(node)
        self.sources[source.key] = source
        return p.Scan(columns, source.key, tuple(c.label for c in columns))

    bind_relation = bind_logicalrelation

    def bind_onerowrelation(self, node: Any) -> p.Plan:
        return p.Values((), "one row", node)

    def bind_localrelation(self, node: Any) -> p.Plan:
        refuse_moments(node)
        return p.Values(self.columns(node), node.toString()[:200], node, rows_of(node))

    def bind_range(self, node: Any) -> p.Plan:
        # the number of its partitions is that of this machine's cores
        digest = f"{node.start()} {node.end()} {node.step()}"
        return p.Values(self.columns(node), node.toString()[:200], node, digest)

    def refuse_leaf(self, node: Any) -> p.Plan:
        raise SESSION_ROWS.raised(place_of(node), node.toString()[:120])

    bind_logicalrdd = refuse_leaf
    bind_inmemoryrelation = refuse_leaf

    def refuse_source(self, node: Any) -> p.Plan:
        raise not_delta(node, node.toString()[:80])

    bind_datasourcev2relation = refuse_source
    bind_hivetablerelation = refuse_source

    def distinct(self, node: Any) -> tuple[p.Column, ...]:
        """The columns of a plan that has one of them twice."""
        return tuple({c.name: c for c in self.columns(node)}.values())

    def bind_project(self, node: Any) -> p.Plan:
        child, mark = self.child(node), len(self.attached)
        listed = self.b.items(node.projectList())
        items = self.named(without_guards(listed, self.b) if isinstance(child, p.Scan) else listed)
        return p.Project(self.distinct(node), self.attach(child, mark), items)

    def bind_filter(self, node: Any) -> p.Plan:
        child, mark = self.child(node), len(self.attached)
        on = tuple(self.expr(e) for e in self.conjuncts(node.condition()))
        below = self.attach(child, mark)
        filtered = p.Filter(below.columns, below, on)
        return filtered if below is child else p.project(filtered, p.passing(child))

    def bind_join(self, node: Any) -> p.Plan:
        left, right = (self.walk(c) for c in self.b.items(node.children()))
        join_type = node.joinType()
        kind, exists = join_type.toString(), None
        if kind.startswith("ExistenceJoin"):
            kind, exists = "Existence", self.name_of(join_type.exists())
        if kind not in _JOINS:
            raise UNKNOWN_OPERATOR.raised(shown=f"{kind} join")
        condition = node.condition()
        tests = self.conjuncts(condition.get()) if condition.isDefined() else []
        if kind in ("LeftOuter", "LeftSemi", "LeftAnti", "Existence"):
            right, tests = self.timed(right, tests)
        elif kind == "RightOuter":
            left, tests = self.timed(left, tests)
        mark = len(self.attached)
        on = tuple(self.expr(e) for e in tests)
        below, columns = self.attach(left, mark), self.columns(node)
        extra = below.columns[len(left.columns) :]
        joined: p.Plan
        if kind in ("Inner", "Cross"):
            joined = p.InnerJoin((*below.columns, *right.columns), (below, right), on)
        else:
            joined = p.Join((*columns, *extra), (below, right), kind, on, exists)
        return p.project(joined, p.passing(joined, only=[c.name for c in columns])) if extra else joined

    def timed(self, side: p.Plan, tests: list[Any]) -> tuple[p.Plan, list[Any]]:
        """Make filters of conditions on the current time that read only the side of a join that is not kept whole.

        So time changes rows of that side, instead of every row of the other one.
        """
        current, names, mark = self.b.current_like, set(side.names), len(self.attached)
        reads = [{self.names[i] for i in self.ids(e.references().toSeq())} for e in tests]
        moved = [e.containsPattern(current) and read <= names for e, read in zip(tests, reads, strict=True)]
        if not any(moved):
            return side, tests
        on = tuple(self.expr(e) for e, there in zip(tests, moved, strict=True) if there)
        below = self.attach(side, mark)
        filtered = p.project(p.Filter(below.columns, below, on), p.passing(side))
        return filtered, [e for e, there in zip(tests, moved, strict=True) if not there]

    def bind_aggregate(self, node: Any) -> p.Plan:
        node = without_pivot(node, self.b)
        child, mark = self.child(node), len(self.attached)
        parts = self.b.module(CATALYST + "planning.PhysicalAggregation").unapply(node).get()
        grouping = self.b.items(parts._1())
        keys = self.named(grouping)
        key_columns = {}
        for g in grouping:
            name = self.names[g.exprId().id()]
            attribute = self.attributes[g.exprId().id()]
            key_columns[name] = p.Column(
                name, json_type(g.dataType()), g.nullable(), g.name(), g.metadata().json(), attribute
            )
        calls = tuple(
            bind_call(a, i, self.name_of(a.resultAttribute()), self) for i, a in enumerate(self.b.items(parts._2()))
        )
        call_columns = tuple(p.Column(c.name, c.type, True, c.text) for c in calls)
        aggregate = p.Aggregate((*key_columns.values(), *call_columns), self.attach(child, mark), keys, calls)
        mark = len(self.attached)
        items = self.named(self.b.items(parts._3()))
        return p.Project(self.columns(node), self.attach(aggregate, mark), items)

    def bind_union(self, node: Any) -> p.Plan:
        return self.by_place(node, p.Union)

    def set_operation(self, node: Any) -> p.Plan:
        kind, is_all = node.nodeName().split(" ")[0], node.isAll()
        return self.by_place(node, lambda columns, inputs: p.SetOp(columns, inputs, kind, is_all))

    def by_place(self, node: Any, make: Callable[[tuple[p.Column, ...], tuple[p.Plan, ...]], p.Plan]) -> p.Plan:
        """An operator that matches its inputs by place; a column that stands in two places gets a second name."""
        inputs = tuple(self.all_places(c) for c in self.b.items(node.children()))
        columns = self.columns(node)
        unique = {c.name: c for c in columns}
        if len(unique) == len(columns):
            return make(columns, inputs)
        placed = tuple(replace(c, name=n) for c, n in zip(columns, inputs[0].names, strict=True))
        return p.project(make(placed, inputs), [p.Item(n) for n in unique], unique.values())

    def all_places(self, node: Any) -> p.Plan:
        child, names = self.walk(node), [c.name for c in self.columns(node)]
        items = (p.Item(f"{n}_{i}" if n in names[:i] else n, p.column_expr(n)) for i, n in enumerate(names))
        return child if child.names == tuple(names) else p.project(child, items)

    bind_intersect = set_operation
    bind_except = set_operation

    def bind_expand(self, node: Any) -> p.Plan:
        branches = node.projections().size()
        if branches > GROUPING_BRANCHES and "spark_grouping_id" in node.output().toString():
            raise GROUPING.raised(place_of(node), f"{branches} of them")
        child, mark = self.child(node), len(self.attached)
        places = {c.name: i for i, c in reversed(list(enumerate(self.columns(node))))}
        columns = tuple(c for i, c in enumerate(self.columns(node)) if places[c.name] == i)
        rows = [self.b.items(r) for r in self.b.items(node.projections())]
        bound = tuple(tuple(self.expr(r[places[c.name]]) for c in columns) for r in rows)
        return p.Expand(columns, self.attach(child, mark), bound)

    def bind_generate(self, node: Any) -> p.Plan:
        child, mark = self.child(node), len(self.attached)
        generator = self.expr(node.generator())
        new = tuple(self.name_of(a) for a in self.b.items(node.generatorOutput()))
        below, columns = self.attach(child, mark), self.distinct(node)
        extra = below.columns[len(child.columns) :]
        generated = p.Generate((*columns, *extra), below, generator, node.outer(), new)
        return p.project(generated, p.passing(generated, only=[c.name for c in columns])) if extra else generated

    def bind_window(self, node: Any) -> p.Plan:
        child, mark = self.child(node), len(self.attached)
        keys = [self.partition_key(e, i) for i, e in enumerate(self.b.items(node.partitionSpec()))]
        functions = bind_window_functions(self.b.items(node.windowExpressions()), self)
        order = self.ordering(node.orderSpec())
        below, columns = self.attach(child, mark), self.distinct(node)
        computed = [(item, column) for item, column in keys if item.expr is not None]
        if computed:
            below = p.project(below, p.passing(below, *(i for i, _ in computed)), [c for _, c in computed])
        extra = below.columns[len(child.columns) :]
        window = p.Window((*columns, *extra), below, functions, tuple(item.name for item, _ in keys), order)
        return p.project(window, p.passing(window, only=[c.name for c in columns])) if extra else window

    def partition_key(self, e: Any, place: int) -> tuple[p.Item, p.Column]:
        """A column that rows are partitioned by; one that is computed gets a name of its own."""
        bound = self.expr(e)
        name = bound.columns[0] if bound.is_column else self.unique(f"__fl_p{place}")
        return p.Item(name, None if bound.is_column else bound), p.Column(name, json_type(e.dataType()))

    def ordering(self, order: Any) -> tuple[p.Order, ...]:
        return tuple(
            p.Order(self.expr(o.child()), f"{o.direction().sql()} {o.nullOrdering().sql()}")
            for o in self.b.items(order)
        )

    def bind_sort(self, node: Any) -> p.Plan:
        child, mark = self.child(node), len(self.attached)
        order = self.ordering(node.order())
        below = self.attach(child, mark)
        ordered = p.Sort(below.columns, below, order, getattr(node, "global")())
        return ordered if below is child else p.project(ordered, p.passing(child))

    def bind_globallimit(self, node: Any) -> p.Plan:
        below, count = node.children().head(), int(node.limitExpr().eval(None))
        while below.nodeName() == "LocalLimit":
            below = below.children().head()
        rows = below.maxRows()
        if rows.isDefined() and rows.get() <= count:  # there is nothing to cut, as after an aggregate without groups
            return self.walk(below)
        return p.Limit(self.columns(node), self._ordered(node), count)

    def bind_offset(self, node: Any) -> p.Plan:
        return p.Limit(self.columns(node), self._ordered(node), int(node.offsetExpr().eval(None)), True)

    def _ordered(self, node: Any) -> p.Plan:
        """What a LIMIT or OFFSET cuts; without an order it would keep other rows at every refresh."""
        child = below = self.child(node)
        while isinstance(below, p.Project | p.Limit):
            below = below.child
        if not isinstance(below, p.Sort):
            word = "OFFSET" if node.nodeName() == "Offset" else "LIMIT"
            raise UNORDERED_LIMIT.raised(place_of(node, word))
        return child

    def bind_unionloop(self, node: Any) -> p.Plan:
        loop, depth = self.loop(node.id()), node.maxDepth()
        limit: Any = depth.get() if depth.isDefined() else self.b.spark.conf.get("spark.sql.cteRecursionLevelLimit")
        return self.by_place(node, lambda columns, inputs: p.Loop(columns, inputs, loop, int(limit), depth))

    def bind_unionloopref(self, node: Any) -> p.Plan:
        return p.LoopRef(self.columns(node), self.loop(node.loopId()))

    def loop(self, drawn: int) -> int:
        """Spark draws another number each time; the same query must have the same one."""
        return self.loops.setdefault(drawn, len(self.loops) + 1)
