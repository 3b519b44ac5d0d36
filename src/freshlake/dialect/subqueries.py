"""Subqueries as values: IN, ANY, ALL, EXISTS and scalar ones, with all three truth values."""

from __future__ import annotations

from freshlake.dialect import types as t
from freshlake.dialect.calls import Calls
from freshlake.dialect.scope import Columns
from freshlake.dialect.tree import atom, binary, call, case, column, exp, function, name, number
from freshlake.dialect.typed import CAST, ELEMENT, QUERY, VALUE, Typed

_SIGNS = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


class Subqueries(Calls):
    def on_exists(self, node: exp.Expr) -> Typed:
        inner, _ = self.inner(node.this)
        return Typed(exp.Exists(this=inner), t.BOOL)

    def on_subquery(self, node: exp.Expr) -> Typed:
        inner, columns = self.inner(node)
        if len(columns) != 1:
            raise self.refuse("a subquery of several columns as a value", "Spark has none", "select one", node)
        return Typed(exp.Subquery(this=inner), columns[0].type)

    def inner(self, node: exp.Expr) -> tuple[exp.Expr, Columns]:
        while isinstance(node, exp.Paren | exp.Subquery) and not _modified(node):
            node = node.this
        return self.query(node, self.scope)

    def in_query(self, node: exp.Expr, truth: bool) -> Typed:
        """Spark's IN gives FALSE where SQL says NULL, which matters unless only TRUE counts."""
        self.only(node, "this", "query")
        inner, columns = self.inner(node.args["query"])
        if isinstance(node.this, exp.Tuple):
            if not truth:
                reason = "Spark gives FALSE where SQL says NULL"
                raise self.refuse("(a, b) IN (subquery) as a value", reason, "use EXISTS", node)
            values = [self.expr(e).node for e in node.this.expressions]
            return Typed(exp.In(this=exp.Tuple(expressions=values), query=exp.Subquery(this=inner)), t.BOOL)
        value = self._comparable(node.this, columns, node)
        if truth:
            return Typed(exp.In(this=atom(value.node), query=exp.Subquery(this=inner)), t.BOOL)
        return self._some(value.node, exp.EQ, inner)

    def quantified(self, node: exp.Expr, truth: bool) -> Typed:
        """x op ANY (…) and x op ALL (…), over a subquery or an array."""
        over = node.expression
        if isinstance(over, exp.Anonymous):
            word, operand = over.name.lower(), over.expressions[0]
            every = word == "all"
        else:
            every, operand = isinstance(over, exp.All), over.this
        sign = str(node.key)
        if sign not in _SIGNS:
            raise self.refuse("this operator with ANY or ALL", "only comparisons have a translation", CAST, node)
        plain = operand
        while isinstance(plain, exp.Paren | exp.Subquery) and not _modified(plain):
            plain = plain.this
        if not isinstance(plain, exp.Query):
            return self._over_array(node, operand, every)
        inner, columns = self.inner(plain)
        value = self._comparable(node.this, columns, node)
        if truth:
            return Typed(self._holds(value.node, node, inner, every), t.BOOL)
        build = self._all if every else self._some
        return build(value.node, type(node), inner)

    def _holds(self, value: exp.Expr, node: exp.Expr, inner: exp.Expr, every: bool) -> exp.Expr:
        """Where only TRUE counts one join decides: is there a row that agrees, or none that does not."""
        if every:
            return exp.Not(this=self._exists(value, type(node), inner, "NOT TRUE"))
        if isinstance(node, exp.EQ):
            return exp.In(this=atom(value), query=exp.Subquery(this=inner))
        return self._exists(value, type(node), inner, "TRUE")

    def _comparable(self, value: exp.Expr, columns: Columns, node: exp.Expr) -> Typed:
        found = self.typed(value, "a comparison with a subquery")
        if len(columns) != 1:
            reason = "a value is compared with one column"
            raise self.refuse("a comparison with several columns", reason, "select one column", node)
        kind = columns[0].type
        if found.type == t.UNKNOWN:
            return Typed(self.as_type(found, kind, node), kind)
        if t.common([found.type, kind]) is None or kind == t.OTHER:
            shown = f"{found.type} with {kind}"
            raise self.refuse(f"a comparison of {shown}", "PostgreSQL does not compare them", CAST, node)
        return found

    def _some(self, value: exp.Expr, kind: type[exp.Expr], inner: exp.Expr) -> Typed:
        """TRUE if one comparison is, else NULL if one is, else FALSE."""
        found, unsure = (self._exists(value, kind, inner, test) for test in ("TRUE", "NULL"))
        return Typed(case((found, exp.true()), (unsure, exp.Null()), default=exp.false()), t.BOOL)

    def _all(self, value: exp.Expr, kind: type[exp.Expr], inner: exp.Expr) -> Typed:
        """FALSE if one comparison is, else NULL if one is, else TRUE."""
        refuted, unsure = (self._exists(value, kind, inner, test) for test in ("FALSE", "NULL"))
        return Typed(case((refuted, exp.false()), (unsure, exp.Null()), default=exp.true()), t.BOOL)

    def _exists(self, value: exp.Expr, kind: type[exp.Expr], inner: exp.Expr, test: str) -> exp.Expr:
        """A row of the subquery for which the comparison has a truth value; its one column gets its own name."""
        alias = exp.TableAlias(this=name(QUERY), columns=[name(VALUE)])
        relation = exp.Subquery(this=inner.copy(), alias=alias)
        compared = binary(kind, value, column(VALUE, QUERY))
        tests = {
            "TRUE": compared,
            "FALSE": exp.Not(this=atom(compared)),
            "NULL": exp.Is(this=atom(compared), expression=exp.Null()),
            "NOT TRUE": exp.Not(this=exp.Is(this=atom(compared), expression=exp.true())),
        }
        chosen = exp.Select(expressions=[number(1)])
        chosen.set("from_", exp.From(this=relation))
        chosen.set("where", exp.Where(this=tests[test]))
        return exp.Exists(this=chosen)

    def _over_array(self, node: exp.Expr, operand: exp.Expr, every: bool) -> Typed:
        """Spark's exists and forall have the same three values; an empty array decides even for NULL."""
        value, array = self.typed(node.this, "ANY"), self.typed(operand, "ANY")
        if array.type.name != "array" or array.type.of is None:
            reason = "only arrays and subqueries have a translation"
            raise self.refuse(f"ANY or ALL over {array.type}", reason, "write ARRAY[…] or cast to an array", node)
        element = array.type.of
        if t.common([value.type, element]) is None:
            raise self.refuse(f"a comparison of {value.type} with {element}", "they do not compare", CAST, node)
        single = self.as_type(value, element, node) if value.type == t.UNKNOWN else value.node
        compared = binary(type(node), single, name(ELEMENT))
        return Typed(call("forall" if every else "exists", array.node, function(ELEMENT, compared)), t.BOOL)


def _modified(node: exp.Expr) -> bool:
    """A subquery in parentheses with its own ORDER BY or LIMIT outside of them."""
    return any(node.args.get(key) for key in ("order", "limit", "offset", "with_", "joins", "alias"))
