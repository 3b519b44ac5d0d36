"""Expressions: one method per kind of node; a kind without a method is refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from freshlake.dialect import types as t
from freshlake.dialect.calling import Call
from freshlake.dialect.casts import convert, type_named
from freshlake.dialect.functions import FUNCTIONS
from freshlake.dialect.intervals import parse_interval
from freshlake.dialect.operators import arithmetic, concatenation, overlap, pattern_match
from freshlake.dialect.scope import Columns, Scope
from freshlake.dialect.temporal import extract
from freshlake.dialect.tree import atom, binary, call, column, exp, string
from freshlake.dialect.typed import AFTER, CAST, Refusing, Typed, is_literal, title, whole
from freshlake.dialect.types import Type

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


class Expressions(Refusing):
    """`expr` keeps all three truth values; `condition` may give FALSE for NULL, where only TRUE counts."""

    text: str
    scope: Scope

    def query(self, node: exp.Expr, outer: Scope | None, named: bool = False) -> tuple[exp.Expr, Columns]:
        raise NotImplementedError

    def expr(self, node: exp.Expr) -> Typed:
        method: Callable[[exp.Expr], Typed] | None = getattr(self, f"on_{type(node).__name__.lower()}", None)
        if method is None:
            raise self.refuse(title(node), "this construct has no proven translation", AFTER, node)
        return method(node)

    def typed(self, node: exp.Expr, what: str) -> Typed:
        """An expression whose type decides the translation."""
        found = self.expr(node)
        if found.type == t.OTHER:
            raise self.refuse(what, "it depends on a type that is not known here", CAST, node)
        return found

    # Literals and names ----------------------------------------------------------------------------------------------

    def on_literal(self, node: exp.Expr) -> Typed:
        if node.is_string:
            return Typed(string(str(node.this)), t.UNKNOWN)
        return number_literal(str(node.this))

    def on_rawstring(self, node: exp.Expr) -> Typed:
        return Typed(string(str(node.this)), t.UNKNOWN)

    def on_bytestring(self, node: exp.Expr) -> Typed:
        """E'…', its escapes read by the parser; those that it leaves are not known."""
        if "\\" in str(node.this):
            raise self.refuse("an escape in E'…'", "it has no proven translation", "use a plain string", node)
        return Typed(string(str(node.this)), t.UNKNOWN)

    def on_boolean(self, node: exp.Expr) -> Typed:
        return Typed(exp.Boolean(this=bool(node.this)), t.BOOL)

    def on_null(self, _: exp.Expr) -> Typed:
        return Typed(exp.Null(), t.NULL)

    def on_column(self, node: exp.Expr) -> Typed:
        self.only(node, "this", "table")
        if isinstance(node.this, exp.Star):
            raise self.refuse("a row as a value (t.*)", "Spark has no such value", "name the columns", node)
        table = folded(node.args["table"]) if node.args.get("table") else None
        label = folded(node.this)
        return Typed(column(label, table), self.scope.type_of(table, label.lower()))

    def on_paren(self, node: exp.Expr) -> Typed:
        inner = self.expr(node.this)
        return Typed(atom(inner.node), inner.type, inner.interval)

    def on_interval(self, node: exp.Expr) -> Typed:
        unit = node.args.get("unit")
        if not is_literal(node.this, text=True) or (unit is not None and not isinstance(unit, exp.Var)):
            raise self.refuse("an interval of this form", "only a string of units is translated", _INTERVAL, node)
        return self.interval(f"{node.this.this} {unit.this if unit is not None else ''}".strip(), node)

    def interval(self, text: str, node: exp.Expr) -> Typed:
        parts = parse_interval(text)
        if parts is None:
            raise self.refuse(f"the interval '{text}'", "not every part of it is known", _INTERVAL, node)
        return Typed(exp.Var(this=parts.spark()[0]), t.INTERVAL, parts)

    def on_array(self, node: exp.Expr) -> Typed:
        self.only(node, "expressions", "value_constructor")
        items, kind = self.alike(node.expressions, "ARRAY[…]")
        return Typed(call("array", *items), t.array(t.TEXT if kind == t.UNKNOWN else kind))

    def on_bracket(self, node: exp.Expr) -> Typed:
        index = whole(node.expressions[0]) if len(node.expressions) == 1 else None
        found = self.typed(node.this, "an array subscript")
        if index is None or index < 0 or found.type.of is None:
            reason = "outside of an array PostgreSQL gives NULL, and Spark counts from the end or fails"
            raise self.refuse("a computed array subscript", reason, "use a constant subscript from 1 on", node)
        return Typed(call("try_element_at", found.node, exp.Literal.number(index + 1)), found.type.of)

    # Operators -------------------------------------------------------------------------------------------------------

    def on_neg(self, node: exp.Expr) -> Typed:
        found = self.typed(node.this, "a sign")
        if not found.type.is_number:
            raise self.refuse(f"- before {found.type}", "only numbers have a translation", AFTER, node)
        return Typed(exp.Neg(this=atom(found.node)), found.type)

    def _arithmetic(self, node: exp.Expr) -> Typed:
        return arithmetic(self, node)

    on_add = on_sub = on_mul = on_div = on_mod = on_pow = _arithmetic

    def on_dpipe(self, node: exp.Expr) -> Typed:
        return concatenation(self, node)

    def _bits(self, node: exp.Expr) -> Typed:
        left, right = self.typed(node.this, "a bit operator"), self.typed(node.expression, "a bit operator")
        if not (left.type.is_int and right.type.is_int):
            raise self.refuse("a bit operator", "only integers have a translation", AFTER, node)
        return Typed(binary(type(node), left.node, right.node), t.common([left.type, right.type]) or t.INT8)

    on_bitwiseand = on_bitwiseor = on_bitwisexor = _bits

    def on_not(self, node: exp.Expr) -> Typed:
        return Typed(exp.Not(this=atom(self.expr(node.this).node)), t.BOOL)

    def _logic(self, node: exp.Expr) -> Typed:
        return Typed(self._joined(node, lambda e: self.expr(e).node), t.BOOL)

    on_and = on_or = _logic

    def _joined(self, node: exp.Expr, part: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
        left, right = part(node.this), part(node.expression)
        same = type(node)
        return same(this=left if isinstance(left, same) else atom(left), expression=atom(right))

    def _comparison(self, node: exp.Expr) -> Typed:
        quantified = node.expression
        if isinstance(quantified, exp.Any | exp.All) or _array_quantifier(quantified):
            return self.quantified(node, truth=False)
        if isinstance(node.this, exp.Tuple) or isinstance(quantified, exp.Tuple):
            reason = "Spark compares rows with NULLs in another way"
            raise self.refuse("a comparison of rows", reason, "compare column by column with AND", node)
        (left, right), _ = self.alike([node.this, quantified], "a comparison")
        return Typed(binary(type(node), left, right), t.BOOL)

    on_eq = on_neq = on_lt = on_lte = on_gt = on_gte = on_nullsafeeq = on_nullsafeneq = _comparison

    def on_is(self, node: exp.Expr) -> Typed:
        self.only(node, "this", "expression", "negate")
        if not isinstance(node.expression, exp.Null | exp.Boolean):
            raise self.refuse("IS of this kind", "it has no proven translation", AFTER, node)
        inner = atom(self.expr(node.this).node)
        return Typed(exp.Is(this=inner, expression=node.expression.copy(), negate=node.args.get("negate")), t.BOOL)

    def on_between(self, node: exp.Expr) -> Typed:
        self.only(node, "this", "low", "high")
        (value, low, high), _ = self.alike([node.this, node.args["low"], node.args["high"]], "BETWEEN")
        return Typed(exp.Between(this=atom(value), low=atom(low), high=atom(high)), t.BOOL)

    def on_in(self, node: exp.Expr) -> Typed:
        if node.args.get("query") is not None:
            return self.in_query(node, truth=False)
        self.only(node, "this", "expressions")
        if any(isinstance(e, exp.Tuple) for e in (node.this, *node.expressions)):
            reason = "Spark compares rows with NULLs in another way"
            raise self.refuse("IN over rows", reason, "compare column by column", node)
        (value, *items), _ = self.alike([node.this, *node.expressions], "IN")
        return Typed(exp.In(this=atom(value), expressions=items), t.BOOL)

    def _pattern(self, node: exp.Expr) -> Typed:
        return pattern_match(self, node)

    on_like = on_ilike = on_escape = on_regexplike = on_regexpilike = on_similarto = on_startswith = _pattern

    def _overlap(self, node: exp.Expr) -> Typed:
        return overlap(self, node)

    on_arraycontainsall = on_arraycontainedby = on_arrayoverlaps = _overlap

    def on_cast(self, node: exp.Expr) -> Typed:
        self.only(node, "this", "to", "_type")
        if isinstance(node.this, exp.Array) and not node.this.expressions:
            wanted = type_named(self, node.args["to"], node)
            return Typed(exp.Cast(this=call("array"), to=exp.DataType.build(str(wanted.in_spark), "spark")), wanted)
        return convert(self, self.expr(node.this), node.args["to"], node)

    def on_case(self, node: exp.Expr) -> Typed:
        self.only(node, "this", "ifs", "default")
        branches, default = node.args["ifs"], node.args.get("default")
        if node.this is not None:
            (subject, *values), _ = self.alike([node.this, *(b.this for b in branches)], "CASE")
        else:
            subject, values = None, [self.condition(b.this) for b in branches]
        results = [b.args["true"] for b in branches] + ([default] if default is not None else [])
        answers, kind = self.alike(results, "CASE")
        ifs = [exp.If(this=v, true=r) for v, r in zip(values, answers, strict=False)]
        last = answers[-1] if default is not None else None
        return Typed(exp.Case(this=subject, ifs=ifs, default=last), kind)

    def alike(self, nodes: list[exp.Expr], what: str) -> tuple[list[exp.Expr], Type]:
        """Values that must have one type; string literals take the type of the others, as in PostgreSQL."""
        found = [self.expr(n) for n in nodes]
        kinds = [f.type for f in found]
        kind = t.OTHER if t.OTHER in kinds else t.common(kinds)
        if kind is None:
            shown = " and ".join(dict.fromkeys(str(k) for k in kinds if not k.is_open))
            reason = f"it mixes {shown}, which PostgreSQL does not compare"
            raise self.refuse(f"{what} of {shown}", reason, CAST, nodes[0])
        if any(f.interval is not None and len(f.interval.spark()) > 1 for f in found):
            reason = "Spark has no interval with months and days"
            raise self.refuse(f"{what} of an interval", reason, "use days and smaller units only", nodes[0])
        wanted = [
            self.as_type(f, kind, n) if f.type == t.UNKNOWN else f.node for f, n in zip(found, nodes, strict=True)
        ]
        return wanted, kind

    def as_type(self, literal: Typed, kind: Type, node: exp.Expr) -> exp.Expr:
        """A string literal as the type it meets."""
        if kind.is_text or kind.is_open:
            return literal.node
        if kind == t.OTHER:
            raise self.refuse("a string beside an unknown type", "its type is not known here", CAST, node)
        if kind == t.INTERVAL:
            return self.interval(str(literal.node.this), node).node
        return convert(self, literal, kind, node).node

    # Subqueries: see subqueries.py -----------------------------------------------------------------------------------

    def quantified(self, node: exp.Expr, truth: bool) -> Typed:
        raise NotImplementedError

    def in_query(self, node: exp.Expr, truth: bool) -> Typed:
        raise NotImplementedError

    def condition(self, node: exp.Expr) -> exp.Expr:
        """Where FALSE and NULL are the same: WHERE, HAVING, ON, FILTER, WHEN; AND and OR keep that."""
        if isinstance(node, exp.And | exp.Or):
            return self._joined(node, self.condition)
        if isinstance(node, exp.Paren):
            return atom(self.condition(node.this))
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return self.in_query(node, truth=True).node
        if isinstance(node, exp.Not) and isinstance(node.this, exp.In) and node.this.args.get("query") is not None:
            return exp.Not(this=self.in_query(node.this, truth=True).node)
        if isinstance(node, _COMPARISONS) and (
            isinstance(node.expression, exp.Any | exp.All) or _array_quantifier(node.expression)
        ):
            return self.quantified(node, truth=True).node
        return self.expr(node).node

    # Functions -------------------------------------------------------------------------------------------------------

    def on_anonymous(self, node: exp.Expr) -> Typed:
        return self.function(node.name.lower(), node)

    def function(self, word: str, node: exp.Expr) -> Typed:
        handler = FUNCTIONS.get(word)
        if handler is None:
            reason = "it is not in the list of functions whose translation is proven"
            raise self.refuse(f"the function {word}", reason, AFTER, node)
        return handler(self, Call.of(word, node))

    def _as_function(self, node: exp.Expr) -> Typed:
        words = {"currentdate": "current_date", "currenttimestamp": "current_timestamp"}
        return self.function(words.get(str(node.key), str(node.key)), node)

    on_currentdate = on_currenttimestamp = on_localtimestamp = on_substring = on_trim = on_strposition = _as_function

    def on_extract(self, node: exp.Expr) -> Typed:
        field = node.this.name if isinstance(node.this, exp.Var | exp.Literal) else ""
        return extract(self, field.lower(), node.expression, node)


def number_literal(text: str) -> Typed:
    """Without point and exponent an integer, otherwise a decimal: Spark reads an exponent as a double."""
    if text.isdigit():
        value = int(text)
        kind = t.INT4 if value < 2**31 else t.INT8 if value < 2**63 else t.numeric(len(text), 0)
        return Typed(exp.Literal.number(text), kind)
    exact = Decimal(text)
    shown = format(exact, "f")
    scale = max(-int(exact.as_tuple().exponent), 0)
    digits = max(len(shown.replace(".", "").lstrip("0")), scale, 1)
    node = exp.Literal.number(shown) if "." in shown else exp.Var(this=f"{shown}BD")
    return Typed(node, t.numeric(digits, scale))


def folded(identifier: exp.Expr) -> str:
    """PostgreSQL folds names to lower case unless they are in quotes."""
    text = str(identifier.this)
    return text if identifier.args.get("quoted") else text.lower()


def _array_quantifier(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in ("all", "some", "any")


_INTERVAL = "write whole units, such as interval '1 month' or interval '2 days 03:00:00'"
