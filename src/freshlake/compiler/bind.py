"""Read Spark's analyzed plan into the algebra: names become unique, expressions become opaque handles."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from freshlake.compiler import plan as p
from freshlake.compiler.bridge import CATALYST, Bridge
from freshlake.compiler.bind_call import bind_call
from freshlake.errors import NonDeterministic, TimeTravelUnsupported, UnsupportedQuery

_OPT, _ANA = CATALYST + "optimizer.", CATALYST + "analysis."
_ONCE = [_ANA + n for n in ("EliminateSubqueryAliases", "EliminateView")] + [
    _OPT + n
    for n in (
        "EliminateResolvedHint EliminateSQLFunctionNode ReplaceExpressions RewriteWithExpression RewriteAsOfJoin "
        "PullOutNestedDataOuterRefExpressions PullupCorrelatedPredicates"
    ).split()
]
_FIXPOINT = [
    _OPT + n
    for n in (
        "ReplaceExpressions RewriteWithExpression RewriteCorrelatedScalarSubquery RewriteLateralSubquery "
        "RewritePredicateSubquery OptimizeOneRowRelationSubquery PullupCorrelatedPredicates "
        "ReplaceIntersectWithSemiJoin ReplaceExceptWithAntiJoin ReplaceDistinctWithAggregate "
        "ReplaceDeduplicateWithAggregate ReplaceUpdateFieldsExpression"
    ).split()
]
_TRANSPARENT = frozenset(
    "SubqueryAlias View ResolvedHint Subquery Repartition RepartitionByExpression RebalancePartitions SQLFunctionNode "
    "PipeOperator CollectMetrics LocalLimit".split()
)
_REWRITES = {
    "Sample": ("TABLESAMPLE", "a random sample has no stable rows to maintain", "keep everything, sample when reading"),
    "ScriptTransformation": ("TRANSFORM", "an external script cannot be reproduced", "use SQL or a PySpark function"),
}


@dataclass(frozen=True)
class Source:
    """A table that a query reads, as Spark resolved it."""

    key: str
    path: str
    name: str | None
    schema_json: str


@dataclass(frozen=True)
class Bound:
    """A query as the algebra: `output` gives the user's column labels in order."""

    plan: p.Plan
    output: tuple[p.Column, ...]
    sources: tuple[Source, ...]


def bind(frame: DataFrame, bridge: Bridge) -> Bound:
    return _Binder(bridge).bind(frame)


