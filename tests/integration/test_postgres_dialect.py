"""The same query in PostgreSQL and, translated, in Spark: the same rows under the same names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from freshlake.dialect import Dialect, to_spark
from freshlake.dialect.aggregates import AGGREGATES, WINDOWS
from freshlake.dialect.functions import FUNCTIONS
from freshlake.errors import FreshlakeError
from tests.integration.postgres_compare import answer, frame_of, unmatched
from tests.integration.postgres_errors import FAILING
from tests.integration.postgres_queries import COLUMNS, SUBJECTS, create_script, queries
from tests.integration.postgres_server import Rows, Server, server

ZONES = ("UTC", "America/New_York")
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
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The same tables in Spark. What is set is taken back, as Spark goes on to take this session for the active one."""
    own = spark.newSession()
    for key, value in _QUICK.items():
        own.conf.set(key, value)
    for table in COLUMNS:
        frame_of(own, table).createOrReplaceTempView(table)
    yield own
    for key in _QUICK:
        own.conf.unset(key)


def in_spark(session: SparkSession, query: str) -> tuple[list[str], list[list[Any]]]:
    def columns_of(table: str) -> list[tuple[str, str]]:
        return [(f.name, f.dataType.json().strip('"')) for f in session.table(table).schema.fields]

    frame = session.sql(to_spark(query, Dialect.POSTGRES, columns_of))
    return frame.columns, answer(frame)


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
    missing, unexpected = unmatched(expected, rows)
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
