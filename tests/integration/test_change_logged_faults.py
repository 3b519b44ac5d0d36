"""Crashes, second writers and damage: nothing is lost, nothing doubled, and what cannot be read says so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql.types import StructType

from freshlake.errors import CommitConflict, InvariantViolated, LeaseLost, StorageCorrupt, StorageMissing
from freshlake.storage import append as appending
from freshlake.storage import fold as folding
from freshlake.storage.log import Log
from freshlake.storage.table import EMPTY, ChangeLogged, FoldForm, FoldPoint
from tests.integration.change_logged_model import Modelled, Rows, certificate


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Rows:
    return Rows(spark, "id BIGINT, s STRING", [f"{i}L, 's{i % 2}'" for i in range(9)])


@pytest.fixture
def model(spark: SparkSession, tmp_path: Path, rows: Rows) -> Modelled:
    return Modelled(spark, tmp_path, rows)


def total(model: Modelled, at: int, point: FoldPoint) -> int:
    return model.table.read(model.spark, at, point).count()


# Writers


def test_repeating_a_refresh_changes_nothing(model: Modelled) -> None:
    first = model.append({0: 2})
    again = model.table.append(model.spark, model.rows.relation({0: 2}), certificate(1))
    assert again == first == model.table.last_certificate()
    assert model.table.head() == 1
    model.check(1)


def test_a_taken_version_is_refused_and_an_old_lease_is_told_so(model: Modelled) -> None:
    model.append({0: 2})
    with pytest.raises(CommitConflict, match="already taken"):
        model.table.append(model.spark, model.rows.relation({1: 1}), certificate(1, "other"))
    model.table.append(model.spark, model.rows.relation({1: 1}), certificate(2, "newer", epoch=5))
    for version in (2, 3):
        with pytest.raises(LeaseLost):
            model.table.append(model.spark, model.rows.relation({1: 1}), certificate(version, "old", epoch=4))
    assert total(model, 2, EMPTY) == 3


@pytest.mark.parametrize("driver", [True, False], ids=["driver", "spark"])
def test_of_two_writers_at_the_same_time_one_wins(
    model: Modelled, monkeypatch: pytest.MonkeyPatch, driver: bool
) -> None:
    stage = appending.stage

    def overtaken(*arguments: Any) -> appending.Staged:
        monkeypatch.setattr(appending, "stage", stage)
        model.append({3: 1})
        return stage(*arguments)

    monkeypatch.setattr(appending, "stage", overtaken)
    with pytest.raises(CommitConflict):
        model.table.append(model.spark, model.rows.relation({4: 1}, driver=driver), certificate(1, "slow"))
    assert model.table.certificate(1).refresh_id == "refresh-1"
    model.check(1)


@pytest.mark.parametrize("driver", [True, False], ids=["driver", "spark"])
def test_more_rows_than_there_are_cannot_be_removed(model: Modelled, driver: bool) -> None:
    model.append({0: 2, 1: 1})
    with pytest.raises(InvariantViolated, match="not there") as caught:
        model.table.append(model.spark, model.rows.relation({2: 1, 3: -5}, driver=driver), certificate(2))
    assert "3 rows" in str(caught.value.detail)
    assert model.table.head() == 1
    model.append({0: -2, 1: -1})
    model.check(2)


def test_a_clean_up_at_the_same_time_does_not_disturb_a_writer(
    model: Modelled, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.append({0: 1})
    model.fold()
    stage = appending.stage

    def cleaning(*arguments: Any) -> appending.Staged:
        model.table.cleanup(1, folded=1, epoch=1)
        return stage(*arguments)

    monkeypatch.setattr(appending, "stage", cleaning)
    model.append({1: 1})
    model.check(2)
    assert (model.table.head(), model.table.floor()) == (2, 1)


def test_rows_that_went_elsewhere_are_no_version(model: Modelled, monkeypatch: pytest.MonkeyPatch) -> None:
    write = DataFrameWriter.parquet
    monkeypatch.setattr(DataFrameWriter, "parquet", lambda self, path: write(self, f"{path}%20"))
    with pytest.raises(StorageCorrupt, match="went elsewhere"):
        model.table.append(model.spark, model.rows.relation({0: 2}, driver=False), certificate(1))
    assert model.table.head() == 0


# Crashes


def test_a_load_that_did_not_reach_the_log_did_not_happen(model: Modelled, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Log, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            model.table.load(model.spark, model.rows.plain({7: 5}), certificate(1))
    assert (model.table.head(), model.table.last_certificate()) == (0, None)
    model.check(0)
    model.load({0: 2, 1: 1})
    model.check(1)
    assert model.table.load(model.spark, model.rows.plain({0: 2, 1: 1}), certificate(1)) == model.point
    with pytest.raises(CommitConflict):
        model.table.load(model.spark, model.rows.plain({8: 1}), certificate(2))
    model.check(1)


def test_rows_of_a_load_that_did_not_happen_are_not_folded_in(model: Modelled, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("freshlake.storage.load.confirm", lambda *_: pytest.fail("not reached"))
        patch.setattr(Log, "commit", _raise_conflict)
        with pytest.raises(CommitConflict):
            model.table.load(model.spark, model.rows.plain({7: 5}), certificate(1, "lost"))
    model.append({0: 1})
    model.fold()
    model.check(1)


def _raise_conflict(*_: Any, **__: Any) -> None:
    raise CommitConflict("crash")


@pytest.mark.parametrize("form", list(FoldForm))
def test_a_fold_that_was_not_recorded_is_found_again(model: Modelled, form: FoldForm) -> None:
    model.load({0: 3, 1: 1})
    model.append({2: 1} if form is FoldForm.APPEND else {0: -2, 1: -1, 2: 1})
    before = model.point
    folded = model.table.fold(model.spark, 2, before, 1, form)
    model.check(2, before)
    assert model.table.fold(model.spark, 2, before, 1, form) == folded
    model.append({0: -1, 3: 2})
    model.points.append(model.table.fold(model.spark, 3, before, epoch=1))
    assert model.point.base_version == folded.base_version + 1
    model.check(3)
    model.check(2, before)


def test_folding_again_after_a_rollback_forgets_what_was_rolled_back(model: Modelled) -> None:
    model.load({0: 1, 1: 1})
    model.table.append(model.spark, model.rows.relation({0: -1, 8: 4}), certificate(2, "orphan"))
    model.table.fold(model.spark, 2, model.point, epoch=1)
    model.table.rollback(1, epoch=1)
    model.check(1)
    model.append({5: 1})
    model.fold()
    model.check(2)


def test_two_folds_at_the_same_time_do_not_count_twice(model: Modelled, monkeypatch: pytest.MonkeyPatch) -> None:
    model.load({0: 1})
    model.append({5: 2})
    write = folding._write

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(folding, "_write", write)
        model.table.fold(model.spark, 2, model.point, epoch=1)
        write(*arguments)

    monkeypatch.setattr(folding, "_write", overtaken)
    with pytest.raises(CommitConflict):
        model.fold()
    model.check(2)
    model.fold()
    model.check(2)


def test_foreign_writes_to_the_base_are_not_read_and_are_gone_after_the_next_fold(model: Modelled) -> None:
    model.load({0: 1, 1: 2})
    model.append({2: 1})
    model.spark.sql(f"DELETE FROM delta.`{model.table.path}/base` WHERE id = 1")
    model.check(2)
    model.fold()
    model.check(2)


def test_an_orphan_is_rolled_back_once_and_its_version_is_free_again(model: Modelled) -> None:
    model.load({0: 1})
    model.append({1: 2})
    model.table.append(model.spark, model.rows.relation({0: -1}), certificate(3, "orphan"))
    for _ in range(2):
        model.table.rollback(2, epoch=1)
        assert model.table.head() == 2
        assert model.table.last_certificate() == model.table.certificate(2)
    with pytest.raises(StorageMissing):
        model.table.certificate(3)
    model.check(2)
    model.append({0: -1, 4: 1})
    model.check(3)
    model.check_changes(1, 3)


def test_an_orphan_load_is_rolled_back(model: Modelled) -> None:
    model.table.load(model.spark, model.rows.plain({0: 1}), certificate(1, "orphan"))
    model.table.rollback(0, epoch=1)
    assert (model.table.head(), model.table.floor(), model.table.last_certificate()) == (0, 0, None)
    model.append({1: 1})
    model.check(1)
    model.fold()
    model.check(1)


# Clean-up


def test_clean_up_drops_only_folded_versions_that_nobody_asked_to_keep(model: Modelled) -> None:
    model.load({0: 1})
    for row in (1, 2, 3):
        model.append({row: 1})
    model.fold(3)
    assert model.table.cleanup(keep_after=2, folded=3, epoch=1) == 1
    assert model.table.cleanup(keep_after=2, folded=3, epoch=1) == 0
    assert model.table.floor() == 2
    assert model.table.cleanup(keep_after=9, folded=3, epoch=1) == 1
    model.check(3, model.point)
    model.check(4, model.point)
    model.check_changes(3, 4)
    with pytest.raises(StorageMissing, match="no longer in the log"):
        model.table.changes(model.spark, 1, 4)
    with pytest.raises(StorageMissing, match="no longer in the log"):
        model.table.read(model.spark, 3, model.points[1])
    assert model.table.last_certificate() == model.table.certificate(4)


def test_changes_from_before_the_load_are_not_in_the_log(model: Modelled) -> None:
    model.load({0: 1})
    with pytest.raises(StorageMissing, match="no longer in the log"):
        model.table.changes(model.spark, 0, 1)


def test_vacuum_keeps_what_fold_points_and_recent_readers_need(model: Modelled) -> None:
    model.load({0: 1, 1: 1})
    for row in (0, 1):
        model.append({row: -1, row + 4: 1})
        model.fold(form=FoldForm.REWRITE)
    first, second, third = model.points[1:]
    held = model.table.read(model.spark, 1, first)
    assert model.table.vacuum([], min_age_seconds=3600) == 0
    assert model.table.vacuum([first.base_version, second.base_version], min_age_seconds=0) == 0
    model.check_rows(held, model.states[1])
    assert model.table.cleanup(keep_after=3, folded=3, epoch=1) == 2
    assert model.table.vacuum([second.base_version], min_age_seconds=0) > 0
    model.check(2, second)
    model.check(3, third)
    model.append({0: 1})
    model.points[:] = [third]
    model.fold()
    model.check(4)
    with pytest.raises(Exception, match=r"(?i)not.exist|no such file"):
        model.table.read(model.spark, 1, first).collect()


# Damage


def test_storage_that_is_gone_or_damaged_says_so(model: Modelled, tmp_path: Path) -> None:
    model.load({0: 1})
    model.append({1: 1})
    path = Path(model.table.path)
    with pytest.raises(StorageCorrupt, match="ends at version 2"):
        model.table.read(model.spark, 9, model.point)
    with pytest.raises(StorageMissing):
        model.table.read(model.spark, 1, FoldPoint(77, 1))
    with pytest.raises(StorageMissing):
        ChangeLogged(str(tmp_path / "nowhere")).head()
    with pytest.raises(StorageCorrupt, match="holds another table"):
        ChangeLogged.create(str(path), model.rows.schema)
    next((path / "log" / "__fl_version=2").glob("*.parquet")).unlink()
    with pytest.raises(StorageCorrupt, match="cannot be read"):
        model.table.read(model.spark, 2, model.point)
    newest = max((path / "log" / "_delta_log").glob("*.json"))
    newest.write_text("{not json")
    with pytest.raises(StorageCorrupt):
        model.table.head()
    shutil.rmtree(path / "log" / "_delta_log")
    with pytest.raises(StorageMissing):
        model.table.last_certificate()
    shutil.rmtree(path / "base")
    with pytest.raises(StorageMissing):
        ChangeLogged(str(path)).schema  # noqa: B018


def test_a_table_left_half_made_is_completed(model: Modelled) -> None:
    path = Path(model.table.path)
    shutil.rmtree(path / "log")
    again = ChangeLogged.create(str(path), model.rows.schema)
    assert again.head() == 0
    shutil.rmtree(path / "log")
    with pytest.raises(StorageCorrupt, match="holds another table"):
        ChangeLogged.create(str(path), StructType(model.rows.schema.fields[:1]))
