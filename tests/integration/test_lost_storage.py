"""Storage that was lost or altered outside Freshlake: said when it is read, and healed by the next refresh."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.clock import ManualClock
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, orders, rows

QUERIES = {
    "copy": "SELECT region, amount FROM orders",
    "per_region": "SELECT region, sum(amount) AS total FROM orders GROUP BY region",
    # an internal node
    "spread": "SELECT total, count(*) AS regions FROM "
    "(SELECT region, sum(amount) AS total FROM orders GROUP BY region) GROUP BY total",
    "large": "SELECT region, total FROM per_region WHERE total > 1",
}
Damage = Callable[[Freshlake], None]


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, clock: ManualClock) -> Iterator[Freshlake]:
    settings = {**ANY_SHARE, "min_schedule_seconds": 1}
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=settings, clock=clock) as lake:
        orders(lake)
        for name, query in QUERIES.items():
            lake.create_stream_table(name, query, schedule="10s", fold_policy="manual")
        yield lake
        lake.fold("copy")


@pytest.fixture(autouse=True)
def moved(fl: Freshlake, clock: ManualClock) -> None:
    """Every table has versions that are not folded."""
    fl.sql("INSERT INTO orders VALUES (7, 'west', 2)")
    fl.refresh_all()
    clock.advance(11)


def sound(fl: Freshlake) -> None:
    fl.refresh_all()
    for name, query in QUERIES.items():
        assert rows(fl, name) == rows(fl, query), name
    assert [finding for finding in fl.health() if finding.code == "reinitialize-needed"] == []


def folder(fl: Freshlake, name: str) -> Path:
    table = fl._engine.catalog.get(f"default.{name}")
    return fl._engine.layout.generation(table.storage_id, table.generation)


def without(name: str, part: str) -> Damage:
    return lambda fl: shutil.rmtree(folder(fl, name) / part)


def without_newest_commit(fl: Freshlake) -> None:
    """What copying a folder while it is written, or restoring an old copy of it, leaves behind."""
    log = folder(fl, "per_region") / "root" / "log"
    newest = DeltaTable(str(log)).version()
    (log / "_delta_log" / f"{newest:020}.json").unlink()


def with_a_column(fl: Freshlake) -> None:
    fl.spark.sql(f"ALTER TABLE delta.`{folder(fl, 'per_region') / 'root' / 'base'}` ADD COLUMN x INT")


def without_a_file(part: str) -> Damage:
    def remove(fl: Freshlake) -> None:
        path = folder(fl, "per_region") / "root" / part
        Path(DeltaTable(str(path)).file_uris()[0].removeprefix("file://")).unlink()

    return remove


SLOW = pytest.mark.slow
"""Ways of losing something that lead to the same place by another check, which is tested without Spark."""


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(without("per_region", ""), id="the folder"),
        pytest.param(without("per_region", "root/log"), id="the log", marks=SLOW),
        pytest.param(without("per_region", "root/base"), id="the base", marks=SLOW),
    ],
)
def test_a_table_whose_folder_is_gone_says_so_and_is_rebuilt(fl: Freshlake, damage: Damage) -> None:
    """Although its sources did not change."""
    damage(fl)
    for read in (lambda: fl.table("per_region"), lambda: fl.sql("SELECT * FROM per_region")):
        with pytest.raises(e.StorageMissing, match="the storage of stream table per_region is gone") as caught:
            read()
        assert "refresh" in (caught.value.hint or "")
    result = fl.refresh("per_region")
    assert (str(result.action), result.reason) == ("REINITIALIZE", "storage-lost")
    reader = fl.refresh("large")
    assert (str(reader.action), reader.reason) == ("FULL", "source-replaced")
    sound(fl)


@pytest.mark.parametrize(
    ("broken", "damage"),
    [
        pytest.param("per_region", with_a_column, id="a column added to the base"),
        pytest.param("per_region", without_newest_commit, id="the newest commit of the log", marks=SLOW),
        pytest.param("spread", without("spread", "n1"), id="the folder of a node", marks=SLOW),
    ],
)
def test_what_was_altered_is_found_by_the_next_refresh(fl: Freshlake, broken: str, damage: Damage) -> None:
    damage(fl)
    fl.sql("INSERT INTO orders VALUES (8, 'south', 1)")
    found = {result.table: (str(result.action), result.reason) for result in fl.refresh_all()}
    assert found[f"default.{broken}"] == ("REINITIALIZE", "storage-lost")
    assert found["default.copy"] == ("DIFFERENTIAL", None)
    sound(fl)


@pytest.mark.parametrize("part", ["log", pytest.param("base", marks=SLOW)])
def test_a_single_file_that_is_gone_is_found_by_what_reads_it(fl: Freshlake, part: str) -> None:
    without_a_file(part)(fl)
    with pytest.raises(e.FreshlakeError):
        fl.fold("per_region")
    assert [f.code for f in fl.health() if f.name == "per_region"] == ["reinitialize-needed"]
    result = fl.refresh("per_region")
    assert (str(result.action), result.reason) == ("REINITIALIZE", "storage-lost")
    without_a_file(part if part == "base" else "base")(fl)
    result = fl.refresh("per_region", mode="FULL")
    assert (str(result.action), result.reason) == ("REINITIALIZE", "storage-lost")
    sound(fl)


@SLOW
def test_an_audit_puts_right_what_is_gone(fl: Freshlake) -> None:
    without("per_region", "root/log")(fl)
    assert str(fl.audit("per_region").outcome) == "REPAIRED"
    without_a_file("base")(fl)
    assert str(fl.repair("per_region").outcome) == "REPAIRED"
    sound(fl)


def test_a_scheduler_heals_what_is_gone(fl: Freshlake, clock: ManualClock) -> None:
    without("per_region", "")(fl)
    fl._scheduler.tick()
    newest = fl.history("per_region", limit=1)[0]
    assert (str(newest.action), newest.reason) == ("REINITIALIZE", "storage-lost")
    clock.advance(11)
    fl._scheduler.tick()
    sound(fl)


@SLOW
def test_a_new_query_heals_what_is_gone(fl: Freshlake) -> None:
    without("copy", "")(fl)
    fl.alter_stream_table("copy", query="SELECT amount, region FROM orders")
    assert rows(fl, "copy") == rows(fl, "SELECT amount, region FROM orders")
    without("copy", "")(fl)
    fl.alter_stream_table("copy", query=QUERIES["copy"])
    sound(fl)


@SLOW
def test_a_table_that_must_never_be_full_waits_for_a_person(fl: Freshlake) -> None:
    fl.alter_stream_table("copy", never_full=True)
    without("copy", "root/log")(fl)
    with pytest.raises(e.FullRefused, match="recomputed"):
        fl.refresh("copy")
    assert str(fl.refresh("copy", mode="FULL").action) == "REINITIALIZE"
    fl.alter_stream_table("copy", never_full=False)
    sound(fl)


@SLOW
def test_a_lake_that_is_not_mounted_is_not_rebuilt(fl: Freshlake, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = folder(fl, "copy")
    away = kept.with_name("away")
    kept.rename(away)
    monkeypatch.setattr(type(fl._engine.layout), "is_mounted", False)
    with pytest.raises(e.RefreshFailed, match="does not answer"):
        fl.refresh("copy")
    away.rename(kept)
    assert str(fl.refresh("copy").action) == "NO_DATA"
    sound(fl)
