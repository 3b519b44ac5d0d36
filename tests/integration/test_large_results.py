"""Results that are too large for the driver: what is stored of an internal node is what the table was computed from.

Spark may come to another value when it computes a sum of floats or a tie again; here it always does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType

import freshlake
from freshlake.compiler.program import Step
from freshlake.compiler.split import ROOT
from freshlake.errors import DataError
from freshlake.refresh.commit import Work
from freshlake.refresh.run import Runner
from freshlake.storage.relation import WEIGHT, Relation
from tests.integration.lakes import ANY_SHARE, bag

QUERY = "SELECT a.k, a.s, b.x FROM (SELECT k, sum(d) AS s FROM t GROUP BY k) a JOIN b USING (k)"


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[freshlake.Freshlake]:
    lake = freshlake.connect(tmp_path_factory.mktemp("large"), settings={**ANY_SHARE, "driver_rows": 2})
    lake.sql("CREATE TABLE t (k INT, d DOUBLE) USING delta")
    lake.sql("CREATE TABLE b (k INT, x STRING) USING delta")
    lake.sql("INSERT INTO t SELECT id, id FROM range(9)")
    lake.sql("INSERT INTO b SELECT id, concat('x', id) FROM range(9)")
    lake.create_stream_table("sums", QUERY, schedule="1h")
    yield lake
    lake.close()


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch) -> None:
    """New values of an internal node are others each time they are computed."""
    materialise = Runner._materialise

    def another(self: Runner, plan: Any, step: Step) -> Relation:
        found = materialise(self, plan, step)
        if step.node in (None, ROOT) or found.frame is None:
            return found
        frame = found.frame
        for field in found.schema:
            if isinstance(field.dataType, DoubleType):
                drawn = F.expr("cast(reflect('java.lang.Math', 'random') AS DOUBLE)")
                old = F.col(f"`{field.name}`")
                frame = frame.withColumn(field.name, F.when(F.col(WEIGHT) > 0, drawn).otherwise(old))
        return replace(found, frame=frame)

    monkeypatch.setattr(Runner, "_materialise", another)


def sums(fl: freshlake.Freshlake) -> tuple[Any, Any]:
    """Keys and sums as the internal node has them, and as the table shows them."""
    table = fl._engine.catalog.get("sums")
    ((node, state),) = table.nodes.items()
    storage = fl._engine.layout.node(table.storage_id, table.generation, node)
    assert state.version == storage.head() == table.version
    names = [name for name in storage.schema.names if not name.startswith("__fl_")]
    changes = storage.changes(fl.spark, 1, state.version, columns=names).dataframe(fl.spark).filter(f"{WEIGHT} > 0")
    shown = fl.changes("sums", since=1).filter(f"{WEIGHT} > 0").select("k", "s", WEIGHT)
    return (bag(tuple(row) for row in frame.collect()) for frame in (changes, shown))  # type: ignore[return-value]


def test_a_change_of_a_node_is_computed_once(fl: freshlake.Freshlake, moody: None) -> None:
    fl.sql("INSERT INTO t SELECT id, 0.5 FROM range(5)")
    assert str(fl.refresh("sums").action) == "DIFFERENTIAL"
    stored, shown = sums(fl)
    assert len(stored) == 5
    assert stored == shown


def test_a_second_attempt_begins_with_what_was_stored_before_the_first(
    fl: freshlake.Freshlake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, tried = Work._write, []

    def fails_once(self: Work, table: Any, node_id: str, *rest: Any) -> Any:
        if node_id == ROOT and not tried:
            tried.append(table)
            raise DataError("the rows met only here")
        return write(self, table, node_id, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Work, "_write", fails_once)
        fl.sql("INSERT INTO t SELECT id, 0.25 FROM range(7)")
        result = fl.refresh("sums")
    assert (str(result.action), result.reason) == ("FULL", "delta-evaluation-error")
    stored, shown = sums(fl)
    assert stored == shown
    assert fl.verify("sums").equal