class _Binder:
    def __init__(self, bridge: Bridge) -> None:
        self.b = bridge
        self.names: dict[int, str] = {}
        self.attributes: dict[int, Any] = {}
        self.pairs: list[Any] = []
        self.ctes: dict[int, p.Plan] = {}
        self.sources: dict[str, Source] = {}
        self.attached: list[tuple[p.Column, p.Plan, bool]] = []

    def bind(self, frame: DataFrame) -> Bound:
        analyzed = frame._jdf.queryExecution().analyzed()
        output = self.columns(analyzed)
        plan = self.walk(self.normalise(analyzed))
        return Bound(plan, output, tuple(self.sources.values()))

    def normalise(self, plan: Any) -> Any:
        for rule in _ONCE:
            plan = self.b.module(rule).apply(plan)
        for _ in range(20):
            before = plan
            for rule in _FIXPOINT:
                plan = self.b.module(rule).apply(plan)
            if plan.fastEquals(before):
                break
        return plan

    # Columns ---------------------------------------------------------------------------------------------------------

    def name_of(self, attribute: Any, expr_id: int | None = None) -> str:
        """A name that is unique in the plan and the same in every process: numbered by first appearance."""
        key = attribute.exprId().id() if expr_id is None else expr_id
        if key not in self.names:
            plain = re.sub(r"#\d+L?", "", attribute.name())
            stem = re.sub(r"[^A-Za-z0-9_]", "_", plain)[:32]
            name = f"{stem}_{len(self.names) + 1}"
            self.names[key], self.attributes[key] = name, attribute
            self.pairs.append(self.b.pair(attribute, self.b.stable_alias(self.b.attribute(name), name)))
        return self.names[key]

    def ids(self, seq: Any) -> list[int]:
        return [int(x) for x in re.findall(r"#(\d+)L?(?=\x01)", seq.mkString("", "\x01", "\x01"))]

    def columns(self, node: Any) -> tuple[p.Column, ...]:
        output = node.output()
        ids = self.ids(output)
        fields = json.loads(node.schema().json())["fields"]
        if len(ids) != len(fields):
            ids = [a.exprId().id() for a in self.b.items(output)]
        result = []
        for position, (key, f) in enumerate(zip(ids, fields, strict=True)):
            if key not in self.names:
                self.name_of(output.apply(position), key)
            kind = f["type"] if isinstance(f["type"], str) else json.dumps(f["type"])
            metadata = json.dumps(f.get("metadata") or {})
            result.append(
                p.Column(self.names[key], kind, f["nullable"], f["name"], metadata, self.attributes[key])
            )
        return tuple(result)

    # Expressions -----------------------------------------------------------------------------------------------------

    def expr(self, e: Any) -> p.Expr:
        e = self.prepare(e)
        if e.containsPattern(self.b.plan_expression):
            e = self.lower(e)
        self.check(e)
        columns = tuple(self.names[i] for i in self.ids(e.references().toSeq()))
        kind = e.getClass().getSimpleName()
        handle = self.b.substitute(e, self.pairs_of(columns)) if columns else e
        equality = self.equality(e) if kind == "EqualTo" else None
        return p.Expr(self.readable(e), columns, handle, kind == "AttributeReference", equality)

    def pairs_of(self, columns: tuple[str, ...]) -> list[Any]:
        wanted = set(columns)
        return [pair for pair, name in zip(self.pairs, self.names.values(), strict=True) if name in wanted]

    def readable(self, e: Any) -> str:
        text: str = e.toString()
        names = self.names
        return re.sub(r"[\w$.]*#(\d+)L?", lambda m: names.get(int(m[1]), m[0]), text)

    def equality(self, e: Any) -> tuple[str, str] | None:
        left, right = e.left(), e.right()
        if all(s.getClass().getSimpleName() == "AttributeReference" for s in (left, right)):
            return self.name_of(left), self.name_of(right)
        return None

    def check(self, e: Any) -> None:
        pattern = self.b.pattern
        if e.containsPattern(pattern.CURRENT_LIKE()):
            raise UnsupportedQuery(
                f"the query depends on the current time: {self.readable(e)}",
                detail="rows would change without any source changing",
                hint="filter by the current time when reading the stream table",
            )
        if e.containsPattern(pattern.EXPRESSION_WITH_RANDOM_SEED()) or not e.deterministic():
            raise NonDeterministic(
                f"the query is not deterministic: {self.readable(e)}",
                hint="remove the random function, or compute it when reading the stream table",
            )

    def prepare(self, e: Any) -> Any:
        """Rank functions ask their children for a data type when built, so they cannot hold unresolved attributes."""
        if e.getClass().getSimpleName() == "WindowExpression":
            f = e.windowFunction()
            if f.getClass().getSimpleName() in ("Rank", "DenseRank", "PercentRank"):
                return e.withNewChildren(self.b.seq([f.withOrder(self.b.nil), e.windowSpec()]))
        return e

    def lower(self, e: Any) -> Any:
        """Uncorrelated scalar subqueries and EXISTS become columns of a joined relation of at most one row."""
        kind = e.getClass().getSimpleName()
        if kind in ("ScalarSubquery", "Exists"):
            return self.lower_subquery(e, kind)
        if kind in ("ListQuery", "InSubquery", "LateralSubquery"):
            raise UnsupportedQuery(f"a subquery in this place cannot be maintained: {kind}", hint="write it as a join")
        lowered = [self.lower(k) if k.containsPattern(self.b.plan_expression) else k for k in self.b.items(e.children())]
        return e.withNewChildren(self.b.seq(lowered))

    def lower_subquery(self, e: Any, kind: str) -> Any:
        if e.outerAttrs().size():
            raise UnsupportedQuery("a correlated subquery in this place cannot be maintained", hint="write it as a join")
        plan, b = e.plan(), self.b
        if kind == "Exists":
            literal = b.module(CATALYST + "expressions.Literal")
            count = b.expressions.aggregate.Count(b.seq([literal.apply(1)])).toAggregateExpression()
            positive = b.expressions.GreaterThan(count, b.expressions.Cast(literal.apply(0), count.dataType(), b.none))
            plan = b.node["Aggregate"](b.nil, b.seq([b.alias(positive, "found")]), plan, b.none)
        rows = plan.maxRows()
        sub = self.walk(self.normalise(plan))
        attribute = b.attribute_class(
            "subquery", e.dataType(), True, b.metadata_class.empty(), b.new_id(), b.nil
        )
        name = self.name_of(attribute)
        column = p.Column(name, _type(e.dataType()), True, name, "{}", attribute)
        self.attached.append((column, sub, rows.isDefined() and rows.get() <= 1))
        return attribute

    def attach(self, child: p.Plan, mark: int) -> p.Plan:
        """Join the one-row relations that expressions bound since `mark` asked for."""
        for column, sub, single in self.attached[mark:]:
            right = p.Project((column,), sub, (p.Item(column.name, p.column_expr(sub.names[0])),))
            kind = "LeftOuter" if single else "LeftSingle"
            child = p.Join((*child.columns, column), (child, right), kind, (), None, self.b.join_type(kind))
        del self.attached[mark:]
        return child

    def conjuncts(self, e: Any) -> list[Any]:
        if e.getClass().getSimpleName() == "And":
            return self.conjuncts(e.left()) + self.conjuncts(e.right())
        return [e]

    def named(self, expressions: list[Any]) -> tuple[p.Item, ...]:
        result: dict[str, p.Item] = {}
        for e in expressions:
            key, kind = e.exprId().id(), e.getClass().getSimpleName()
            if kind == "AttributeReference":
                name = self.name_of(e, key)
                result.setdefault(name, p.Item(name))
                continue
            bound = self.expr(e.child() if kind == "Alias" else e)
            name = self.name_of(e.toAttribute(), key)
            result.setdefault(name, p.Item(name, bound))
        return tuple(result.values())

    # Plans -----------------------------------------------------------------------------------------------------------

    def walk(self, node: Any) -> p.Plan:
        kind = node.nodeName().split(" ")[0]
        if kind in _TRANSPARENT:
            return self.walk(node.children().head())
        method = getattr(self, "bind_" + kind.lower(), None)
        if method is None:
            construct, reason, rewrite = _REWRITES.get(kind, (kind, "Freshlake does not know this operator", None))
            raise UnsupportedQuery(f"{construct} is not supported in a stream table", detail=reason, hint=rewrite)
        bound: p.Plan = method(node)
        return bound

    def child(self, node: Any) -> p.Plan:
        return self.walk(node.children().head())

    def bind_withcte(self, node: Any) -> p.Plan:
        for definition in self.b.items(node.cteDefs()):
            self.ctes[definition.id()] = self.walk(definition.child())
        return self.walk(node.plan())

    def bind_cterelationref(self, node: Any) -> p.Plan:
        definition, columns = self.ctes[node.cteId()], self.columns(node)
        items = (p.Item(c.name, p.column_expr(d.name)) for c, d in zip(columns, definition.columns, strict=True))
        return p.Project(columns, definition, tuple(items))

    def bind_logicalrelation(self, node: Any) -> p.Plan:
        columns = self.columns(node)
        source = self.source(node)
        self.sources[source.key] = source
        return p.Scan(columns, source.key, tuple(c.label for c in columns))

    bind_relation = bind_logicalrelation

    def source(self, node: Any) -> Source:
        relation = node.relation()
        # Delta's relation is an anonymous subclass, so it is recognised by its file index
        location = relation.location() if _has(relation, "location") else None
        index = location.getClass().getSimpleName() if location is not None else ""
        table = node.catalogTable()
        name = table.get().identifier().unquotedString() if table.isDefined() else None
        if not index.startswith("Tahoe"):
            raise UnsupportedQuery(
                f"source {name or relation.toString()[:80]} is not a Delta table",
                hint="store it as a Delta table (USING delta), then name that table in the query",
            )
        if location.isTimeTravelQuery():
            raise TimeTravelUnsupported(
                f"source {name or ''} is pinned to one version", hint="remove VERSION/TIMESTAMP AS OF from the query"
            )
        path = _local_path(location.path().toString())
        return Source(path, path, name, relation.schema().json())

    def bind_onerowrelation(self, node: Any) -> p.Plan:
        return p.Values((), "one row", node)

    def constant(self, node: Any) -> p.Plan:
        return p.Values(self.columns(node), node.toString()[:200], node)

    bind_localrelation = constant
    bind_range = constant

    def refuse_leaf(self, node: Any) -> p.Plan:
        raise UnsupportedQuery(
            "the query reads rows that exist only in this Spark session",
            detail=node.toString()[:120],
            hint="write them to a Delta table first",
        )

    bind_logicalrdd = refuse_leaf
    bind_inmemoryrelation = refuse_leaf

    def refuse_source(self, node: Any) -> p.Plan:
        raise UnsupportedQuery(
            f"source {node.toString()[:80]} is not a Delta table",
            hint="store it as a Delta table (USING delta), then name that table in the query",
        )

    bind_datasourcev2relation = refuse_source
    bind_hivetablerelation = refuse_source

    def bind_project(self, node: Any) -> p.Plan:
        child, mark = self.child(node), len(self.attached)
        items = self.named(self.b.items(node.projectList()))
        columns = {c.name: c for c in self.columns(node)}
        return p.Project(tuple(columns.values()), self.attach(child, mark), items)

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
        mark = len(self.attached)
        condition = node.condition()
        on = tuple(self.expr(e) for e in self.conjuncts(condition.get())) if condition.isDefined() else ()
        below, columns = self.attach(left, mark), self.columns(node)
        extra = below.columns[len(left.columns) :]
        joined: p.Plan
        if kind in ("Inner", "Cross"):
            joined = p.InnerJoin((*below.columns, *right.columns), (below, right), on)
        else:
            joined = p.Join((*columns, *extra), (below, right), kind, on, exists, join_type)
        return p.project(joined, p.passing(joined, only=[c.name for c in columns])) if extra else joined

    def bind_aggregate(self, node: Any) -> p.Plan:
        if "pivotfirst(" in node.toString():
            raise UnsupportedQuery("PIVOT is not supported in a stream table", hint="write one FILTER aggregate per value")
        child, mark = self.child(node), len(self.attached)
        parts = self.b.module(CATALYST + "planning.PhysicalAggregation").unapply(node).get()
        grouping = self.b.items(parts._1())
        keys = self.named(grouping)
        key_columns = {}
        for g in grouping:
            name = self.names[g.exprId().id()]
            attribute = self.attributes[g.exprId().id()]
            key_columns[name] = p.Column(name, _type(g.dataType()), g.nullable(), g.name(), "{}", attribute)
        calls = tuple(bind_call(a, i, self.name_of(a.resultAttribute()), self) for i, a in enumerate(self.b.items(parts._2())))
        call_columns = tuple(p.Column(c.name, c.type, True, c.text) for c in calls)
        aggregate = p.Aggregate((*key_columns.values(), *call_columns), self.attach(child, mark), keys, calls)
        mark = len(self.attached)
        items = self.named(self.b.items(parts._3()))
        return p.Project(self.columns(node), self.attach(aggregate, mark), items)

    def bind_union(self, node: Any) -> p.Plan:
        inputs = tuple(self.walk(c) for c in self.b.items(node.children()))
        return p.Union(self.columns(node), inputs)

    def set_operation(self, node: Any) -> p.Plan:
        left, right = (self.walk(c) for c in self.b.items(node.children()))
        return p.SetOp(self.columns(node), (left, right), node.nodeName().split(" ")[0], node.isAll())

    bind_intersect = set_operation
    bind_except = set_operation

    def bind_expand(self, node: Any) -> p.Plan:
        child = self.child(node)
        rows = tuple(tuple(self.expr(e) for e in self.b.items(r)) for r in self.b.items(node.projections()))
        return p.Expand(self.columns(node), child, rows)

    def bind_generate(self, node: Any) -> p.Plan:
        child = self.child(node)
        generator = self.expr(node.generator())
        new = tuple(self.name_of(a) for a in self.b.items(node.generatorOutput()))
        return p.Generate(self.columns(node), child, generator, node.outer(), new)

    def bind_window(self, node: Any) -> p.Plan:
        child = self.child(node)
        items = self.named(self.b.items(node.windowExpressions()))
        partition = tuple(self.expr(e) for e in self.b.items(node.partitionSpec()))
        order = tuple(self.expr(e) for e in self.b.items(node.orderSpec()))
        return p.Window(self.columns(node), child, items, partition, order)

    def bind_sort(self, node: Any) -> p.Plan:
        child, mark = self.child(node), len(self.attached)
        order = tuple(self.expr(e) for e in self.b.items(node.order()))
        below = self.attach(child, mark)
        ordered = p.Sort(below.columns, below, order, getattr(node, "global")())
        return ordered if below is child else p.project(ordered, p.passing(child))

    def bind_globallimit(self, node: Any) -> p.Plan:
        return p.Limit(self.columns(node), self.child(node), self.expr(node.limitExpr()))

    def bind_offset(self, node: Any) -> p.Plan:
        return p.Limit(self.columns(node), self.child(node), self.expr(node.offsetExpr()), True)

    def bind_unionloop(self, node: Any) -> p.Plan:
        inputs = (self.walk(node.anchor()), self.walk(node.recursion()))
        return p.Loop(self.columns(node), inputs, node.id(), node.maxDepth())

    def bind_unionloopref(self, node: Any) -> p.Plan:
        return p.LoopRef(self.columns(node), node.loopId())


def _has(instance: Any, method: str) -> bool:
    return any(m.getName() == method for m in instance.getClass().getMethods())


def _type(data_type: Any) -> str:
    kind = json.loads(data_type.json())
    return kind if isinstance(kind, str) else json.dumps(kind)


def _local_path(uri: str) -> str:
    """Local paths lose their scheme, so that one table has one key however it was named."""
    return re.sub(r"^file:/+", "/", uri)
