"""Read Catalyst expressions: attributes get unique names, expressions become opaque handles over those names."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from freshlake.compiler import current_time
from freshlake.compiler import plan as p
from freshlake.compiler.bind_digest import digest_of
from freshlake.compiler.bind_hidden import refuse_hidden
from freshlake.compiler.bind_spoken import at_moments
from freshlake.compiler.bind_udf import OWN_FUNCTIONS, TABLE_FUNCTION, Digests
from freshlake.compiler.bridge import CATALYST, Bridge
from freshlake.compiler.fingerprint import DRAWN
from freshlake.compiler.origin import place_of
from freshlake.compiler.refusals import FILE_COLUMN, RANDOM, SESSION_VALUE, SUBQUERY_PLACE, Position

_OWN = re.compile(r"^(__fl_)+", re.IGNORECASE)
"""With this begin the names that rules make."""

_COLLATED = "__COLLATIONS"
"""Where the JSON of a column says that its type, or one inside it, has a collation."""

_MOMENTS = {
    "CurrentTimestamp": current_time.CURRENT_TIMESTAMP,
    "Now": current_time.CURRENT_TIMESTAMP,
    "CurrentDate": current_time.CURRENT_DATE,
    "LocalTimestamp": current_time.LOCALTIMESTAMP,
}


class ExpressionBinder(ABC):
    def __init__(self, bridge: Bridge) -> None:
        self.b = bridge
        self.names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.numbered = 0
        self.attributes: dict[int, Any] = {}
        self.pairs: list[Any] = []
        self.read: dict[int, p.Expr] = {}
        self.attached: list[tuple[p.Column, p.Plan, bool]] = []
        self.lowered: dict[int, Any] = {}
        """Subqueries of the operator being read, by their number: one that stands in several places is one column."""
        self.moments: dict[str, p.Column] = {}
        """Fields of the current time that the operator being read asks for."""
        self.places: dict[str, Position] = {}
        """Where constructs without a rule, and columns of the current time, stand in the query's text."""
        self.file_columns: set[int] = set()
        """Columns that say where a row is stored."""
        self.functions = Digests()
        """Python functions of the query."""
        self.random: dict[str, Position | None] = {}
        """Functions of the user that are not deterministic, and where the first call of each stands."""

    @abstractmethod
    def walk(self, node: Any) -> p.Plan:
        """Read a plan below an expression."""

    @abstractmethod
    def normalise(self, plan: Any) -> Any:
        """Rewrite a plan to the operators that `walk` knows."""

    # Columns ---------------------------------------------------------------------------------------------------------

    def name_of(self, attribute: Any, expr_id: int | None = None, scan: int | None = None) -> str:
        """A name that is unique in the plan and the same in every process: numbered by first appearance.

        Columns of a table are numbered by their scan, so that a column which the query does not read may come and go.
        """
        key = attribute.exprId().id() if expr_id is None else expr_id
        if key not in self.names:
            plain = re.sub(DRAWN, "", attribute.name())
            stem = re.sub(r"[^A-Za-z0-9_]", "_", _OWN.sub("", plain))[:32]
            if scan is None:
                self.numbered += 1
            name = self.unique(f"{stem}_{self.numbered}" if scan is None else f"{stem}_s{scan}")
            self.names[key], self.attributes[key] = name, attribute
            self.pairs.append(self.b.pair(attribute, self.b.stable_alias(self.b.attribute(name), name)))
        return self.names[key]

    def unique(self, name: str) -> str:
        """Names that differ in case only are the same to the session that runs programs."""
        while name.lower() in self.taken:
            name += "_"
        self.taken.add(name.lower())
        return name

    def ids(self, seq: Any) -> list[int]:
        return [int(x) for x in re.findall(r"#(\d+)L?(?=\x01)", seq.mkString("", "\x01", "\x01"))]

    def columns(self, node: Any, scan: int | None = None) -> tuple[p.Column, ...]:
        output = node.output()
        ids = self.ids(output)
        fields = json.loads(node.schema().json())["fields"]
        if len(ids) != len(fields):
            ids = [a.exprId().id() for a in self.b.items(output)]
        result = []
        for position, (key, f) in enumerate(zip(ids, fields, strict=True)):
            if key not in self.names:
                self.name_of(output.apply(position), key, scan)
            kind = f["type"] if isinstance(f["type"], str) else json.dumps(f["type"])
            metadata = json.dumps(f.get("metadata") or {})
            if _COLLATED in metadata or _COLLATED in kind:
                kind = self.attributes[key].dataType().catalogString()
            result.append(p.Column(self.names[key], kind, f["nullable"], f["name"], metadata, self.attributes[key]))
        return tuple(result)

    # Expressions -----------------------------------------------------------------------------------------------------

    def expr(self, e: Any) -> p.Expr:
        kind = e.getClass().getSimpleName()
        if kind == "AttributeReference":
            return self.column(e)
        e = self.prepare(e, kind)
        if e.containsPattern(self.b.plan_expression):
            e = self.lower(e)
        written, before = e.toJSON(), e
        e = at_moments(e, written, self.b)
        if e.containsPattern(self.b.current_like):
            e = self.at_moment(e)
        kind = e.getClass().getSimpleName()
        if kind == "AttributeReference":  # a subquery or the time, alone
            return self.column(e)
        self.refuse_files(e)
        self.check(e, kind)
        written = written if e is before else e.toJSON()
        refuse_hidden(e, written)
        if kind == TABLE_FUNCTION or e.containsPattern(self.b.python_udf):
            self.functions.note(e, self.b)
        columns = tuple(self.names[i] for i in self.ids(e.references().toSeq()))
        handle = self.b.substitute(e, self.pairs_of(columns)) if columns else e
        equality = self.compared(e) if kind == "EqualTo" else None
        same = self.compared(e) if kind == "EqualNullSafe" else None
        digest = digest_of(e, written, self.names, self.b)
        maybe = self.not_false(e) if kind == "Or" else None
        return p.Expr(self.readable(e), columns, handle, False, equality, same, digest=digest, not_false=maybe)

    def refuse_files(self, e: Any) -> None:
        if self.file_columns and not self.file_columns.isdisjoint(self.ids(e.references().toSeq())):
            raise FILE_COLUMN.raised(place_of(e))

    def column(self, attribute: Any) -> p.Expr:
        """Read once: grouping sets repeat every column of their input in every set."""
        key = attribute.exprId().id()
        self.refuse_files(attribute)
        if key not in self.read:
            name = self.names[key]
            handle = self.b.substitute(attribute, self.pairs_of((name,)))
            self.read[key] = p.Expr(self.readable(attribute), (name,), handle, True)
        return self.read[key]

    def pairs_of(self, columns: tuple[str, ...]) -> list[Any]:
        wanted = set(columns)
        return [pair for pair, name in zip(self.pairs, self.names.values(), strict=True) if name in wanted]

    def readable(self, e: Any) -> str:
        text = re.sub(r"(?<=\))#\d+L?", "", e.toString())
        names = self.names
        return re.sub(r"[\w$.]*#(\d+)L?", lambda m: names.get(int(m[1]), m[0]), text)

    def compared(self, e: Any) -> tuple[str, str] | None:
        """The two sides, when they are plain columns."""
        left, right = e.left(), e.right()
        if all(s.getClass().getSimpleName() == "AttributeReference" for s in (left, right)):
            return self.name_of(left), self.name_of(right)
        return None

    def not_false(self, e: Any) -> p.Expr | None:
        """The comparison x of `x OR x IS NULL`, when it is one of plain columns."""
        left, right = e.left(), e.right()
        kinds = [s.getClass().getSimpleName() for s in (left, right)]
        if kinds != ["EqualTo", "IsNull"] or not left.semanticEquals(right.child()) or self.compared(left) is None:
            return None
        return self.expr(left)

    def check(self, e: Any, kind: str) -> None:
        def of_session(x: Any) -> bool:
            return bool(x.containsPattern(self.b.current_like))

        def random(x: Any) -> bool:
            return bool(x.containsPattern(self.b.random_seed) or not x.deterministic())

        if of_session(e):
            found, *_ = self.culprits(e, of_session)
            message = f"{found.prettyName()}() cannot be part of a stream table: {self.readable(e)}"
            raise SESSION_VALUE.raised(place_of(found) or place_of(e), message=message)
        for found in self.culprits(e, random) if random(e) or kind == TABLE_FUNCTION else ():
            if found.getClass().getSimpleName() not in OWN_FUNCTIONS:
                message = f"{found.prettyName()}() gives another result each time: {self.readable(e)}"
                raise RANDOM.raised(place_of(found) or place_of(e), message=message)
            self.random.setdefault(str(found.name()), place_of(found) or place_of(e))

    def culprits(self, e: Any, is_bad: Callable[[Any], bool]) -> list[Any]:
        """The innermost functions that make an expression bad."""
        below = [found for k in self.b.items(e.children()) if is_bad(k) for found in self.culprits(k, is_bad)]
        return below or [e]

    def at_moment(self, e: Any) -> Any:
        """Functions of the current time become columns of the source that says what time it is."""
        kind, children = e.getClass().getSimpleName(), self.b.items(e.children())
        if kind in _MOMENTS:
            return self.moment(e, _MOMENTS[kind])
        if kind == "CurrentTimeZone":
            zone = str(self.b.spark.conf.get("spark.sql.session.timeZone"))
            return self.b.module(CATALYST + "expressions.Literal").apply(zone)
        current = self.b.current_like
        lowered = [self.at_moment(k) if k.containsPattern(current) else k for k in children]
        return e.withNewChildren(self.b.seq(lowered)) if children else e

    def moment(self, e: Any, function: str) -> Any:
        zone = None if function == current_time.CURRENT_TIMESTAMP else str(e.timeZoneId().get())
        field = current_time.field_of(function, zone)
        if field not in self.moments:
            b = self.b
            attribute = b.attribute_class(function, e.dataType(), False, b.metadata_class.empty(), b.new_id(), b.nil)
            kind, label = json_type(e.dataType()), f"{e.prettyName()}()"
            name = self.name_of(attribute)
            self.moments[field] = p.Column(name, kind, False, label, "{}", attribute)
            if found := place_of(e):
                self.places[name] = found
        return self.moments[field].attribute

    def prepare(self, e: Any, kind: str) -> Any:
        """Rank functions ask their children for a data type when built, so they cannot hold unresolved attributes."""
        if kind == "WindowExpression":
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
            raise SUBQUERY_PLACE.raised(place_of(e), kind)
        lowered = [
            self.lower(k) if k.containsPattern(self.b.plan_expression) else k for k in self.b.items(e.children())
        ]
        return e.withNewChildren(self.b.seq(lowered))

    def lower_subquery(self, e: Any, kind: str) -> Any:
        if e.outerAttrs().size():
            raise SUBQUERY_PLACE.raised(place_of(e), "it is correlated")
        number = int(e.exprId().id())
        if number not in self.lowered:
            outside, self.lowered = self.lowered, {}
            attribute = self.attached_column(e, kind)
            self.lowered = {**outside, number: attribute}
        return self.lowered[number]

    def attached_column(self, e: Any, kind: str) -> Any:
        plan, b = e.plan(), self.b
        if kind == "Exists":
            literal = b.module(CATALYST + "expressions.Literal")
            count = b.expressions.aggregate.Count(b.seq([literal.apply(1)])).toAggregateExpression()
            positive = b.expressions.GreaterThan(count, b.expressions.Cast(literal.apply(0), count.dataType(), b.none))
            plan = b.node["Aggregate"](b.nil, b.seq([b.alias(positive, "found")]), plan, b.none)
        rows = plan.maxRows()
        outside, self.moments = self.moments, {}
        sub = self.walk(self.normalise(plan))
        self.moments = outside
        attribute = b.attribute_class("subquery", e.dataType(), True, b.metadata_class.empty(), b.new_id(), b.nil)
        name = self.name_of(attribute)
        column = p.Column(name, json_type(e.dataType()), True, name, "{}", attribute)
        self.attached.append((column, sub, rows.isDefined() and rows.get() <= 1))
        return attribute

    def attach(self, child: p.Plan, mark: int) -> p.Plan:
        """Join the one-row relations that expressions bound since `mark` asked for, the current time among them."""
        for column, sub, single in self.attached[mark:]:
            right = p.Project((column,), sub, (p.Item(column.name, p.column_expr(sub.names[0])),))
            kind = "LeftOuter" if single else "LeftSingle"
            child = p.Join((*child.columns, column), (child, right), kind, ())
        del self.attached[mark:]
        self.lowered = {}
        if self.moments:
            columns = tuple(self.moments.values())
            time = p.Scan(columns, current_time.NOW, tuple(self.moments))
            child = p.InnerJoin((*child.columns, *columns), (child, time), ())
            self.moments = {}
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
                self.refuse_files(e)
                name = self.name_of(e, key)
                result.setdefault(name, p.Item(name))
                continue
            bound = self.expr(e.child() if kind == "Alias" else e)
            name = self.name_of(e.toAttribute(), key)
            result.setdefault(name, p.Item(name, bound))
        return tuple(result.values())


def json_type(data_type: Any) -> str:
    """A Catalyst type as Spark's JSON, plain names without quotes; as its simple text if it has a collation, which the
    JSON of a type leaves out."""
    kind = json.loads(data_type.json())
    text = kind if isinstance(kind, str) else json.dumps(kind)
    shown = data_type.catalogString() if "string" in text else ""
    return shown if " collate " in shown else text
