"""PostgreSQL queries as Spark SQL: SELECT, set operations, WITH, DISTINCT ON, ORDER BY, LIMIT."""

from __future__ import annotations

from dataclasses import dataclass

from freshlake.dialect import types as t
from freshlake.dialect.expressions import folded
from freshlake.dialect.names import output_name
from freshlake.dialect.relations import Relations
from freshlake.dialect.scope import Columns, Output, Scope, renamed
from freshlake.dialect.translation import ColumnsOf
from freshlake.dialect.tree import binary, call, column, exp, name, number, parse, render
from freshlake.dialect.typed import AFTER, Typed, title, whole
from freshlake.dialect.types import of_spark
from freshlake.errors import InvalidQuery, UnsupportedRowLock

_CLAUSES = ("expressions", "distinct", "from_", "joins", "where", "group", "having", "windows")
_TAIL = ("order", "limit", "offset", "with_", "locks")
_SETS = ("this", "expression", "distinct")
_ROW = "__fl_row"


def translate(text: str, columns_of: ColumnsOf) -> str:
    """The query as Spark SQL text."""
    translator = Translator(text, columns_of)
    node, columns = translator.query(parse(text), None, named=True)
    for output in columns:
        if output.type == t.INTERVAL:
            reason = "Delta has no type for it"
            raise translator.refuse(f"the interval {output.name} as a result", reason, "extract(epoch from …)")
    return render(node)


@dataclass(frozen=True)
class Item:
    """One expression of a SELECT list: as written, translated, and named; None for a star."""

    written: exp.Expr
    node: exp.Expr
    label: str | None


