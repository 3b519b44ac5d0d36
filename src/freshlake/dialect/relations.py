"""The FROM clause: tables, subqueries, LATERAL, functions that return rows, joins."""

from __future__ import annotations

from dataclasses import dataclass

from freshlake.dialect import types as t
from freshlake.dialect.expressions import folded
from freshlake.dialect.intervals import Interval
from freshlake.dialect.scope import Columns, Output, Scope, renamed
from freshlake.dialect.subqueries import Subqueries
from freshlake.dialect.tree import binary, call, case, exp, name, number
from freshlake.dialect.typed import AFTER, CAST, Typed, is_literal, whole
from freshlake.errors import UnsupportedLateralJoin, UnsupportedTablesample

_FUNCTIONS = ("generate_series", "unnest")


@dataclass(frozen=True)
class Relation:
    """`rows` is set for a function that returns rows: its array, to be exploded."""

    node: exp.Expr
    alias: str | None
    columns: Columns
    rows: exp.Expr | None = None
    lateral: bool = False


class Relations(Subqueries):
    def columns_of(self, table: str) -> Columns:
        raise NotImplementedError

    def from_clause(self, first: exp.Expr, joins: list[exp.Expr]) -> tuple[exp.Expr, list[exp.Expr]]:
        """The first relation and the joins; what they bring is added to the scope in order."""
        groups: list[tuple[exp.Expr, list[exp.Expr]]] = [(first, [])]
        for join in joins:
            if _is_comma(join):
                groups.append((join.this, []))
            else:
                groups[-1][1].append(join)
        start, made = self._group_of_joins(*groups[0], first=True)
        for relation, joined in groups[1:]:
            left = self.scope.star
            node, further = self._group_of_joins(relation, joined, first=False)
            self.scope.star = (*left, *self.scope.star)
            made += self._after_comma(node, further, joined)
        return start, made

    def _group_of_joins(
        self, relation: exp.Expr, joins: list[exp.Expr], first: bool
    ) -> tuple[exp.Expr, list[exp.Expr]]:
        start = self.relation(relation, first)
        self.scope.star = start.columns
        return start.node, [self.join(join) for join in joins]

    def _after_comma(self, node: exp.Expr, further: list[exp.Expr], joins: list[exp.Expr]) -> list[exp.Expr]:
        """A JOIN binds tighter than a comma; in Spark it takes all that is left of it, which an outer join shows."""
        if not any(_sees_the_left(join) for join in joins):
            return [exp.Join(this=node), *further]
        if isinstance(node, exp.Lateral) or any(isinstance(j.this, exp.Lateral) for j in further):
            reason = "Spark reads such a join in another order"
            raise self.refuse("a comma before an outer join with LATERAL", reason, "use CROSS JOIN", joins[0])
        node.set("joins", further)
        return [exp.Join(this=exp.Subquery(this=node))]

    def join(self, join: exp.Expr) -> exp.Expr:
        self.only(join, "this", "side", "kind", "method", "on", "using")
        side, kind, method = (str(join.args.get(k) or "").upper() for k in ("side", "kind", "method"))
        if side not in ("", "LEFT", "RIGHT", "FULL") or kind not in ("", "INNER", "OUTER", "CROSS"):
            raise self.refuse(f"{side} {kind} JOIN".strip(), "it has no proven translation", AFTER, join)
        if method not in ("", "NATURAL"):
            raise self.refuse(f"{method} JOIN", "it has no proven translation", AFTER, join)
        right = self.relation(join.this, first=False)
        if right.lateral and side in ("RIGHT", "FULL"):
            reason = "rows of the right side would exist without the left side that they are computed from"
            rewrite = "use JOIN LATERAL or LEFT JOIN LATERAL"
            raise self.refuse(f"LATERAL with {side} JOIN", reason, rewrite, join, UnsupportedLateralJoin)
        merged = self._merged(join, right, method)
        self._extend(right, merged)
        node, side = self._outer_rows(join, right, side)
        made = exp.Join(this=node)
        for key, value in (("side", side), ("method", method), ("kind", kind if kind == "CROSS" else "")):
            made.set(key, value or None)
        if right.rows is not None and not made.args.get("side") and (kind == "CROSS" or side == "CROSS"):
            made.set("kind", "CROSS")
            made.set("side", None)
        if join.args.get("using"):
            made.set("using", [name(folded(i)) for i in join.args["using"]])
        if join.args.get("on") is not None and side != "CROSS":
            made.set("on", self.condition(join.args["on"]))
        return made

    def _outer_rows(self, join: exp.Expr, right: Relation, side: str) -> tuple[exp.Expr, str]:
        """LEFT JOIN over rows of an array: Spark loses rows there, so the array is exploded with a NULL row instead."""
        if right.rows is None:
            return right.node, side
        on = join.args.get("on")
        always = on is None or (isinstance(on, exp.Boolean) and on.this)
        if side == "LEFT":
            if not always:
                reason = "Spark loses rows of such a join"
                raise self.refuse("LEFT JOIN over a function with a condition", reason, "ON true", join)
            node = right.node.copy()
            node.set("this", call("explode_outer", right.rows))
            return node, "CROSS"
        return right.node, "CROSS" if always and on is not None else side

    def _merged(self, join: exp.Expr, right: Relation, method: str) -> list[str]:
        if join.args.get("using"):
            return [folded(i).lower() for i in join.args["using"]]
        if method == "NATURAL":
            theirs = {c.name.lower() for c in right.columns}
            return [c.name.lower() for c in self.scope.star if c.name.lower() in theirs]
        return []

    def _extend(self, right: Relation, merged: list[str]) -> None:
        """What a star stands for: merged columns first, as in both databases."""
        left = self.scope.star
        both = {c.name.lower(): c for c in reversed((*left, *right.columns))}
        first = [Output(both[m].name, self.scope.type_of(None, m)) for m in merged if m in both]
        rest = [c for c in (*left, *right.columns) if c.name.lower() not in merged]
        self.scope.star = (*first, *rest)

    # Relations -------------------------------------------------------------------------------------------------------

    def relation(self, node: exp.Expr, first: bool = True) -> Relation:
        found = self._relation(node, first)
        if not (isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table)):
            self.scope.add(found.alias, found.columns)
        return found

    def _relation(self, node: exp.Expr, first: bool) -> Relation:
        if isinstance(node, exp.Lateral):
            return self._lateral(node, first)
        if isinstance(node, exp.Unnest):
            self._plain_rows(node, "this", "expressions", "alias")
            return self._function("unnest", node.expressions, node, node, first)
        if isinstance(node, exp.Subquery):
            return self._parenthesised(node) if isinstance(node.this, exp.Table) else self._subquery(node)
        if isinstance(node, exp.Values):
            return self._values(node)
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Anonymous):
                self._plain_rows(node, "this", "alias")
                return self._function(node.this.name.lower(), node.this.expressions, node, node.this, first)
            return self._table(node)
        raise self.refuse(f"{type(node).__name__} in FROM", "it has no proven translation", AFTER, node)

    def _plain_rows(self, node: exp.Expr, *known: str) -> None:
        if node.args.get("ordinality") or node.args.get("offset"):
            reason = "row numbers of a function have no proven translation"
            raise self.refuse("WITH ORDINALITY", reason, "use generate_series over the positions", node)
        self.only(node, *known)

    def _table(self, node: exp.Expr) -> Relation:
        if node.args.get("sample") is not None:
            raise self.refuse(
                "TABLESAMPLE",
                "a random sample has no stable rows to maintain",
                "materialise all rows, and sample in the reading query: WHERE rand() < fraction",
                node,
                UnsupportedTablesample,
                r"\bTABLESAMPLE\b",
            )
        if node.args.get("rows_from"):
            reason = "Spark has no functions side by side"
            raise self.refuse("ROWS FROM", reason, "join the functions on their positions", node)
        self.only(node, "this", "db", "catalog", "alias")
        label = folded(node.this)
        # a captured table has three parts
        database, schema = (folded(node.args[part]) if node.args.get(part) else None for part in ("catalog", "db"))
        known = self.scope.with_query(label) if schema is None else None
        parts = [name(p) for p in (database, schema, label) if p is not None]
        columns = known if known is not None else self.columns_of(".".join(p.sql(dialect="spark") for p in parts))
        alias, names = self._alias(node)
        # PostgreSQL keeps the names of the columns that a list leaves out, and Spark wants all of them
        names += [c.name for c in columns[len(names) :]] if names else []
        around = {"catalog": name(database) if database else None, "db": name(schema) if schema else None}
        table = exp.Table(this=name(label), alias=_alias_node(alias, names), **around)
        return Relation(table, alias or label, renamed(columns, names))

    def _subquery(self, node: exp.Expr, lateral: bool = False) -> Relation:
        if node.args.get("sample") is not None:
            self._table(node)
        alias, names = self._alias(node)
        bare = node.copy()
        bare.set("alias", None)
        around = self.scope if lateral else Scope(self.scope.parent, queries=self.scope.queries)
        inner, columns = self.query(bare, around, named=True)
        names += [c.name for c in columns[len(names) :]] if names else []
        return Relation(
            exp.Subquery(this=inner, alias=_alias_node(alias, names)), alias, renamed(columns, names), None, lateral
        )

    def _parenthesised(self, node: exp.Expr) -> Relation:
        """A join in parentheses: its relations are seen from outside."""
        self.only(node, "this")
        star = self.scope.star
        plain = node.this.copy()
        joins = plain.args.get("joins") or []
        plain.set("joins", None)
        start, made = self.from_clause(plain, joins)
        columns, self.scope.star = self.scope.star, star
        start.set("joins", made)
        return Relation(exp.Subquery(this=start), None, columns)

    def _values(self, node: exp.Expr) -> Relation:
        self.only(node, "expressions", "alias")
        alias, names = self._alias(node)
        inner, columns = self.values(node)
        inner.set("alias", _alias_node(alias or "values", names or [c.name for c in columns]))
        return Relation(inner, alias, renamed(columns, names))

    def values(self, node: exp.Expr) -> tuple[exp.Expr, Columns]:
        """VALUES with its columns named as PostgreSQL does."""
        rows = [list(row.expressions) for row in node.expressions]
        ways = [self.alike([row[i] for row in rows], "VALUES") for i in range(len(rows[0]))]
        made = [exp.Tuple(expressions=[ways[i][0][r] for i in range(len(ways))]) for r in range(len(rows))]
        columns = tuple(
            Output(f"column{i + 1}", t.TEXT if kind == t.UNKNOWN else kind) for i, (_, kind) in enumerate(ways)
        )
        return exp.Values(expressions=made), columns

    def _lateral(self, node: exp.Expr, first: bool) -> Relation:
        inner = node.this
        if isinstance(inner, exp.Subquery):
            self.only(node, "this", "alias")
            whole_query = inner.copy()
            whole_query.set("alias", node.args.get("alias"))
            found = self._subquery(whole_query, lateral=True)
            made = exp.Lateral(this=found.node, view=False, outer=False)
            alias = found.node.args.get("alias")
            found.node.set("alias", None)
            made.set("alias", alias)
            return Relation(made, found.alias, found.columns, None, True)
        self._plain_rows(node, "this", "alias")
        if isinstance(inner, exp.Unnest):
            self._plain_rows(inner, "expressions")
            return self._function("unnest", inner.expressions, node, inner, first)
        if isinstance(inner, exp.Anonymous):
            return self._function(inner.name.lower(), inner.expressions, node, inner, first)
        raise self.refuse("LATERAL of this kind", "it has no proven translation", AFTER, node)

    def _alias(self, node: exp.Expr) -> tuple[str | None, list[str]]:
        alias = node.args.get("alias")
        if alias is None:
            return None, []
        names = alias.args.get("columns") or []
        if any(not isinstance(n, exp.Identifier) for n in names):
            raise self.refuse("a typed column list", "it has no proven translation", AFTER, node)
        return folded(alias.this) if alias.this is not None else None, [folded(n) for n in names]

    # Functions that return rows --------------------------------------------------------------------------------------

    def _function(self, word: str, args: list[exp.Expr], holder: exp.Expr, node: exp.Expr, first: bool) -> Relation:
        if word not in _FUNCTIONS:
            reason = "it is not in the list of functions whose translation is proven"
            raise self.refuse(f"{word} in FROM", reason, AFTER, node)
        rows = self._series(args, node) if word == "generate_series" else self._unnest(args, node)
        alias, names = self._alias(holder)
        label = alias or word
        # without a column list the column is named like the relation
        names = names or [label]
        if len(names) != 1 or rows.type.of is None:
            raise self.refuse(f"{word} with several columns", "it gives one", f"{word}(…) AS s(x)", node)
        exploded, shown = call("explode", rows.node), _alias_node(label, names)
        made = (
            exp.Table(this=exploded, alias=shown)
            if first
            else exp.Lateral(this=exploded, view=False, outer=False, alias=shown)
        )
        return Relation(made, label, (Output(names[0], rows.type.of),), rows.node, True)

    def _unnest(self, args: list[exp.Expr], node: exp.Expr) -> Typed:
        found = self.typed(args[0], "unnest") if len(args) == 1 else None
        if found is None or found.type.name != "array":
            reason = "only one array has a proven translation"
            raise self.refuse("unnest of this form", reason, "unnest one array at a time", node)
        return found

    def _series(self, args: list[exp.Expr], node: exp.Expr) -> Typed:
        """A series that cannot begin is empty, where Spark counts down or fails."""
        if not 2 <= len(args) <= 3:
            raise self.refuse("generate_series of this form", "it takes 2 or 3 arguments", CAST, node)
        (low, high), kind = self.alike(args[:2], "generate_series")
        if kind.is_int:
            step = whole(args[2]) if len(args) == 3 else 1
            if step is None or step == 0:
                reason = "the direction must be known"
                raise self.refuse("generate_series with a computed step", reason, "use a constant", node)
            return Typed(_sequence(low, high, number(abs(step)), step < 0), t.array(kind))
        if kind == t.TIMESTAMP and len(args) == 3:
            step_by = self.expr(args[2])
            if step_by.type == t.UNKNOWN and is_literal(args[2], text=True):
                step_by = self.interval(str(args[2].this), node)
            parts = step_by.interval
            if parts is not None and self._steady(parts, args[0]):
                return Typed(_sequence(low, high, exp.Var(this=parts.spark()[0]), False), t.array(kind))
            reason = "PostgreSQL adds the step again and again, so a month end drifts; Spark counts from the start"
            rewrite = "use a positive step of days or hours, or months from the first of a month (date_trunc)"
            raise self.refuse("generate_series with this step", reason, rewrite, node)
        reason = "only integers, and timestamps with an interval, have a proven translation"
        raise self.refuse(f"generate_series of {kind}", reason, "cast both ends to timestamp", node)

    def _steady(self, step: Interval, start: exp.Expr) -> bool:
        """Positive, of one kind, and months only from a day that every month has."""
        if step.months:
            return step.months > 0 and not step.days and not step.micros and _first_of_month(start)
        return step.days >= 0 and step.micros >= 0 and (step.days > 0 or step.micros > 0)


