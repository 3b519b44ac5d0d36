"""The contract of a change-logged table: at every version, however often it was folded, it is the bag it should be."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from freshlake.errors import InvalidArgument, InvariantViolated
from freshlake.storage import fold as folding
from freshlake.storage.identity import violation
from freshlake.storage.layout import Pending
from freshlake.storage.netting import copies, totals
from freshlake.storage.relation import WEIGHT
from freshlake.storage.scan import KeyFilter
from freshlake.storage.table import EMPTY, FoldForm, FoldPoint, Limits
from tests.bags import canonical
from tests.integration.change_logged_model import BY_DRIVER, BY_SPARK, Modelled, Rows, certificate

KEYED = ("id BIGINT, region STRING, amount DOUBLE", [f"{i}L, 'r{i % 3}', {i}.5D" for i in range(12)])
# Nothing tells rows apart but their bits: NULL, '', −0.0, NaN, and the same key many times.
KEYLESS = (
    "k INT, x DOUBLE, s STRING",
    [
        "NULL, NULL, NULL",
        "NULL, NULL, ''",
        "1, 0.0D, 'a'",
        "1, -0.0D, 'a'",
        "1, double('NaN'), 'a'",
        "1, double('-Infinity'), NULL",
        "1, 1.0D, 'A'",
        "2, 1.0D, 'a'",
    ],
)
NESTED = (
    "a ARRAY<DOUBLE>, m MAP<STRING, INT>, t STRUCT<p: FLOAT, q: ARRAY<STRING>>",
    [
        "array(0.0D), map('x', 1, 'y', 2), named_struct('p', 0.0F, 'q', array('u'))",
        "array(-0.0D), map('x', 1, 'y', 2), named_struct('p', 0.0F, 'q', array('u'))",
        "array(0.0D), map('x', 1), named_struct('p', -0.0F, 'q', array('u'))",
        "array(CAST(NULL AS DOUBLE)), map(), named_struct('p', NULL, 'q', NULL)",
        "NULL, NULL, NULL",
    ],
)


def walk(model: Modelled, seed: int, steps: int) -> None:
    """Random batches with weights from −3 to +3, some empty, some only adding, by both writers, and random folds."""
    dice = random.Random(seed)
    for _ in range(steps):
        model.table.limits = dice.choice([BY_DRIVER, BY_SPARK])
        state = model.states[-1]
        low = dice.choice([0, -3])
        weights = {
            row: weight
            for row in range(len(model.rows.rows))
            if (weight := max(dice.randint(low, 3), -state[row])) and dice.random() < 0.4
        }
        model.append(weights, driver=dice.random() < 0.7)
        if dice.random() < 0.35:
            model.fold(dice.randint(model.point.folded_version, model.head), dice.choice([None, *FoldForm]))


# Values whose text is not their path: NULL, spaces, separators, escapes, numbers and dates as text.
PARTITIONED = (
    "p STRING, x DOUBLE, d DATE, b BOOLEAN",
    [
        "NULL, NULL, NULL, NULL",
        "' ', 0.0D, DATE'2024-02-29', true",
        "'a b/c%20=ü', -0.0D, DATE'1899-12-31', false",
        "'A B/C', double('NaN'), NULL, false",
        "'01', 1.0D, DATE'9999-12-31', NULL",
        "'1', 1.0D, DATE'0001-01-01', true",
        "'null', NULL, DATE'2024-02-29', true",
    ],
)


@pytest.mark.parametrize(
    ("shape", "seed", "partition_by"),
    [
        pytest.param(KEYED, 1, (), id="keyed", marks=pytest.mark.slow),
        pytest.param(KEYLESS, 2, (), id="keyless"),
        pytest.param(NESTED, 3, (), id="nested", marks=pytest.mark.slow),
        pytest.param(PARTITIONED, 4, ("P", "d"), id="partitioned by text"),
        pytest.param(PARTITIONED, 5, ("d", "b"), id="partitioned by others", marks=pytest.mark.slow),
    ],
)
def test_every_version_stays_readable_through_random_changes_and_folds(
    spark: SparkSession, tmp_path: Path, shape: tuple[str, list[str]], seed: int, partition_by: tuple[str, ...]
) -> None:
    model = Modelled(spark, tmp_path, Rows(spark, *shape), partition_by)
    model.load({0: 1, 1: 3, 2: 1})
    walk(model, seed, 4 if partition_by else 6)
    for version in range(1, model.head + 1):
        model.check(version)
    model.check(model.head, model.points[1])
    model.check_changes(1, model.head)
    model.check_changes(model.head - 1, model.head)


@pytest.fixture(scope="module")
def keyed_rows(spark: SparkSession) -> Rows:
    return Rows(spark, *KEYED)


@pytest.fixture(scope="module")
def keyless_rows(spark: SparkSession) -> Rows:
    return Rows(spark, *KEYLESS)


@pytest.fixture
def keyed(spark: SparkSession, tmp_path: Path, keyed_rows: Rows) -> Modelled:
    return Modelled(spark, tmp_path, keyed_rows)


@pytest.fixture
def keyless(spark: SparkSession, tmp_path: Path, keyless_rows: Rows) -> Modelled:
    return Modelled(spark, tmp_path, keyless_rows)


def test_an_empty_table_has_no_rows_no_certificate_and_takes_an_empty_batch(keyed: Modelled) -> None:
    assert (keyed.table.head(), keyed.table.last_certificate()) == (0, None)
    keyed.check(0)
    keyed.append({})
    keyed.check(1)
    assert keyed.table.last_certificate() is not None
    assert keyed.table.changes(keyed.spark, 0, 1).is_empty
    assert keyed.fold() == FoldPoint(0, 1)
    keyed.check(1)


def test_few_entries_that_stand_for_many_rows_are_folded_by_spark(
    keyed: Modelled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bounded(entries: pa.Table) -> pa.Table:
        assert totals(entries)[0] <= 4
        return copies(entries)

    monkeypatch.setattr(folding, "copies", bounded)
    keyed.table.limits = Limits(rows=4, small_rows=0)
    keyed.load({0: 1})
    for weights, form in (({1: 9}, FoldForm.APPEND), ({1: -1, 2: 1}, FoldForm.MERGE)):
        keyed.append(weights)
        keyed.fold(form=form)
        keyed.check(keyed.head)


def test_an_empty_load_is_a_version_like_any_other(keyed: Modelled) -> None:
    keyed.load({})
    keyed.append({3: 2})
    keyed.check(1)
    keyed.check(2)


def test_a_table_can_start_from_the_log_alone(keyless: Modelled) -> None:
    keyless.append({0: 3, 4: 1})
    keyless.append({0: -2, 4: -1, 5: 1})
    keyless.check(1)
    keyless.check(2)
    assert keyless.fold().folded_version == 2
    keyless.check(2)


def test_some_copies_of_a_row_can_be_removed(keyless: Modelled) -> None:
    keyless.load({0: 3, 2: 3, 3: 1})
    keyless.append({0: -2, 2: -1})
    keyless.check(2)
    for form in (FoldForm.MERGE, FoldForm.REWRITE):
        keyless.points = keyless.points[:2]
        keyless.fold(form=form)
        keyless.check(2)


def test_negative_zero_is_another_row_than_zero(keyless: Modelled) -> None:
    keyless.load({2: 1, 3: 1})
    keyless.append({3: -1})
    keyless.check(2)
    keyless.append({2: -1, 3: 1})
    keyless.check(3)
    keyless.check_changes(1, 3)
    keyless.fold(form=FoldForm.MERGE)
    keyless.check(3)


def test_the_certificate_counts_what_was_written(keyed: Modelled) -> None:
    keyed.load({0: 1, 1: 2})
    loaded = keyed.table.certificate(1)
    assert (loaded.rows_inserted, loaded.rows_deleted, loaded.row_count) == (3, 0, 3)
    assert loaded.base_version == keyed.point.base_version
    for driver in (True, False):
        done = keyed.append({1: -1, 5: 3}, driver=driver)
        assert (done.rows_inserted, done.rows_deleted) == (3, 1)
        keyed.append({1: 1, 5: -3})
    assert done == keyed.table.certificate(4)
    assert keyed.table.certificate(5).row_count == 3


def test_columns_are_returned_as_asked(keyed: Modelled) -> None:
    keyed.load({0: 1, 1: 1, 2: 1})
    keyed.append({1: -1, 7: 2})
    frame = keyed.table.read(keyed.spark, 2, keyed.point, columns=["AMOUNT", "id"])
    assert frame.columns == ["amount", "id"]
    assert sorted(map(tuple, frame.collect())) == [(0.5, 0), (2.5, 2), (7.5, 7), (7.5, 7)]
    regions = keyed.table.changes(keyed.spark, 1, 2, columns=["region"])
    assert {row["region"]: row[WEIGHT] for row in regions.dataframe(keyed.spark).collect()} == {"r1": 1}
    with pytest.raises(InvalidArgument, match="no column price"):
        keyed.table.read(keyed.spark, 2, keyed.point, columns=["price"])


def test_keys_never_lose_a_row_that_has_them(keyless: Modelled) -> None:
    keyless.load(dict.fromkeys(range(8), 2))
    keyless.append(dict.fromkeys(range(8), -1))
    keyless.append({1: 1, 7: -1})
    everything = keyless.table.read(keyless.spark, 3, keyless.point).collect()
    for keys in (
        [KeyFilter("k", (1,))],
        [KeyFilter("k", (2, 9), has_null=True)],
        [KeyFilter("s", ("a", "it's"))],
        [KeyFilter("x", (1.0,)), KeyFilter("k", (1, 2))],
        [KeyFilter("k", tuple(range(-2000, 2000)))],
    ):
        found = keyless.table.read(keyless.spark, 3, keyless.point, keys=keys).collect()
        assert _with_keys(found, keys) == _with_keys(everything, keys)


def _with_keys(rows: list[Row], keys: list[KeyFilter]) -> Counter[object]:
    def has(row: Row, key: KeyFilter) -> bool:
        return key.has_null if row[key.column] is None else row[key.column] in key.values

    return Counter(canonical(tuple(row)) for row in rows if all(has(row, key) for key in keys))


def test_rows_not_yet_appended_can_be_read_with_the_rest(keyless: Modelled) -> None:
    keyless.load({0: 2, 2: 1})
    keyless.append({4: 2, 2: -1})
    expected = Counter({0: 1, 4: 3, 6: 2})
    extra = [keyless.rows.relation({0: -1, 4: 1}), keyless.rows.relation({6: 2})]
    keyless.check_rows(keyless.table.read(keyless.spark, 2, keyless.point, extra=extra), expected)
    extra[0] = keyless.rows.relation({0: -1, 4: 1}, driver=False)
    keyless.check_rows(keyless.table.read(keyless.spark, 2, keyless.point, extra=extra), expected)


def test_a_log_too_large_for_the_driver_is_read_by_spark(keyless: Modelled) -> None:
    keyless.load({0: 2, 2: 1, 3: 1})
    keyless.append({0: -1, 4: 2, 3: -1})
    keyless.append({5: 3})
    keyless.table.limits = Limits(rows=1)
    keyless.check(2)
    keyless.check(3)
    keyless.check(3, keys=[KeyFilter("k", (1,), has_null=True)])
    keyless.check_changes(1, 3)
    keyless.check_changes(2, 3)
    keyless.fold(2)
    keyless.fold(3)
    keyless.check(3)


def test_removing_a_row_that_is_not_there_fails_reads_and_folds(keyed: Modelled) -> None:
    keyed.load({0: 1, 1: 1})
    keyed.states.append(Counter())
    keyed.table.append(keyed.spark, keyed.rows.relation({0: -2}), certificate(2))
    for keys in ((), (KeyFilter("id", (0,)),)):
        with pytest.raises(Exception, match="negative number of copies") as raised:
            keyed.table.read(keyed.spark, 2, keyed.point, keys=keys).collect()
        assert isinstance(violation(raised.value), InvariantViolated)
    for form in (FoldForm.REWRITE, FoldForm.MERGE):
        with pytest.raises(InvariantViolated):
            keyed.fold(form=form)
    keyed.check(1)


def test_a_fold_that_only_adds_is_an_append_and_small_files_are_compacted(
    keyed: Modelled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshlake.storage.fold._MAX_SMALL_FILES", 2)
    keyed.load({0: 1})
    for row in (1, 2, 3):
        keyed.append({row: 2})
        keyed.fold()
    for version in (1, 2, 3, 4):
        keyed.check(version)
    files = keyed.spark.read.format("delta").load(f"{keyed.table.path}/base").inputFiles()
    assert len(files) <= 2


def test_pending_says_what_a_fold_would_bring_in(keyed: Modelled) -> None:
    keyed.load({0: 1})
    assert keyed.table.pending(keyed.point, 1) == Pending(0, 0, 0)
    keyed.append({1: 2, 2: 1})
    keyed.append({})
    keyed.append({1: -1})
    pending = keyed.table.pending(keyed.point, 4)
    assert (pending.versions, pending.rows) == (2, 3)
    assert pending.bytes > 0
    keyed.fold()
    assert keyed.table.pending(keyed.point, 4) == Pending(0, 0, 0)
    assert keyed.table.pending(EMPTY, 0) == Pending(0, 0, 0)


def test_another_engine_reads_the_base_as_of_the_last_fold(keyless: Modelled) -> None:
    keyless.load({0: 1, 2: 2})
    keyless.append({2: -1, 3: 1})
    keyless.fold()
    keyless.append({3: 4})
    frame = keyless.spark.read.format("delta").load(f"{keyless.table.path}/base")
    keyless.check_rows(frame, keyless.states[2])
