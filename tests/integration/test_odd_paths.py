"""A lake, and a source outside of it, in folders whose names mean something else in a URI: nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake
from tests.integration.lakes import ANY_SHARE, bag

ODD = "my lake é#%?;{x}"
LARGE = {**ANY_SHARE, "driver_rows": 2}
"""Every change but the smallest is staged by Spark."""


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[freshlake.Freshlake]:
    lake = freshlake.connect(tmp_path_factory.mktemp("odd") / ODD, settings=LARGE)
    lake.sql("CREATE TABLE orders (id BIGINT, region STRING, amount INT) USING delta")
    lake.sql("INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 20)")
    yield lake
    lake.close()


def rows(fl: freshlake.Freshlake, name: str) -> Counter[object]:
    return bag(tuple(row) for row in fl.table(name).collect())


def test_no_change_is_lost_however_it_is_staged(fl: freshlake.Freshlake) -> None:
    fl.create_stream_table("totals", "SELECT region, sum(amount) AS total FROM orders GROUP BY region", schedule="1h")
    fl.create_stream_table("big", "SELECT id, total FROM totals JOIN orders USING (region)", schedule="1h")
    fl.sql("INSERT INTO orders SELECT id, concat('r', id % 5), id FROM range(10, 30)")
    fl.refresh_all()
    for name, inserted in (("totals", 5), ("big", 20)):
        newest = fl.history(name)[0]
        assert (str(newest.action), newest.rows_inserted) == ("DIFFERENTIAL", inserted)
    fl.sql("DELETE FROM orders WHERE id = 2")
    fl.refresh_all()
    for name in ("totals", "big"):
        assert fl.verify(name).equal
        fl.fold(name)
        assert fl.verify(name).equal
    assert len(fl.table("totals").collect()) == 6
    assert {entry.name for entry in fl.path.parent.iterdir()} == {ODD}, "nothing is written beside the lake"


def test_a_source_outside_of_the_lake_is_followed(fl: freshlake.Freshlake, tmp_path: Path) -> None:
    source = tmp_path / f"a source; {ODD}" / "t;u"
    fl.spark.range(5).write.format("delta").option("delta.enableDeletionVectors", "true").save(str(source))
    fl.sql(f"CREATE TABLE outside USING delta LOCATION '{source}'")
    fl.create_stream_table("copied", "SELECT id FROM outside", schedule="1h")
    fl.spark.range(5, 9).write.format("delta").mode("append").save(str(source))
    fl.sql("DELETE FROM outside WHERE id = 6")
    assert str(fl.refresh("copied").action) == "DIFFERENTIAL"
    assert rows(fl, "copied") == bag((i,) for i in (0, 1, 2, 3, 4, 5, 7, 8))


def test_the_lake_is_found_again(fl: freshlake.Freshlake) -> None:
    with freshlake.connect(fl.path) as again:
        assert rows(again, "orders") == rows(fl, "orders")
        assert str(again.refresh("copied").action) == "NO_DATA"