class Translator(Relations):
    def __init__(self, text: str, columns_of: ColumnsOf) -> None:
        self.text = text
        self.scope = Scope()
        self._columns_of = columns_of

    def columns_of(self, table: str) -> Columns:
        return tuple(Output(label, of_spark(kind)) for label, kind in self._columns_of(table))

    # Queries ---------------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, outer: Scope | None, named: bool = False) -> tuple[exp.Expr, Columns]:
        """`named`: columns without an alias get the name that PostgreSQL gives them."""
        before, self.scope = self.scope, Scope(parent=outer)
        try:
            return self._query(node, named)
        finally:
            self.scope = before

    def _query(self, node: exp.Expr, named: bool) -> tuple[exp.Expr, Columns]:
        if node.args.get("locks"):
            raise self.refuse(
                "FOR UPDATE or FOR SHARE",
                "locks serve no purpose in a maintained result",
                "remove the clause",
                node,
                UnsupportedRowLock,
                r"\bFOR\s+(UPDATE|SHARE|NO\s+KEY|KEY\s+SHARE)\b",
            )
        with_queries = self._with(node.args.get("with_"))
        if isinstance(node, exp.Select):
            made, columns = self._select(node, named)
        elif isinstance(node, exp.SetOperation):
            made, columns = self._set_operation(node, named)
        elif isinstance(node, exp.Subquery):
            made, columns = self._wrapped(node, named)
        elif isinstance(node, exp.Values):
            made, columns = self.values(node)
            made.set("alias", exp.TableAlias(this=name("values"), columns=[name(c.name) for c in columns]))
            made = exp.Select(expressions=[exp.Star()]).from_(made)
        else:
            raise self.refuse(title(node), "it has no proven translation", AFTER, node)
        if with_queries is not None:
            made.set("with_", with_queries)
        return made, columns

    def _with(self, node: exp.Expr | None) -> exp.Expr | None:
        if node is None:
            return None
        self.only(node, "expressions", "recursive")
        made = [self._with_query(q, bool(node.args.get("recursive"))) for q in node.expressions]
        recursive = any(m.args.pop("is_recursive", False) for m in made)
        return exp.With(expressions=made, recursive=recursive or None)

    def _with_query(self, node: exp.Expr, may_recurse: bool) -> exp.Expr:
        # MATERIALIZED is a hint; the rows are the same
        self.only(node, "this", "alias", "materialized")
        label, names = self._alias(node)
        assert label is not None
        body = node.this
        recursive = may_recurse and any(folded(x.this) == label for x in body.find_all(exp.Table) if x.name)
        if recursive:
            if not isinstance(body, exp.Union) or body.args.get("distinct"):
                reason = "Spark recurses with UNION ALL only"
                raise self.refuse("WITH RECURSIVE by UNION", reason, "use UNION ALL, and DISTINCT over it", node)
            _, anchor = self.query(body.this, self.scope, named=True)
            self.scope.queries[label] = renamed(anchor, names)
        inner, columns = self.query(body, self.scope, named=True)
        self.scope.queries[label] = renamed(columns, names)
        alias = exp.TableAlias(this=name(label), columns=[name(n) for n in names] or None)
        made = exp.CTE(this=inner, alias=alias)
        made.args["is_recursive"] = recursive
        return made

    def _set_operation(self, node: exp.Expr, named: bool) -> tuple[exp.Expr, Columns]:
        self.only(node, *_SETS, *_TAIL)
        left, mine = self.query(node.this, self.scope, named)
        right, theirs = self.query(node.expression, self.scope)
        if len(mine) != len(theirs):
            raise InvalidQuery("each side of a set operation must have the same number of columns")
        columns = []
        for a, b in zip(mine, theirs, strict=True):
            kind = t.common([a.type, b.type])
            if kind is None and t.OTHER not in (a.type, b.type):
                shown = f"{a.type} and {b.type}"
                raise self.refuse(f"a set operation of {shown}", "PostgreSQL does not match them", "cast one", node)
            columns.append(Output(a.name, kind or t.OTHER))
        sides = [self._side(s, o) for s, o in ((left, node.this), (right, node.expression))]
        made = type(node)(this=sides[0], expression=sides[1], distinct=bool(node.args.get("distinct")))
        self._tail(node, made, [Item(exp.Null(), column(c.name), c.name) for c in columns], result=True)
        return made, tuple(columns)

    def _side(self, made: exp.Expr, written: exp.Expr) -> exp.Expr:
        """In parentheses where it was, or where it became more than one SELECT."""
        plain = isinstance(made, exp.Select) and not any(
            made.args.get(k) for k in ("order", "limit", "offset", "with_")
        )
        chain = isinstance(made, exp.SetOperation) and not isinstance(written, exp.Subquery)
        return made if plain or (chain and not made.args.get("limit")) else exp.Subquery(this=made)

    def _wrapped(self, node: exp.Expr, named: bool) -> tuple[exp.Expr, Columns]:
        self.only(node, "this", *_TAIL)
        made, columns = self.query(node.this, self.scope, named)
        if any(node.args.get(key) for key in ("order", "limit", "offset")):
            inner = exp.Subquery(this=made, alias=exp.TableAlias(this=name("__fl_query")))
            made = exp.Select(expressions=[exp.Star()]).from_(inner)
            self._tail(node, made, [Item(exp.Null(), column(c.name), c.name) for c in columns], result=True)
        return made, columns

    # SELECT ----------------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Expr, named: bool) -> tuple[exp.Expr, Columns]:
        self.only(node, *_CLAUSES, *_TAIL)
        if not node.expressions:
            raise self.refuse("SELECT without columns", "Spark has none", "select a constant", node)
        made = exp.Select()
        if node.args.get("from_") is not None:
            first, joins = self.from_clause(node.args["from_"].this, node.args.get("joins") or [])
            made.set("from_", exp.From(this=first))
            made.set("joins", joins or None)
        if node.args.get("where") is not None:
            made.set("where", exp.Where(this=self.condition(node.args["where"].this)))
        if node.args.get("windows"):
            made.set("windows", [self._named_window(w) for w in node.args["windows"]])
        items, columns = self._items(node.expressions, named)
        if node.args.get("group") is not None:
            made.set("group", self._group(node.args["group"]))
        if node.args.get("having") is not None:
            self._check_shadowed(node.args["having"], items, "HAVING")
            made.set("having", exp.Having(this=self.condition(node.args["having"].this)))
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            return self._distinct_on(node, made, items, columns)
        made.set("expressions", [_shown(i) for i in items])
        if distinct is not None:
            made.set("distinct", exp.Distinct())
        self._tail(node, made, items, result=False)
        return made, columns

    def _items(self, nodes: list[exp.Expr], named: bool) -> tuple[list[Item], Columns]:
        items: list[Item] = []
        columns: list[Output] = []
        for node in nodes:
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                table = folded(node.args["table"]) if node.args.get("table") else None
                star = exp.Column(this=exp.Star(), table=name(table)) if table else exp.Star()
                columns += self.scope.star if table is None else self.scope.all_columns(table)
                items.append(Item(node, star, None))
                continue
            inner = node.this if isinstance(node, exp.Alias) else node
            found = self.expr(inner)
            found = Typed(found.node, t.TEXT if found.type == t.UNKNOWN else found.type)
            label = output_name(node)
            plain = isinstance(node, exp.Column) or (not named and not isinstance(node, exp.Alias))
            shown = found.node if plain else exp.Alias(this=found.node, alias=name(label))
            items.append(Item(inner, shown, label))
            columns.append(Output(label, found.type))
        return items, tuple(columns)

    def _named_window(self, node: exp.Expr) -> exp.Expr:
        self.only(node, "this", "partition_by", "order", "spec", "alias")
        made = self.window(node)
        made.set("this", name(folded(node.this)))
        made.set("over", None)
        return made

    def _group(self, node: exp.Expr) -> exp.Expr:
        self.only(node, "expressions", "all")
        if node.args.get("all") is False:
            reason = "Spark keeps grouping sets that are there twice"
            raise self.refuse("GROUP BY DISTINCT", reason, "name each grouping set once", node)
        sets = (exp.Rollup, exp.Cube, exp.GroupingSets)
        plain = [e for e in node.expressions if not isinstance(e, (*sets, exp.Tuple))]
        made = []
        for e in node.expressions:
            empty = isinstance(e, exp.Rollup | exp.Cube) or (isinstance(e, exp.Tuple) and not e.expressions)
            empty = empty or (isinstance(e, exp.GroupingSets) and _has_empty_set(e))
            if empty and not plain:
                reason = "over no rows PostgreSQL gives a total row, and Spark none"
                rewrite = "write the total as a second query: … GROUP BY a UNION ALL SELECT NULL, count(*) FROM …"
                raise self.refuse("a grouping set without columns", reason, rewrite, e)
            made.append(self._grouping(e))
        return exp.Group(expressions=made)

    def _grouping(self, e: exp.Expr) -> exp.Expr:
        if isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            return type(e)(expressions=[self._grouping(x) for x in e.expressions])
        if isinstance(e, exp.Paren):
            return exp.Paren(this=self._grouping(e.this))
        return e.copy() if whole(e) is not None else self.expr(e).node

    # DISTINCT ON -----------------------------------------------------------------------------------------------------

    def _distinct_on(
        self, node: exp.Expr, made: exp.Expr, items: list[Item], columns: Columns
    ) -> tuple[exp.Expr, Columns]:
        """The first row of each group in the order that ORDER BY gives: numbered, and the numbers 1 kept."""
        keys = [self._resolved(e, items) for e in _members(node.args["distinct"].args["on"])]
        order = node.args.get("order")
        sorted_by = [(self._resolved(o.this, items), o) for o in (order.expressions if order is not None else [])]
        leading = [k for k, _ in sorted_by[: len(keys)]]
        if order is None or any(k not in leading for k in keys):
            reason = "which row of a group is kept is then left open"
            rewrite = "begin ORDER BY with the DISTINCT ON columns, then say which row comes first"
            raise self.refuse("DISTINCT ON without a fitting ORDER BY", reason, rewrite, node.args["distinct"])
        if any(i.label is None for i in items):
            raise self.refuse("DISTINCT ON with *", "its columns must be named", "name the columns", node)
        ordered = [
            exp.Ordered(this=k.copy(), desc=o.args.get("desc"), nulls_first=o.args.get("nulls_first"))
            for k, o in sorted_by
        ]
        rank = exp.Window(
            this=call("row_number"),
            partition_by=[k.copy() for k in keys],
            order=exp.Order(expressions=ordered),
            over="OVER",
        )
        cut = any(node.args.get(k) for k in ("limit", "offset"))
        hidden = (
            [exp.Alias(this=o.this.copy(), alias=name(f"__fl_order_{i}")) for i, o in enumerate(ordered)] if cut else []
        )
        inner = [_shown(i) for i in items]
        made.set("expressions", [*inner, *hidden, exp.Alias(this=rank, alias=name(_ROW))])
        outer = exp.Select(expressions=[column(c.name) for c in columns])
        outer.set("from_", exp.From(this=exp.Subquery(this=made, alias=exp.TableAlias(this=name("__fl_numbered")))))
        outer.set("where", exp.Where(this=binary(exp.EQ, column(_ROW), number(1))))
        if cut:
            again = [
                exp.Ordered(
                    this=column(f"__fl_order_{i}"), desc=o.args.get("desc"), nulls_first=o.args.get("nulls_first")
                )
                for i, o in enumerate(ordered)
            ]
            outer.set("order", exp.Order(expressions=again))
            self._limits(node, outer)
        return outer, columns

    def _resolved(self, e: exp.Expr, items: list[Item]) -> exp.Expr:
        """What a key of ORDER BY or DISTINCT ON means: a number or name of an output column, or an expression."""
        position = whole(e)
        if position is not None:
            if not 1 <= position <= len(items):
                raise InvalidQuery(f"position {position} is not in the select list")
            return _bare(items[position - 1].node)
        if isinstance(e, exp.Column) and not e.args.get("table"):
            for item in items:
                if item.label == folded(e.this):
                    return _bare(item.node)
        return self.expr(e).node

    # ORDER BY, LIMIT, OFFSET -----------------------------------------------------------------------------------------

    def _tail(self, node: exp.Expr, made: exp.Expr, items: list[Item], result: bool) -> None:
        order = node.args.get("order")
        if order is not None:
            self.only(order, "expressions")
            made.set("order", exp.Order(expressions=[self._key(o, items, result) for o in order.expressions]))
        self._limits(node, made)

    def _key(self, key: exp.Expr, items: list[Item], result: bool) -> exp.Expr:
        self.only(key, "this", "desc", "nulls_first")
        e = key.this
        labels = [i.label for i in items]
        bare = isinstance(e, exp.Column) and not e.args.get("table") and folded(e.this) in labels
        if whole(e) is not None:
            node = e.copy()
        elif bare:
            node = column(folded(e.this))
        elif result:
            reason = "only output columns and their numbers may be named here"
            raise self.refuse("ORDER BY an expression over a set operation", reason, "order by a column", key)
        else:
            self._check_shadowed(e, items, "ORDER BY")
            node = self.expr(e).node
        return exp.Ordered(this=node, desc=key.args.get("desc"), nulls_first=key.args.get("nulls_first"))

    def _check_shadowed(self, node: exp.Expr, items: list[Item], clause: str) -> None:
        """Inside an expression PostgreSQL means the input column, and Spark an output column of that name."""
        renamed_to = {i.label for i in items if i.label is not None and not _is_column(i.written, i.label)}
        for found in node.find_all(exp.Column):
            if (
                not found.args.get("table")
                and not isinstance(found.this, exp.Star)
                and folded(found.this) in renamed_to
            ):
                label = folded(found.this)
                reason = f"{label} is a column and also the name of another output column; Spark takes the latter"
                raise self.refuse(f"{label} in {clause}", reason, f"write it with its table: t.{label}", found)

    def _limits(self, node: exp.Expr, made: exp.Expr) -> None:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if isinstance(limit, exp.Fetch):
            options = limit.args.get("limit_options")
            if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
                reason = "Spark has no such limit"
                raise self.refuse("FETCH … WITH TIES", reason, "use rank() <= n in a subquery", limit)
            count = limit.args.get("count") or number(1)
        else:
            count = limit.expression if limit is not None else None
        if count is not None and not isinstance(count, exp.Null | exp.Var):
            made.set("limit", exp.Limit(expression=self.expr(count).node))
        if offset is not None:
            made.set("offset", exp.Offset(expression=self.expr(offset.expression).node))


def _shown(item: Item) -> exp.Expr:
    return item.node


def _bare(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def _members(on: exp.Expr) -> list[exp.Expr]:
    if isinstance(on, exp.Tuple):
        return list(on.expressions)
    return [on.this] if isinstance(on, exp.Paren) else [on]


def _is_column(node: exp.Expr, label: str) -> bool:
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) and folded(node.this) == label


def _has_empty_set(node: exp.Expr) -> bool:
    return any(
        isinstance(e, exp.Rollup | exp.Cube) or (isinstance(e, exp.Tuple) and not e.expressions)
        for e in node.expressions
    )