def _is_comma(join: exp.Expr) -> bool:
    return not any(join.args.get(key) for key in ("side", "kind", "method", "on", "using"))


def _sees_the_left(join: exp.Expr) -> bool:
    side, method = (str(join.args.get(key) or "").upper() for key in ("side", "method"))
    return side in ("RIGHT", "FULL") or method == "NATURAL" or bool(join.args.get("using"))


def _first_of_month(start: exp.Expr) -> bool:
    while isinstance(start, exp.Cast | exp.Paren):
        start = start.this
    if is_literal(start, text=True):
        day = str(start.this)[8:10]
        return str(start.this)[4:5] == "-" and day.isdigit() and int(day) <= 28
    if isinstance(start, exp.Anonymous) and start.name.lower() == "date_trunc":
        return str(start.expressions[0].this).lower() in ("month", "quarter", "year")
    return False


def _sequence(low: exp.Expr, high: exp.Expr, step: exp.Expr, down: bool) -> exp.Expr:
    taken = exp.Neg(this=step.copy()) if down else step
    found = call("sequence", low, high, taken)
    begins = binary(exp.GTE if down else exp.LTE, low, high)
    bounds = [whole(low), whole(high)]
    if None not in bounds:
        return found if (bounds[0] or 0) <= (bounds[1] or 0) and not down else case((begins, found))
    return case((begins, found))


def _alias_node(alias: str | None, names: list[str]) -> exp.Expr | None:
    if alias is None and not names:
        return None
    return exp.TableAlias(this=name(alias) if alias else None, columns=[name(n) for n in names] or None)
