"""Plumbing to Catalyst through py4j, shared by bind and emit: classes resolved once, few round trips."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from py4j.java_gateway import JavaObject, is_instance_of
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

CATALYST = "org.apache.spark.sql.catalyst."

JavaError = (Py4JError, PySparkException)
"""What a call of Spark fails with."""

_NODES = [
    "Project",
    "Filter",
    "Join",
    "Aggregate",
    "Union",
    "Intersect",
    "Except",
    "Expand",
    "Generate",
    "Window",
    "Sort",
    "GlobalLimit",
    "LocalLimit",
    "Offset",
    "OneRowRelation",
    "UnresolvedWith",
    "SubqueryAlias",
    "Repartition",
    "RepartitionByExpression",
]


class Bridge:
    """Every attribute step on a py4j package is a round trip, so classes are looked up once per session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        jvm: Any = spark._jvm
        self.jvm = jvm
        self.gateway: Any = spark.sparkContext._gateway
        self._modules: dict[str, Any] = {}
        self._attributes: dict[str, Any] = {}
        self._metadata: dict[str, Any] = {}
        self._parsed: dict[str, Any] = {}
        logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        self.node = {name: getattr(logical, name) for name in _NODES}
        self.expressions = jvm.org.apache.spark.sql.catalyst.expressions
        analysis = jvm.org.apache.spark.sql.catalyst.analysis
        self.relation = analysis.UnresolvedRelation
        self.column_aliases = analysis.UnresolvedSubqueryColumnAliases
        self.alias_class, self.attribute_class = self.expressions.Alias, self.expressions.AttributeReference
        self.new_id = self.expressions.NamedExpression.newExprId
        self.pair, self.triple, self.some = jvm.scala.Tuple2, jvm.scala.Tuple3, jvm.scala.Some
        self.to_seq = jvm.PythonUtils.toSeq
        self.nil = self.to_seq([])
        self.none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
        self.metadata_class = jvm.org.apache.spark.sql.types.Metadata
        self.no_hint = getattr(getattr(logical, "JoinHint$"), "MODULE$").NONE()
        self.options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap.empty()
        self.join_types = jvm.org.apache.spark.sql.catalyst.plans
        pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
        self.plan_expression = pattern.PLAN_EXPRESSION()
        self.current_like = pattern.CURRENT_LIKE()
        self.python_udf = pattern.PYTHON_UDF()
        self.random_seed = pattern.EXPRESSION_WITH_RANDOM_SEED()
        self.dataset = jvm.org.apache.spark.sql.classic.Dataset
        self.sessions = jvm.org.apache.spark.sql.classic.SparkSession
        self.parser = spark._jsparkSession.sessionState().sqlParser()
        self._stable_id = self.new_id()

    def function_identifier(self, text: str) -> Any:
        """From `name`, `schema.name` or `catalog.schema.name`."""
        name, *rest = reversed(text.split("."))
        schema, catalog = [*map(self.some, rest), self.none, self.none][:2]
        return self.jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, schema, catalog)

    def module(self, name: str) -> Any:
        """A Scala object by its full name."""
        if name not in self._modules:
            at = self.jvm
            for part in (name + "$").split("."):
                at = getattr(at, part)
            self._modules[name] = getattr(at, "MODULE$")
        return self._modules[name]

    def items(self, seq: Any) -> list[Any]:
        """A Scala Seq as a list; iterating one costs an exception round trip, indexing does not."""
        return [seq.apply(i) for i in range(seq.size())]

    def seq(self, values: Iterable[Any]) -> Any:
        values = list(values)
        return self.to_seq(values) if values else self.nil

    def array(self, values: Sequence[Any]) -> Any:
        made = self.gateway.new_array(self.jvm.java.lang.Object, len(values))
        for i, value in enumerate(values):
            made[i] = value
        return made

    def is_a(self, value: Any, name: str) -> bool:
        """Whether a value is an instance of the class; numbers, text and null are Python's."""
        return isinstance(value, JavaObject) and bool(is_instance_of(self.gateway, value, name))

    def attribute(self, name: str) -> Any:
        if name not in self._attributes:
            unresolved = self.module(CATALYST + "analysis.UnresolvedAttribute")
            self._attributes[name] = unresolved.quoted(name)
        return self._attributes[name]

    def metadata(self, json: str | None) -> Any:
        if json not in self._metadata:
            self._metadata[json or ""] = self.none if json is None else self.some(self.metadata_class.fromJson(json))
        return self._metadata[json or ""]

    def alias(self, expression: Any, name: str, metadata: str | None = "{}") -> Any:
        return self.alias_class(expression, name, self.new_id(), self.nil, self.metadata(metadata), self.nil)

    def stable_alias(self, expression: Any, name: str) -> Any:
        """An alias used only as the right side of a substitution map."""
        return self.alias_class(expression, name, self._stable_id, self.nil, self.none, self.nil)

    def substitute(self, expression: Any, pairs: list[Any]) -> Any:
        """Replace resolved attributes by the aliased expressions of `pairs`; works once, on resolved expressions."""
        mapping = self.module(CATALYST + "expressions.AttributeMap").apply(self.seq(pairs))
        return self.module(CATALYST + "optimizer.CollapseProject").replaceAlias(expression, mapping)

    def parse(self, sql: str) -> Any:
        """Under the settings of this session, which must be active; they are the same whenever a text is parsed."""
        if sql not in self._parsed:
            self._parsed[sql] = self.parser.parseExpression(sql)
        return self._parsed[sql]

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Catalyst asks the session that is active in the thread how casts fail and what time it is where: any of the
        user's, or none at all, unless it is this one."""
        sessions = self.sessions
        before = sessions.getActiveSession()
        sessions.setActiveSession(self.spark._jsparkSession)
        try:
            yield
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()

    def null(self, attribute: Any, kind: str) -> Any:
        """A NULL of the attribute's type, or of a type in Spark's JSON where there is no attribute."""
        if attribute is not None:
            return self.expressions.Literal(None, attribute.dataType())
        json = kind if kind.startswith("{") else f'"{kind}"'
        return self.expressions.Literal(None, self.jvm.org.apache.spark.sql.types.DataType.fromJson(json))

    def sort_order(self, expression: Any, direction: str) -> Any:
        """`direction` as SQL: ASC or DESC, NULLS FIRST or LAST."""
        way, _, place = direction.split(" ")
        names = ("Ascending" if way == "ASC" else "Descending", f"Nulls{place.capitalize()}")
        parts = (self.module(f"{CATALYST}expressions.{name}") for name in names)
        return self.expressions.SortOrder(expression, *parts, self.nil)

    def new_attribute(self, name: str, json_type: str) -> Any:
        kind = self.jvm.org.apache.spark.sql.types.DataType.fromJson(f'"{json_type}"')
        return self.attribute_class(name, kind, True, self.metadata_class.empty(), self.new_id(), self.nil)

    def join_type(self, kind: str) -> Any:
        return getattr(getattr(self.join_types, kind + "$"), "MODULE$")
