"""What a user gives as a query, as a definition: text of another dialect than Spark's is translated here, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from freshlake.catalog.enums import DefinitionKind
from freshlake.dialect import Dialect, Fields, to_spark
from freshlake.errors import InvalidArgument
from freshlake.refresh.definition import Builder, Definition, define
from freshlake.refresh.engine import Engine
from freshlake.refresh.pinned import PARSED
from freshlake.refresh.spark_errors import translated

_NEEDED = {
    "spark.sql.ansi.enabled": ("true", "without it Spark gives NULL where PostgreSQL reports an error"),
    "spark.sql.orderByOrdinal": ("true", "without it ORDER BY 1 is no order"),
    "spark.sql.groupByOrdinal": ("true", "without it GROUP BY 1 is no column"),
} | {key: (value, "a query is translated to Spark SQL as Spark reads it by itself") for key, value in PARSED.items()}
"""Settings that a translated query depends on."""


def define_in(engine: Engine, query: str | Builder, dialect: str | None, settings: Mapping[str, Any]) -> Definition:
    """The definition in Spark SQL; `settings` say where the names of a query in another dialect are looked up."""
    definition, chosen = define(query), Dialect.parse(dialect)
    if chosen is Dialect.SPARK:
        return definition
    if definition.kind is not DefinitionKind.SQL:
        raise InvalidArgument("a dialect is for SQL text, not for a function", hint="leave dialect out")
    for setting, (value, why) in _NEEDED.items():
        if str(settings.get(setting, value)).lower() != value.lower():
            raise InvalidArgument(
                f"dialect {chosen} needs {setting} = {value}", detail=why, hint=f"set it to {value} in the session"
            )
    text = to_spark(definition.text, chosen, lambda name: _fields(engine, name, settings))
    return replace(definition, text=text, written=definition.text, dialect=chosen)


def _fields(engine: Engine, name: str, settings: Mapping[str, Any]) -> Fields:
    engine.resolve(name)
    worker = engine.worker
    worker.pin(settings)
    with translated():
        schema = worker.binding.sql(engine.in_spark(f"SELECT * FROM {name}")).schema
    return [(f.name, f.dataType.json().strip('"')) for f in schema.fields]
