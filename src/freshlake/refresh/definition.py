"""A definition: SQL text, an importable PySpark function, or (for one session) a DataFrame; and how to rebuild it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from freshlake.catalog.enums import DefinitionKind
from freshlake.catalog.records import StreamTable
from freshlake.compiler.python_code import digest
from freshlake.dialect import Dialect
from freshlake.errors import DefinitionNotImportable, FreshlakeError, InvalidArgument, InvalidQuery
from freshlake.refresh.spark_errors import translated

Builder = Callable[[SparkSession], DataFrame]

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."


@dataclass(frozen=True)
class Definition:
    kind: DefinitionKind
    text: str
    """Spark SQL, or the source code of the function for people."""
    reference: str | None = None
    builder: Builder | None = None
    written: str | None = None
    """The text as the user wrote it, when that was another dialect."""
    dialect: Dialect = Dialect.SPARK

    def frame(self, spark: SparkSession) -> DataFrame:
        """The query as an analyzed DataFrame in `spark`; analysis errors keep Spark's message and position."""
        with translated():
            if self.kind in (DefinitionKind.SQL, DefinitionKind.CAPTURE):
                _check_query(spark, self.text)
                return spark.sql(self.text)
            builder = self.builder or load_function(self.reference or "")
            frame = builder(spark)
        if not isinstance(frame, DataFrame):
            raise InvalidArgument(
                f"{self.reference} returned {type(frame).__name__}, not a DataFrame",
                hint="the function takes a SparkSession and returns a DataFrame",
            )
        return frame

    @property
    def original(self) -> str:
        """What the user wrote."""
        return self.written if self.written is not None else self.text

    @contextlib.contextmanager
    def own_places(self) -> Iterator[None]:
        """Places are those in Spark's text: they mean nothing to who wrote the query in another dialect."""
        try:
            yield
        except FreshlakeError as error:
            if self.written is not None:
                error.position = None
            raise

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.kind}:{self.reference}:{self.text}".encode()).hexdigest()[:16]


def _check_query(spark: SparkSession, text: str) -> None:
    """Spark runs a command as soon as it is given one, so nothing but a query may get that far."""
    parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    find = spark._jvm.java.lang.Class.forName  # type: ignore[union-attr]
    commands = [find(_LOGICAL + name) for name in ("Command", "ParsedStatement")]
    waiting = [parsed]
    while waiting:
        node = waiting.pop()
        if any(kind.isInstance(node) for kind in commands):
            raise InvalidQuery(
                f"a stream table is defined by a query, not by {node.nodeName()}",
                hint="write a SELECT; other statements run through fl.sql",
            )
        below = node.children()
        waiting += [below.apply(i) for i in range(below.size())]


def define(query: str | Builder) -> Definition:
    """A definition from what the user gave: SQL, 'module:function', or the function itself."""
    if callable(query):
        return _of_function(query)
    if not isinstance(query, str):
        raise InvalidArgument(
            f"a query is SQL text or an importable PySpark function, not {type(query).__name__}",
            hint="a DataFrame cannot be rebuilt after a restart: wrap it in a function that takes the session",
        )
    text = query.strip().rstrip(";").strip()
    if not text:
        raise InvalidArgument("the query is empty")
    if _is_reference(text):
        function = load_function(text)
        return Definition(DefinitionKind.FUNCTION, _source(function), text, function)
    return Definition(DefinitionKind.SQL, text)


def _is_reference(text: str) -> bool:
    module, colon, name = text.partition(":")
    return bool(colon) and name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _of_function(function: Builder) -> Definition:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module in (None, "__main__") or not name.isidentifier():
        raise DefinitionNotImportable(
            f"the function {name or function!r} cannot be imported by another process",
            hint="put it at the top level of a module that is on the Python path",
        )
    reference = f"{module}:{name}"
    if load_function(reference) is not function:
        raise DefinitionNotImportable(
            f"{reference} is another function than the one given", hint="pass the module's own top-level function"
        )
    return Definition(DefinitionKind.FUNCTION, _source(function), reference, function)


def load_function(reference: str) -> Builder:
    module, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise DefinitionNotImportable(
            f"cannot import {reference}: {error}", hint="put the module on the Python path, or alter the query"
        ) from error
    if not callable(function):
        raise DefinitionNotImportable(f"{reference} is not a function")
    result: Builder = function
    return result


def definition_of(table: StreamTable) -> Definition:
    """What the catalog keeps of a table's definition."""
    dialect = Dialect.parse(table.dialect)
    written = None if dialect is Dialect.SPARK else table.original_query
    return Definition(
        table.definition_kind, table.defining_query, table.definition_reference, written=written, dialect=dialect
    )


def code_of(table: StreamTable) -> str:
    """What the function that defines a table is now; nothing when it cannot be imported, which the refresh will say."""
    try:
        return digest(load_function(table.definition_reference)) if table.definition_reference else ""
    except FreshlakeError:
        return ""


def _source(function: Builder) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return getattr(function, "__qualname__", "function")
