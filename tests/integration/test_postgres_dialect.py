"""The same query in PostgreSQL and, translated, in Spark: the same rows under the same names."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from freshlake.dialect import Dialect, to_spark
from freshlake.dialect.aggregates import AGGREGATES, WINDOWS
from freshlake.dialect.functions import FUNCTIONS
from freshlake.errors import FreshlakeError
from tests.integration.postgres_errors import FAILING
from tests.integration.postgres_queries import COLUMNS, ROWS, SUBJECTS, create_script, queries
from tests.integration.postgres_server import Rows, Server, server

ZONES = ("UTC", "America/New_York")
_ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "DECIMAL(10,2)": pa.decimal128(10, 2),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "ARRAY<INT>": pa.list_(pa.int32()),
    "ARRAY<STRING>": pa.list_(pa.string()),
}
# Rows this few are interpreted: compiling each query would take most of the time.
_QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as running:
        running.run(create_script())
        yield running


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """The same tables in Spark."""
    own = spark.newSession()
    for key, value in _QUICK.items():
        own.conf.set(key, value)
    for table, columns in COLUMNS.items():
        values = {
            name: pa.array([row[i] for row in ROWS[table]], _ARROW[kind]) for i, (name, _, kind) in enumerate(columns)
        }
        typed = [f"CAST({name} AS {kind}) AS {name}" for name, _, kind in columns]
        own.createDataFrame(pa.table(values)).selectExpr(*typed).createOrReplaceTempView(table)
    return own


def in_spark(session: SparkSession, query: str) -> tuple[list[str], list[list[Any]]]:
    def columns_of(table: str) -> list[tuple[str, str]]:
        return [(f.name, f.dataType.json().strip('"')) for f in session.table(table).schema.fields]

    frame = session.sql(to_spark(query, Dialect.POSTGRES, columns_of))
    names, kinds = frame.columns, [f.dataType for f in frame.schema]
    if any(isinstance(kind, TimestampType) for kind in kinds):
        # moments as a clock in the session's zone shows them
        local = [
            f"CAST(c{i} AS TIMESTAMP_NTZ)" if isinstance(k, TimestampType) else f"c{i}" for i, k in enumerate(kinds)
        ]
        frame = frame.toDF(*(f"c{i}" for i in range(len(names)))).selectExpr(*local)
    return names, [[_plain(value) for value in row] for row in frame.collect()]


def _plain(value: Any) -> Any:
    """As PostgreSQL writes it in JSON; floating numbers stay what they are."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, dt.datetime) and value.microsecond:
        return value.isoformat().rstrip("0")
    if isinstance(value, dt.date):
        return value.isoformat()
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _local(value: Any) -> Any:
    """A timestamptz without its zone."""
    if isinstance(value, str):
        return re.sub(r"^(\d{4}-\d\d-\d\dT[\d:.]+)[+-]\d\d:\d\d$", r"\1", value)
    return [_local(item) for item in value] if isinstance(value, list) else value


def _same(theirs: Any, ours: Any) -> bool:
    """Exactly equal, except where Spark computes with floating numbers."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same, theirs, ours))
    numbers = [v for v in (ours, theirs) if isinstance(v, int | float | Decimal) and not isinstance(v, bool)]
    if len(numbers) < 2:
        return type(ours) is type(theirs) and bool(ours == theirs)
    if isinstance(ours, float):
        return math.isclose(float(theirs), ours, rel_tol=1e-9, abs_tol=1e-12)
    return Decimal(theirs) == Decimal(ours)


def _unmatched(theirs: list[list[Any]], ours: list[list[Any]]) -> tuple[list[Any], list[Any]]:
    left = list(ours)
    missing = []
    for row in theirs:
        partner = next((i for i, other in enumerate(left) if _same(row, other)), None)
        if partner is None:
            missing.append(row)
        else:
            del left[partner]
    return missing, left


@pytest.mark.parametrize("subject", SUBJECTS)
def test_postgresql_and_spark_give_the_same_rows(postgres: Server, session: SparkSession, subject: str) -> None:
    differing = []
    for zone in ZONES if subject in ("dates", "series") else ZONES[:1]:
        session.conf.set("spark.sql.session.timeZone", zone)
        asked = queries(subject)
        for query, expected in zip(asked, postgres.answers(asked, zone), strict=True):
            difference = compared(session, query, expected)
            differing += [f"{query}\n{difference}"] if difference else []
    session.conf.set("spark.sql.session.timeZone", "UTC")
    assert not differing, "\n\n".join(differing)


def compared(session: SparkSession, query: str, expected: Rows) -> str:
    """What differs between the answers; empty when nothing does."""
    try:
        names, rows = in_spark(session, query)
    except (FreshlakeError, PySparkException) as error:
        return str(error)
    wanted = [name for name, _ in expected[0]] if expected else names
    missing, unexpected = _unmatched([[_local(v) for _, v in row] for row in expected], rows)
    if missing or unexpected or names != wanted:
        return f"columns {wanted} and {names}\nonly in PostgreSQL {missing}\nonly in Spark {unexpected}"
    return ""


@pytest.mark.parametrize("query", FAILING)
def test_what_fails_in_postgresql_fails_in_spark(postgres: Server, session: SparkSession, query: str) -> None:
    with pytest.raises(AssertionError, match="ERROR"):
        postgres.answers([query])
    with pytest.raises((PySparkException, Py4JJavaError)):
        in_spark(session, query)


def test_every_function_of_the_list_is_compared() -> None:
    text = "\n".join(query for subject in SUBJECTS for query in queries(subject)).lower()
    of_the_clock = {"current_date", "current_timestamp", "localtimestamp", "now"}
    names = {*FUNCTIONS, *AGGREGATES, *WINDOWS} - of_the_clock - {"strposition"}
    assert sorted(name for name in names if not re.search(rf"\b{name}\s*\(", text)) == []
