"""A query is compiled when what it means may have changed, and not otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.errors import FreshlakeError
from freshlake.lake import Freshlake
from freshlake.refresh import queries
from tests.integration.lakes import ANY_SHARE, orders, rows

BY_REGION = "SELECT region, count(*) AS n FROM orders GROUP BY region"


@pytest.fixture
def fl(spark: SparkSession, lake_dir: Path) -> Iterator[Freshlake]:
    with freshlake.connect(lake_dir, settings=ANY_SHARE) as lake:
        yield lake


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry per query that was compiled since it was last cleared."""
    calls: list[Any] = []
    original = queries.compile_query

    def noted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(queries, "compile_query", noted)
    return calls


def test_a_new_definition_is_compiled_once(fl: Freshlake, compiled: list[Any]) -> None:
    orders(fl)
    fl.create_stream_table("by_region", BY_REGION)
    assert len(compiled) == 1
    fl.create_stream_table("regions", "SELECT region FROM orders")
    fl.sql("INSERT INTO orders VALUES (9, 'west', 1)")
    assert str(fl.refresh("by_region", mode="DIFFERENTIAL").action) == "DIFFERENTIAL"
    assert len(compiled) == 2
    assert rows(fl, "by_region") == rows(fl, BY_REGION)


def test_nothing_is_compiled_to_find_that_nothing_changed(fl: Freshlake, compiled: list[Any]) -> None:
    orders(fl)
    fl.create_stream_table("by_region", BY_REGION)
    fl.sql("CREATE TABLE others (id BIGINT) USING delta")
    compiled.clear()
    assert str(fl.refresh("by_region").action) == "NO_DATA"
    assert not compiled


@pytest.mark.parametrize("names", [("copy",), ("copy", "beside")], ids=["alone", "among others"])
def test_a_view_that_gives_its_name_to_a_table_changes_what_reads_it(
    spark: SparkSession, lake_dir: Path, names: tuple[str, ...]
) -> None:
    """Also for who has never compiled the query, and although what it read so far has not changed."""
    with freshlake.connect(lake_dir, settings=ANY_SHARE) as fl:
        orders(fl)
        fl.sql("CREATE VIEW shown AS SELECT id, region FROM orders")
        for name in names:
            fl.create_stream_table(name, "SELECT region FROM shown")
        fl.sql("DROP VIEW shown")
        orders(fl, "shown")
        fl.sql("INSERT INTO shown VALUES (5, 'east', 1)")
    with freshlake.connect(lake_dir, settings=ANY_SHARE) as fl:
        assert {str(result.action) for result in fl.refresh_all()} == {"REINITIALIZE"}
        for name in names:
            assert rows(fl, name) == rows(fl, "SELECT region FROM shown")
            assert str(fl.refresh(name).action) == "NO_DATA"


@pytest.fixture
def another_session(spark: SparkSession) -> Iterator[Callable[[], None]]:
    """Makes a session active in this thread that takes texts and overflows in another way."""
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    before = sessions.getActiveSession()
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    other.conf.set("spark.sql.ansi.enabled", "false")
    yield lambda: sessions.setActiveSession(other._jsparkSession)
    if before.isDefined():
        sessions.setActiveSession(before.get())


def test_a_query_means_the_same_whatever_session_is_active(
    spark: SparkSession, lake_dir: Path, another_session: Callable[[], None]
) -> None:
    with freshlake.connect(lake_dir, settings=ANY_SHARE) as fl:
        fl.sql("CREATE TABLE big (x BIGINT, ts TIMESTAMP) USING delta")
        fl.sql("INSERT INTO big VALUES (1, TIMESTAMP '2024-01-01 12:00:00')")
        fl.create_stream_table("total", "SELECT sum(x) AS s FROM big WHERE ts > TIMESTAMP '2024-01-01 00:00:00'")
    with freshlake.connect(lake_dir, settings=ANY_SHARE) as fl:
        fl.sql("INSERT INTO big VALUES (2, TIMESTAMP '2024-01-01 00:00:01')")
        another_session()
        assert str(fl.refresh("total").action) == "DIFFERENTIAL"
        fl.sql("INSERT INTO big VALUES (9223372036854775807, TIMESTAMP '2024-01-02 00:00:00')")
        another_session()
        with pytest.raises(FreshlakeError, match=r"(?i)overflow"):
            fl.refresh("total", mode="DIFFERENTIAL")
