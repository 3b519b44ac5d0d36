"""PostgreSQL queries as stream tables: after every change their rows are those that PostgreSQL gives."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE
from tests.integration.postgres_compare import answer, frame_of, unmatched
from tests.integration.postgres_differential import QUERIES, ROUNDS
from tests.integration.postgres_queries import create_script
from tests.integration.postgres_server import Server, server

SAMPLE = {name: QUERIES[name] for name in ("distinct_on", "lateral", "quantified")}
REST = {name: query for name, query in QUERIES.items() if name not in SAMPLE}


def differing(fl: Freshlake, postgres: Server, queries: dict[str, str]) -> list[str]:
    found = []
    for (name, query), expected in zip(queries.items(), postgres.answers(list(queries.values())), strict=True):
        missing, unexpected = unmatched(expected, answer(fl.table(name)))
        if missing or unexpected:
            found.append(f"{name}: {query}\nonly in PostgreSQL {missing}\nonly in {name} {unexpected}")
    return found


@pytest.mark.parametrize("queries", [SAMPLE, pytest.param(REST, marks=pytest.mark.slow)], ids=["sample", "rest"])
def test_stream_tables_follow_postgresql(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, queries: dict[str, str]
) -> None:
    with server() as postgres, freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as fl:
        postgres.run(create_script())
        for table in ("t", "u"):
            frame_of(fl.spark, table).createOrReplaceTempView(f"{table}_rows")
            fl.sql(f"CREATE TABLE {table} USING delta AS SELECT * FROM {table}_rows")
        for name, query in queries.items():
            assert fl.validate(query, dialect="postgres").differential, name
            fl.create_stream_table(name, query, dialect="postgres", refresh_mode="DIFFERENTIAL")
        assert not differing(fl, postgres, queries)
        for number, statements in enumerate(ROUNDS):
            for statement in statements:
                postgres.run(statement)
                fl.sql(statement)
            results = fl.refresh_all()
            full = [r for r in results if str(r.action) not in ("DIFFERENTIAL", "NO_DATA")]
            assert {r.reason for r in full} <= {"truncate-detected"}, full
            assert not differing(fl, postgres, queries), f"after round {number}"
