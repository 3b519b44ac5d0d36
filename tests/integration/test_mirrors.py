"""Mirrors of a source database: published together, and one state of it for who reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import freshlake
from freshlake.catalog.records import StreamTable
from freshlake.errors import FreshlakeError, InvalidName, RefreshInProgress, SourceUnreachable, StreamTableProtected
from freshlake.refresh.terms import Terms
from tests.bags import assert_same_bag
from tests.integration.captured_fake import FakeDatabase
from tests.integration.lakes import ANY_SHARE

ORDERS = "public.orders"
ITEMS = "public.items"
FIRST = {
    ORDERS: [(1, "north"), (2, "south"), (3, None)],
    ITEMS: [(1, 10.0), (1, 10.0), (2, 5.5)],
}


@pytest.fixture(scope="module")
def database() -> FakeDatabase:
    schemas = {
        ORDERS: StructType.fromDDL("id BIGINT, region STRING"),
        ITEMS: StructType.fromDDL("`order id` BIGINT, price DOUBLE"),
    }
    made = FakeDatabase("shop", schemas)
    made.commit(**FIRST)
    return made


@pytest.fixture(scope="module")
def fl(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, database: FakeDatabase
) -> Iterator[freshlake.Freshlake]:
    lake = freshlake.connect(tmp_path_factory.mktemp("mirrors"), settings={**ANY_SHARE, "max_consecutive_errors": 100})
    database.attach(lake)
    yield lake
    lake.close()


def mirror(fl: freshlake.Freshlake, table: str = ORDERS) -> StreamTable:
    return fl._engine.catalog.get(f"shop.{table}")


def contents(fl: freshlake.Freshlake, name: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in fl.table(name).collect()), key=repr)


def assert_as_at(fl: freshlake.Freshlake, database: FakeDatabase) -> None:
    """Every mirror holds what its table held at the position that it says."""
    for table in database.schemas:
        frontier = mirror(fl, table).frontier
        assert frontier is not None
        at = frontier["sources"]["pg:shop"]["version"]
        assert contents(fl, f"shop.{table}") == sorted(database.history[at][table], key=repr)


def test_a_stream_table_over_mirrors_loads_them_all_at_one_position(
    fl: freshlake.Freshlake, database: FakeDatabase
) -> None:
    before = len(database.pinned)
    fl.sql(
        "CREATE STREAM TABLE revenue AS SELECT o.region, sum(i.price) AS total "
        "FROM shop.public.orders o JOIN shop.public.items i ON o.id = i.`order id` GROUP BY o.region"
    )
    assert len(database.pinned) == before + 1, "the database is pinned once"
    assert_as_at(fl, database)
    assert contents(fl, "revenue") == [("north", 20.0), ("south", 5.5)]
    assert fl.verify("revenue").equal
    table = fl._engine.catalog.get("revenue")
    assert "shop.public.orders" in table.original_query, "the query stays as it was written"
    assert list((table.frontier or {})["roots"]) == ["pg:shop"]


def test_a_captured_table_is_read_by_its_three_parts_and_as_spark_knows_it(fl: freshlake.Freshlake) -> None:
    theirs = fl.spark.createDataFrame([(1, "north"), (2, "south"), (3, None)], "id BIGINT, region STRING")
    assert_same_bag(fl.table("shop.public.orders"), theirs)
    assert_same_bag(fl.sql("SELECT shop.public.orders.* FROM shop.public.orders"), theirs)
    assert_same_bag(fl.sql("SELECT orders.id, region FROM `shop`.`public`.`orders`"), theirs)
    assert_same_bag(fl.sql("SELECT * FROM shop__public.orders"), theirs)


def test_a_query_in_the_dialect_of_postgresql_reads_captured_tables(fl: freshlake.Freshlake) -> None:
    query = "SELECT region || '!' AS loud FROM shop.public.orders WHERE orders.id < 3"
    fl.create_stream_table("loud", query, dialect="postgres")
    assert contents(fl, "loud") == [("north!",), ("south!",)]
    table = fl._engine.catalog.get("loud")
    assert (table.original_query, table.refresh_mode) == (query, "AUTO")
    assert "shop.public.orders" in table.defining_query
    fl.drop_stream_table("loud")


def test_changes_of_one_transaction_are_seen_together(fl: freshlake.Freshlake, database: FakeDatabase) -> None:
    database.commit(**{ORDERS: [(1, "east"), (2, "south")], ITEMS: [(1, 10.0), (2, 5.5), (2, 1.0)]})
    seen: list[tuple[str, set[int]]] = []

    def look(step: str) -> None:
        seen.append((step, {mirror(fl, table).published_version for table in database.schemas}))

    fl._engine.observer = look
    result = fl.refresh("revenue")
    fl._engine.observer = None
    assert str(result.action) == "DIFFERENTIAL"
    assert {versions for _, found in seen for versions in [len(found)]} == {1}, "never one mirror without the other"
    assert_as_at(fl, database)
    assert contents(fl, "revenue") == [("east", 10.0), ("south", 6.5)]
    assert fl.verify("revenue").equal


def test_nothing_new_is_no_data_for_mirrors_and_readers(fl: freshlake.Freshlake) -> None:
    results = {r.table: r for r in fl.refresh_all()}
    assert {str(r.action) for r in results.values()} == {"NO_DATA"}
    assert sum(r.spark_jobs for r in results.values()) == 0


def test_a_change_of_one_table_moves_the_position_of_all(fl: freshlake.Freshlake, database: FakeDatabase) -> None:
    database.commit(**{ORDERS: [(1, "west"), (2, "south")]})
    actions = {r.table: str(r.action) for r in fl.refresh_all()}
    assert actions == {
        "shop.public.orders": "DIFFERENTIAL",
        "shop.public.items": "NO_DATA",
        "default.revenue": "DIFFERENTIAL",
    }
    positions = [(mirror(fl, table).frontier or {})["sources"]["pg:shop"] for table in database.schemas]
    assert positions[0] == positions[1]
    snapshot = fl.snapshot("shop.public.orders", "shop.public.items", "revenue")
    assert snapshot.roots["pg:shop"] == positions[0]


def test_refreshing_a_mirror_brings_the_others_of_its_database(fl: freshlake.Freshlake, database: FakeDatabase) -> None:
    database.commit(**{ITEMS: [(1, 11.0)]})
    assert fl.refresh("shop.public.orders").table == "shop.public.orders"
    assert_as_at(fl, database)
    assert contents(fl, "shop.public.items") == [(1, 11.0)]


def test_a_view_and_a_function_read_mirrors_too(fl: freshlake.Freshlake, database: FakeDatabase) -> None:
    fl.sql("CREATE VIEW west AS SELECT id FROM shop.public.orders WHERE region = 'west'")
    fl.create_stream_table("west_ids", "SELECT * FROM west")
    fl.create_stream_table("west_again", "tests.integration.shop_definitions:western")
    database.commit(**{ORDERS: [(1, "west"), (7, "west")]})
    fl.refresh_all()
    assert contents(fl, "west_ids") == contents(fl, "west_again") == [(1,), (7,)]
    schemas = [schema.name for schema in fl._engine.catalog.schemas()]
    assert "shop__public" not in schemas, "Spark's schema is nobody's own"
    for name in ("west_ids", "west_again"):
        fl.drop_stream_table(name)


def test_mirrors_are_written_and_named_by_freshlake_only(fl: freshlake.Freshlake) -> None:
    with pytest.raises(StreamTableProtected):
        fl.sql("INSERT INTO shop.public.orders VALUES (9, 'x')")
    with pytest.raises(InvalidName):
        fl.create_stream_table("shop.public.mine", "SELECT 1 AS a")
    path = fl._engine.catalog.dependencies(mirror(fl).id)[0].location
    with pytest.raises(FreshlakeError, match="shape"):
        fl.create_stream_table("sly", f"SELECT * FROM delta.`{path}`")


def test_a_database_that_does_not_answer_fails_its_readers_only(
    fl: freshlake.Freshlake, database: FakeDatabase
) -> None:
    fl.sql("CREATE TABLE plain (id INT) USING delta")
    fl.create_stream_table("beside", "SELECT id FROM plain")
    fl.sql("INSERT INTO plain VALUES (1)")
    database.is_down = True
    results = {r.table: r for r in fl.refresh_all()}
    database.is_down = False
    assert str(results["default.beside"].action) == "DIFFERENTIAL"
    assert results["shop.public.orders"].reason == "source-unreachable"
    assert results["default.revenue"].reason == "upstream-failed"
    database.is_down = True
    with pytest.raises(SourceUnreachable):
        fl.refresh("revenue")
    database.is_down = False
    assert fl.refresh("revenue").action is not None
    assert mirror(fl).consecutive_errors == 0
    assert_as_at(fl, database)


def test_nobody_moves_a_mirror_while_the_others_of_its_database_are_on_their_way(
    fl: freshlake.Freshlake, database: FakeDatabase
) -> None:
    fl.refresh_all()
    database.commit(**{ORDERS: [(1, "a")], ITEMS: [(1, 1.0)]})
    steps: list[str] = []

    def overtake(step: str) -> None:
        steps.append(step)
        if step == "triage" and steps.count(step) == 2:  # orders is done, items begins
            database.commit(**{ORDERS: [(1, "b")], ITEMS: [(1, 2.0)]})
            with pytest.raises(RefreshInProgress):
                fl._engine.refresh(mirror(fl, ORDERS), {}, None, Terms(publish=False))

    fl._engine.observer = overtake
    fl.refresh("shop.public.items")
    fl._engine.observer = None
    assert steps.count("triage") == 2
    assert contents(fl, "shop.public.orders") == [(1, "a")]
    assert_as_at(fl, database)


def test_mirrors_at_two_positions_are_not_published(fl: freshlake.Freshlake, database: FakeDatabase) -> None:
    """A process has brought one of them further and died."""
    fl.refresh_all()
    before = {table: mirror(fl, table).published_version for table in database.schemas}
    database.commit(**{ORDERS: [(1, "c")], ITEMS: [(1, 3.0)]})
    fl._engine.refresh(mirror(fl, ORDERS), {}, None, Terms(publish=False))
    assert not fl._rounds._in_one_state([mirror(fl, table) for table in database.schemas])
    assert {table: mirror(fl, table).published_version for table in database.schemas} == before
    fl.refresh_all()
    assert fl._rounds._in_one_state([mirror(fl, table) for table in database.schemas])
    assert mirror(fl, ORDERS).published_version > before[ORDERS]
    assert_as_at(fl, database)


def test_a_position_that_is_gone_is_read_anew_as_a_difference(fl: freshlake.Freshlake, database: FakeDatabase) -> None:
    database.commit(**{ORDERS: [(1, "west"), (8, "far")]})
    fl.refresh_all()
    before = mirror(fl)
    database.commit(**{ORDERS: [(8, "far"), (9, "new")]})
    database.oldest = len(database.history) - 1
    result = fl.refresh("shop.public.orders")
    assert (str(result.action), result.reason) == ("FULL", "history-lost")
    assert (result.rows_inserted, result.rows_deleted) == (1, 1)
    assert (mirror(fl).generation, mirror(fl).version) == (before.generation, before.version + 1)
    assert_as_at(fl, database)
    assert all(fl.verify(f"shop.{table}").equal for table in database.schemas)
    assert str(fl.refresh("revenue").action) == "DIFFERENTIAL", "readers take the change from the log"
