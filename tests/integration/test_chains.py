"""Stream tables over stream tables: the upstream's log is the downstream's change, whatever the upstream did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from freshlake.storage.log import Log
from tests.integration.lakes import ANY_SHARE, orders, rows


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    settings = {**ANY_SHARE, "log_retention_hours": 0}
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=settings) as lake:
        yield lake


@pytest.fixture
def chain(fl: Freshlake) -> Iterator[tuple[str, str, str]]:
    """orders → per_region → large → summary."""
    orders(fl)
    fl.create_stream_table("per_region", "SELECT region, sum(amount) AS total FROM orders GROUP BY region")
    fl.create_stream_table("large", "SELECT region, total FROM per_region WHERE total > 1")
    fl.create_stream_table("summary", "SELECT count(*) AS regions, sum(total) AS total FROM large")
    yield "per_region", "large", "summary"
    fl.drop_stream_table("per_region", if_exists=True, cascade=True)
    for name in [s.name for s in fl.status()]:
        fl.drop_stream_table(name, if_exists=True, cascade=True)
    fl.sql("DROP TABLE orders")


def actions(fl: Freshlake) -> dict[str, str]:
    return {r.table.removeprefix("default."): str(r.action) for r in fl.refresh_all()}


def all_equal(fl: Freshlake) -> bool:
    return all(fl.verify(s.name).equal for s in fl.status())


def log_of(fl: Freshlake, name: str) -> Log:
    table = fl._engine.catalog.get(f"default.{name}")
    return Log(fl._engine.layout.root(table, table.generation).path)


def test_one_insert_reaches_all_levels_differentially(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("INSERT INTO orders VALUES (9, 'north', 100)")
    assert actions(fl) == dict.fromkeys(chain, "DIFFERENTIAL")
    assert rows(fl, "summary") == rows(fl, "SELECT 3L, 124L")
    assert all_equal(fl)
    assert actions(fl) == dict.fromkeys(chain, "NO_DATA")


def test_a_table_is_made_and_altered_over_one_that_is_not_folded(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("INSERT INTO orders VALUES (9, 'east', 100)")
    assert str(fl.refresh("per_region").action) == "DIFFERENTIAL"
    assert log_of(fl, "per_region").head > fl._engine.catalog.get("default.per_region").folded_version
    fl.create_stream_table("late", "SELECT region, total + 1 AS more FROM per_region")
    assert rows(fl, "late") == rows(fl, "SELECT region, total + 1 FROM per_region")
    fl.alter_stream_table("late", query="SELECT max(total) AS top, count(*) AS n FROM per_region")
    assert rows(fl, "late") == rows(fl, "SELECT 100L, 4L")
    fl.sql("DELETE FROM orders WHERE id = 9")
    assert str(fl.refresh("late").action) == "DIFFERENTIAL"
    assert fl.verify("late").equal


def test_a_new_table_is_loaded_from_fresh_upstreams(fl: Freshlake, chain: tuple[str, ...]) -> None:
    """Creating, altering and replacing bring what is read up to date first, all at one point in time."""

    def positions() -> set[int | None]:
        return {s.position for s in fl.sources() if s.source == "default.orders" and s.stream_table != "summary"}

    both = "SELECT l.region, l.total, o.id FROM large l JOIN orders o ON l.region = o.region"
    late = []

    def write_late(step: str) -> None:
        if step == "committed" and not late:
            late.append(fl.spark.sql("INSERT INTO orders VALUES (99, 'east', 1)"))

    fl.sql("INSERT INTO orders VALUES (9, 'east', 100)")
    fl._engine.observer = write_late
    try:
        fl.create_stream_table("late", both)
    finally:
        fl._engine.observer = None
    assert late
    assert rows(fl, "SELECT region, total, id FROM late WHERE region = 'east'") == rows(fl, "SELECT 'east', 100L, 9L")
    assert len(positions()) == 1
    assert {s.name: s.version for s in fl.status()} == {"per_region": 2, "large": 2, "summary": 1, "late": 1}
    fl.alter_stream_table("late", query="SELECT region, total FROM large WHERE region = 'east'")
    assert rows(fl, "late") == rows(fl, "SELECT 'east', 101L")
    assert fl.verify("late").equal
    fl.sql("INSERT INTO orders VALUES (10, 'west', 50)")
    fl.create_or_replace_stream_table("late", f"{both} WHERE l.region = 'west'")
    assert rows(fl, "late") == rows(fl, "SELECT 'west', 50L, 10L")
    assert len(positions()) == 1
    assert all_equal(fl)


def test_only_a_new_query_refreshes_what_it_reads(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("INSERT INTO orders VALUES (9, 'east', 100)")
    fl.alter_stream_table("large", schedule="5m")
    fl.create_or_replace_stream_table("summary", "SELECT count(*) AS regions, sum(total) AS total FROM large")
    fl.create_stream_table("unborn", "SELECT region FROM per_region", initialize=False)
    assert {s.version for s in fl.status() if s.is_populated} == {1}


def test_a_new_table_reads_a_suspended_upstream_as_it_is(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.alter_stream_table("large", status="SUSPENDED")
    fl.sql("INSERT INTO orders VALUES (9, 'east', 100)")
    fl.create_stream_table("late", "SELECT region FROM large")
    assert rows(fl, "late") == rows(fl, "SELECT explode(array('north', 'south', NULL))")
    assert fl.verify("late").equal


def test_a_new_table_over_an_upstream_that_fails_is_not_created(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.create_stream_table("shares", "SELECT id, 100 / (amount - 3) AS share FROM orders")
    fl.sql("INSERT INTO orders VALUES (9, 'east', 3)")
    with pytest.raises(e.DataError, match=r"(?i)zero"):
        fl.create_stream_table("late", "SELECT id FROM shares")
    assert fl._engine.catalog.find("default.late") is None
    with pytest.raises(e.DataError, match=r"(?i)zero"):
        fl.alter_stream_table("summary", query="SELECT id FROM shares")
    assert rows(fl, "summary") == rows(fl, "SELECT 3L, 24L")
    fl.drop_stream_table("shares")


def test_a_rebuilt_upstream_changes_what_a_new_query_means(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.create_stream_table("everything", "SELECT * FROM orders")
    fl.sql("ALTER TABLE orders ADD COLUMNS (note STRING)")
    fl.create_stream_table("late", "SELECT * FROM everything")
    assert fl.table("late").columns == ["id", "region", "amount", "note"]
    fl.sql("ALTER TABLE orders ADD COLUMNS (more STRING)")
    fl.alter_stream_table("summary", query="SELECT * FROM everything")
    assert fl.table("summary").columns == ["id", "region", "amount", "note", "more"]
    assert fl.verify("summary").equal
    fl.drop_stream_table("everything", cascade=True)


def test_refreshing_the_last_brings_the_whole_chain_along(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("DELETE FROM orders WHERE region = 'south'")
    assert str(fl.refresh("summary").action) == "DIFFERENTIAL"
    assert rows(fl, "summary") == rows(fl, "SELECT 2L, 17L")
    assert all_equal(fl)


def test_a_change_that_ends_half_way_costs_nothing_above(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("INSERT INTO orders VALUES (9, 'tiny', 1)")
    assert actions(fl) == {"per_region": "DIFFERENTIAL", "large": "DIFFERENTIAL", "summary": "NO_DATA"}
    versions = {s.name: s.version for s in fl.status()}
    assert versions == {"per_region": 2, "large": 1, "summary": 1}
    assert all_equal(fl)


def test_a_full_upstream_does_not_cascade(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("UPDATE orders SET amount = amount + 1 WHERE id = 4")
    full = fl.refresh("per_region", mode="FULL")
    assert (str(full.action), full.reason) == ("FULL", "requested")
    assert (full.rows_inserted, full.rows_deleted) == (1, 1)  # only what differs is in the log
    assert str(fl.refresh("large").action) == "DIFFERENTIAL"
    assert str(fl.refresh("summary").action) == "DIFFERENTIAL"
    assert all_equal(fl)


def test_an_upstream_in_mode_full_still_fills_its_log(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.alter_stream_table("per_region", refresh_mode="FULL")
    fl.sql("INSERT INTO orders VALUES (9, 'south', 1)")
    assert actions(fl) == {"per_region": "FULL", "large": "DIFFERENTIAL", "summary": "DIFFERENTIAL"}
    assert all_equal(fl)


def test_a_rebuilt_upstream_is_read_in_full_once(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.alter_stream_table("per_region", query="SELECT region, sum(amount) * 3 AS total FROM orders GROUP BY region")
    result = fl.refresh("large")
    assert (str(result.action), result.reason) == ("FULL", "source-replaced")
    assert str(fl.refresh("summary").action) == "DIFFERENTIAL"
    assert all_equal(fl)
    fl.sql("INSERT INTO orders VALUES (9, 'north', 1)")
    assert actions(fl) == dict.fromkeys(chain, "DIFFERENTIAL")
    assert all_equal(fl)


def test_tables_and_stream_tables_mix(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("CREATE TABLE goals (region STRING, goal INT) USING delta")
    fl.sql("INSERT INTO goals VALUES ('north', 10), ('south', 10), (NULL, 0)")
    query = "SELECT g.region, p.total, g.goal FROM per_region p JOIN goals g ON p.region <=> g.region"
    fl.create_stream_table("progress", query, refresh_mode="DIFFERENTIAL")
    for change in (
        ["INSERT INTO goals VALUES ('east', 1)"],
        ["INSERT INTO orders VALUES (9, 'east', 3)"],
        ["UPDATE goals SET goal = 11 WHERE region = 'north'", "DELETE FROM orders WHERE id = 1"],
    ):
        for statement in change:
            fl.sql(statement)
        assert fl.refresh("progress").action in ("DIFFERENTIAL", "NO_DATA")
        assert fl.verify("progress").equal
    sources = {s.source: s.source_type for s in fl.sources("progress")}
    assert sources == {"default.goals": "TABLE", "default.per_region": "STREAM_TABLE"}
    fl.drop_stream_table("progress")
    fl.sql("DROP TABLE goals")


def test_a_diamond_reads_one_point_in_time(fl: Freshlake, chain: tuple[str, ...]) -> None:
    """A write between the refreshes of the two sides is seen by neither."""
    fl.create_stream_table("left_side", "SELECT id, amount FROM orders WHERE amount > 0")
    fl.create_stream_table("right_side", "SELECT id, amount * 2 AS twice FROM orders")
    fl.create_stream_table("tip", "SELECT l.id, amount, twice FROM left_side l JOIN right_side r ON l.id = r.id")
    fl.sql("INSERT INTO orders VALUES (20, 'north', 1)")
    late = []

    def write_late(step: str) -> None:
        if step == "committed" and not late:
            late.append(fl.spark.sql("INSERT INTO orders VALUES (21, 'north', 1)"))

    fl._engine.observer = write_late
    try:
        fl.refresh("tip")
    finally:
        fl._engine.observer = None
    assert late
    assert rows(fl, "SELECT count(*) FROM left_side") == rows(fl, "SELECT count(*) FROM right_side")
    assert rows(fl, "SELECT max(id) FROM tip") == rows(fl, "SELECT 20L")
    assert fl.verify("tip").equal
    fl.refresh_all()
    assert rows(fl, "SELECT max(id) FROM tip") == rows(fl, "SELECT 21L")
    assert all_equal(fl)
    for name in ("tip", "left_side", "right_side"):
        fl.drop_stream_table(name)


def test_all_tables_of_a_round_read_one_point_in_time(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.create_stream_table("zz_other", "SELECT id FROM orders")
    fl.sql("INSERT INTO orders VALUES (30, 'north', 1)")
    late = []

    def write_late(step: str) -> None:
        if step == "committed" and not late:
            late.append(fl.spark.sql("INSERT INTO orders VALUES (31, 'north', 1)"))

    fl._engine.observer = write_late
    try:
        fl.refresh_all()
    finally:
        fl._engine.observer = None
    positions = {s.position for s in fl.sources() if s.source == "default.orders"}
    assert len(positions) == 1
    assert rows(fl, "SELECT max(id) FROM zz_other") == rows(fl, "SELECT 30L")
    fl.drop_stream_table("zz_other")


def test_without_its_middle_a_chain_ends_in_a_clear_error(fl: Freshlake, chain: tuple[str, ...]) -> None:
    with pytest.raises(e.StreamTableInUse):
        fl.drop_stream_table("large")
    fl.alter_stream_table("summary", query="SELECT count(*) AS regions, sum(total) AS total FROM per_region")
    fl.drop_stream_table("large")  # nobody reads it any more
    fl.sql("INSERT INTO orders VALUES (9, 'north', 5)")
    assert actions(fl) == {"per_region": "DIFFERENTIAL", "summary": "DIFFERENTIAL"}
    assert all_equal(fl)


def test_a_middle_that_was_lost_is_reported_and_can_be_made_again(fl: Freshlake, chain: tuple[str, ...]) -> None:
    """No call drops a table that others read, but a catalog restored from a backup may lack it."""
    lost = fl._engine.catalog.get("default.large")
    fl._dropping.remove(lost)
    with pytest.raises(e.SourceDropped) as caught:
        fl.refresh("summary")
    assert "large" in str(caught.value)
    assert next(s for s in fl.status() if s.name == "summary").status == "ERROR"
    assert rows(fl, "summary") == rows(fl, "SELECT 3L, 24L")
    fl.create_stream_table("large", "SELECT region, total FROM per_region WHERE total > 2")
    result = fl.refresh("summary")
    assert str(result.action) in ("FULL", "REINITIALIZE")
    assert rows(fl, "summary") == rows(fl, "SELECT 2L, 22L")
    assert all_equal(fl)


def test_the_log_is_cleaned_up_to_the_slowest_reader(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.create_stream_table("slow", "SELECT region FROM per_region")
    for i in range(3):
        fl.sql(f"INSERT INTO orders VALUES ({100 + i}, 'north', 1)")
        fl.refresh("large")
    fl.fold("per_region")
    assert (log_of(fl, "per_region").head, log_of(fl, "per_region").floor) == (4, 1)  # slow stands at 1
    assert str(fl.refresh("slow", mode="DIFFERENTIAL").action) in ("DIFFERENTIAL", "NO_DATA")
    assert all_equal(fl)
    fl.sql("INSERT INTO orders VALUES (110, 'north', 1)")
    fl.refresh_all()
    fl.fold("per_region")
    assert log_of(fl, "per_region").floor == 5
    fl.drop_stream_table("slow")


def test_a_reader_between_two_folds_can_still_be_verified(fl: Freshlake, chain: tuple[str, ...]) -> None:
    """It stands at a version that only the older base and the log after it give."""
    fl.sql("INSERT INTO orders VALUES (100, 'north', 1)")
    fl.create_stream_table("slow", "SELECT region, total FROM per_region")
    assert fl._engine.catalog.get("default.per_region").version == 2
    for i in range(2):
        fl.sql(f"INSERT INTO orders VALUES ({101 + i}, 'north', 1)")
        fl.refresh("summary")
        fl.fold("per_region")
    fl.vacuum("per_region")
    assert log_of(fl, "per_region").floor == 1
    assert fl.verify("slow").equal
    assert str(fl.refresh("slow", mode="DIFFERENTIAL").action) == "DIFFERENTIAL"
    fl.fold("per_region")
    assert log_of(fl, "per_region").floor == 4
    assert all_equal(fl)


def test_verify_says_so_when_the_state_of_a_source_is_gone(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("INSERT INTO orders VALUES (100, 'north', 1)")
    fl.refresh("large")
    fl.sql("INSERT INTO orders VALUES (101, 'north', 1)")
    fl.refresh("per_region")
    fl.fold("per_region")
    fl._engine.layout.root(fl._engine.catalog.get("default.per_region"), 1).cleanup(3, 3, epoch=9)
    with pytest.raises(e.SourceHistoryLost, match="large cannot be verified") as caught:
        fl.verify("large")
    assert "refresh" in str(caught.value.hint)
    result = fl.refresh("large")
    assert (str(result.action), result.reason) == ("FULL", "history-lost")
    assert all_equal(fl)


def test_a_reader_that_never_loaded_holds_nothing_back(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.create_stream_table("unborn", "SELECT region FROM per_region", initialize=False)
    fl.sql("INSERT INTO orders VALUES (100, 'north', 1)")
    fl.refresh("summary")
    fl.fold("per_region")
    assert log_of(fl, "per_region").floor == 2
    fl.refresh("unborn")
    assert all_equal(fl)
    fl.drop_stream_table("unborn")


def test_folding_changes_nothing_that_anyone_sees(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("INSERT INTO orders VALUES (9, 'east', 100), (9, 'east', 100)")
    fl.refresh_all()
    fl.sql("UPDATE orders SET region = 'west' WHERE id = 9 AND amount = 100")
    fl.refresh_all()
    before = {name: rows(fl, name) for name in chain}
    held = {name: fl.table(name) for name in chain}
    for name in chain:
        fl.fold(name)
        fl.vacuum(name)
    assert {name: rows(fl, name) for name in chain} == before
    for name, frame in held.items():
        assert len(frame.collect()) == before[name].total()
    assert actions(fl) == dict.fromkeys(chain, "NO_DATA")
    fl.sql("INSERT INTO orders VALUES (10, 'east', 1)")
    assert set(actions(fl).values()) <= {"DIFFERENTIAL", "NO_DATA"}
    assert all_equal(fl)


def test_a_changed_type_makes_the_log_anew(fl: Freshlake, chain: tuple[str, ...]) -> None:
    """The upstream is rebuilt with a log of the new type; who reads it follows once, and is differential again."""
    fl.sql("ALTER TABLE orders SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    fl.create_stream_table("amounts", "SELECT id, amount FROM orders")
    fl.create_stream_table("most", "SELECT max(amount) AS most FROM amounts")
    before = fl._engine.catalog.get("default.amounts").generation
    fl.sql("ALTER TABLE orders ALTER COLUMN amount TYPE BIGINT")
    fl.sql("INSERT INTO orders VALUES (9, 'north', 10000000000)")
    assert str(fl.refresh("amounts").action) == "REINITIALIZE"
    assert fl._engine.catalog.get("default.amounts").generation > before
    types = {field.name: field.type.type for field in log_of(fl, "amounts").table.schema().fields}
    assert types["amount"] == "long"
    assert str(fl.refresh("most").action) in ("FULL", "REINITIALIZE")
    assert rows(fl, "most") == rows(fl, "SELECT 10000000000L")
    fl.sql("INSERT INTO orders VALUES (9, 'north', 20000000000)")
    assert {str(fl.refresh(name).action) for name in ("amounts", "most")} == {"DIFFERENTIAL"}
    assert all_equal(fl)


def test_a_refresh_without_a_change_writes_nothing_into_the_log(fl: Freshlake, chain: tuple[str, ...]) -> None:
    before = {name: log_of(fl, name).table.version() for name in chain}
    actions(fl)
    fl.sql("UPDATE orders SET region = region")
    fl.refresh("summary")
    assert {name: log_of(fl, name).table.version() for name in chain} == before
    assert all_equal(fl)


def test_a_log_is_released_when_its_last_reader_goes(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.sql("INSERT INTO orders VALUES (9, 'north', 1)")
    fl.refresh("per_region")
    fl.fold("per_region")
    assert (log_of(fl, "per_region").head, log_of(fl, "per_region").floor) == (2, 1), "large stands at 1"
    assert [t.name for t in fl._engine.catalog.dependents(fl._engine.catalog.get("per_region").source_key)] == ["large"]
    fl.drop_stream_table("large", cascade=True)
    assert fl._engine.catalog.dependents(fl._engine.catalog.get("per_region").source_key) == ()
    fl.sql("INSERT INTO orders VALUES (9, 'north', 1)")
    fl.refresh("per_region")
    fl.fold("per_region")
    assert (log_of(fl, "per_region").head, log_of(fl, "per_region").floor) == (3, 3)


def test_dropping_everything_leaves_an_empty_lake(fl: Freshlake, chain: tuple[str, ...]) -> None:
    fl.drop_stream_table("per_region", cascade=True)
    assert not fl.status()
    assert not list((fl.path / "_freshlake" / "streams").iterdir())
    assert not fl._engine.catalog.tracked_sources()
