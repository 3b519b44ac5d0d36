"""A file is left out only when its statistics prove that it holds no row with the keys looked for."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from freshlake.storage.netting import distinct_values, in_utc
from freshlake.storage.scan import DataFile, KeyFilter, open_snapshot, prune
from freshlake.storage.scan.prune import prune_files


def keeps(
    kind: DataType,
    low: Any,
    high: Any,
    values: tuple[Any, ...],
    *,
    nulls: int | None = 0,
    rows: int | None = 10,
    has_null: bool = False,
    metadata: dict[str, Any] | None = None,
    deleted: pa.Array | None = None,
) -> bool:
    """Whether a file with these statistics survives."""
    file = DataFile(
        "f",
        1,
        rows,
        {},
        {} if low is None else {"c": low},
        {} if high is None else {"c": high},
        {} if nulls is None else {"c": nulls},
        deleted,
    )
    schema = StructType([StructField("c", kind, True, metadata)])
    return bool(prune_files([file], schema, [KeyFilter("c", values, has_null)]))


@pytest.mark.parametrize(
    ("kind", "low", "high", "inside", "outside"),
    [
        (LongType(), 10, 20, 15, 21),
        (LongType(), 10, 20, 20, 9),
        (IntegerType(), -5, -1, -1, 0),
        (StringType(), "b", "d", "c", "e"),
        (StringType(), "b", "d", "d", "a"),
        (DateType(), date(2020, 1, 1), date(2020, 1, 31), date(2020, 1, 31), date(2020, 2, 1)),
        (DecimalType(10, 2), Decimal("1.50"), Decimal("2.50"), Decimal("2.5"), Decimal("2.51")),
    ],
)
def test_values_outside_the_range_leave_a_file_out(
    kind: DataType, low: Any, high: Any, inside: Any, outside: Any
) -> None:
    assert keeps(kind, low, high, (inside,))
    assert not keeps(kind, low, high, (outside,))
    assert keeps(kind, low, high, (outside, inside))


def test_a_gap_between_the_keys_leaves_a_file_out() -> None:
    assert not keeps(LongType(), 10, 20, (1, 30))


def test_missing_statistics_keep_the_file() -> None:
    assert keeps(LongType(), None, None, (1,))
    assert keeps(LongType(), 10, None, (30,))
    assert keeps(LongType(), None, 10, (30,))
    assert keeps(LongType(), None, None, (1,), nulls=None, rows=None)


def test_a_file_of_nulls_is_kept_only_for_null_keys() -> None:
    assert not keeps(LongType(), None, None, (1,), nulls=10)
    assert keeps(LongType(), None, None, (1,), nulls=10, has_null=True)
    assert keeps(LongType(), None, None, (1, None), nulls=10)


def test_null_keys_keep_files_with_nulls_or_an_unknown_number_of_them() -> None:
    assert keeps(LongType(), 10, 20, (1,), nulls=1, has_null=True)
    assert keeps(LongType(), 10, 20, (1,), nulls=None, has_null=True)
    assert not keeps(LongType(), 10, 20, (1,), nulls=0, has_null=True)
    assert not keeps(LongType(), 10, 20, (), nulls=1)


def test_deleted_rows_are_not_mistaken_for_nulls() -> None:
    # 5 of 10 rows are NULL and 5 are deleted; the deleted ones may be the NULLs.
    assert keeps(LongType(), None, None, (1,), nulls=5, rows=5, deleted=pa.array([0, 1, 2, 3, 4]))


@pytest.mark.parametrize("zone", [UTC, None])
def test_the_maximum_of_a_timestamp_is_widened_because_writers_cut_it(zone: Any) -> None:
    kind = TimestampType() if zone else TimestampNTZType()
    low, high = (datetime(2020, 1, day, 0, 0, 0, 123000, tzinfo=zone) for day in (1, 2))
    assert keeps(kind, low, high, (high + timedelta(microseconds=999),))
    assert not keeps(kind, low, high, (high + timedelta(milliseconds=2),))


@pytest.mark.parametrize("zone", [UTC, None])
def test_the_first_and_the_last_moment_are_compared(zone: Any) -> None:
    kind = TimestampType() if zone else TimestampNTZType()
    low, high = datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)
    assert keeps(kind, low, low, (low,))
    assert not keeps(kind, low, low, (high,))
    assert keeps(kind, high, high, (high,))
    assert keeps(kind, low, high.replace(microsecond=999000), (high,))


def test_a_moment_without_its_zone_is_not_compared() -> None:
    low, high = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
    assert keeps(TimestampType(), low, high, (datetime(2030, 1, 1),))
    assert keeps(TimestampNTZType(), datetime(2020, 1, 1), datetime(2020, 1, 2), (datetime(2030, 1, 1, tzinfo=UTC),))


def test_a_cut_string_maximum_does_not_hide_longer_values() -> None:
    cut = "a" * 32
    assert keeps(StringType(), "a", cut, (cut + "zzz",))
    assert keeps(StringType(), "a", "b", ("bz",)), "where a writer cuts is its own choice"
    assert not keeps(StringType(), "a", cut, ("b",))
    assert not keeps(StringType(), "b" * 32, "c", ("b" * 31,))


def test_strings_compare_as_their_bytes() -> None:
    assert keeps(StringType(), "\ue000", "\U0001f600", ("\U0001f600",))
    assert not keeps(StringType(), "\ue000", "\uffff", ("\U0001f600",))


def test_floats_collations_and_padded_text_are_never_pruned() -> None:
    assert keeps(DoubleType(), 1.0, 2.0, (5.0,))
    assert keeps(StringType("UTF8_LCASE"), "a", "b", ("Z",))
    assert keeps(StringType(), "a", "b", ("z",), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(4)"})
    assert not keeps(StringType(), "a", "b", ("z",), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(4)"})


def test_decimals_of_many_digits_are_never_pruned() -> None:
    """delta-rs writes 0.5 of DECIMAL(38, 38) as 0.49999999999999994, and what is beyond a BIGINT as its end."""
    assert keeps(DecimalType(38, 38), Decimal("0.49999999999999994"), Decimal("0.49999999999999994"), (Decimal("0.5"),))
    assert keeps(DecimalType(16, 0), Decimal(1), Decimal(2), (Decimal(3),))
    assert not keeps(DecimalType(15, 0), Decimal(1), Decimal(2), (Decimal(3),))


@pytest.mark.parametrize("scale", range(0, 16, 3))
def test_statistics_of_shorter_decimals_are_exact(tmp_path: Path, scale: int) -> None:
    numbers = (-999999999999999, -123456789012345, 7, 100000000000001, 999999999999999)
    for value in (Decimal(number).scaleb(-scale) for number in numbers):
        folder = str(tmp_path / str(value))
        write_deltalake(folder, pa.table({"a": pa.array([value], pa.decimal128(15, scale))}))
        (file,) = open_snapshot(folder).files
        # one that is written with an exponent is not read
        assert (file.minimum.get("a", value), file.maximum.get("a", value)) == (value, value)


def test_values_of_another_type_are_not_compared() -> None:
    assert keeps(LongType(), 10, 20, ("30",))
    assert keeps(LongType(), 10, 20, (True,))
    assert keeps(LongType(), 10, 20, (30.0,))
    assert keeps(DecimalType(10, 2), Decimal(1), Decimal(2), (Decimal("NaN"),))
    assert keeps(DateType(), date(2020, 1, 1), date(2020, 1, 2), (datetime(2021, 1, 1),))


def test_unknown_columns_do_not_prune() -> None:
    file = DataFile("f", 1, 1, {}, {"c": 1}, {"c": 1}, {"c": 0})
    assert prune_files([file], StructType([StructField("c", LongType())]), [KeyFilter("other", (5,))])


def test_every_key_must_allow_a_file() -> None:
    schema = StructType([StructField("a", LongType()), StructField("b", LongType())])
    file = DataFile("f", 1, 9, {}, {"a": 1, "b": 1}, {"a": 9, "b": 9}, {"a": 0, "b": 0})
    assert prune_files([file], schema, [KeyFilter("A", (5,)), KeyFilter("b", (5,))])
    assert not prune_files([file], schema, [KeyFilter("A", (5,)), KeyFilter("b", (50,))])


def test_partition_values_prune_exactly() -> None:
    schema = StructType([StructField("p", StringType()), StructField("n", IntegerType()), StructField("d", DateType())])
    file = DataFile("f", 1, 1, {"p": "x", "n": "7", "d": "2020-01-01"})
    empty = DataFile("g", 1, 1, {"p": None, "n": None, "d": None})
    assert prune_files([file, empty], schema, [KeyFilter("p", ("x", "y"))]) == (file,)
    assert prune_files([file, empty], schema, [KeyFilter("p", ("y",))]) == ()
    assert prune_files([file, empty], schema, [KeyFilter("p", ("y",), has_null=True)]) == (empty,)
    assert prune_files([file, empty], schema, [KeyFilter("n", (7,))]) == (file,)
    assert prune_files([file, empty], schema, [KeyFilter("n", (8,))]) == ()
    assert prune_files([file, empty], schema, [KeyFilter("d", (date(2021, 1, 1),))]) == (file,), "not canonical"


def test_statistics_of_a_real_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for start in (0, 100, 200):
        ids = list(range(start, start + 10))
        write_deltalake(path, pa.table({"id": ids, "a.b": ids, "a": [{"b": 1000}] * 10}), mode="append")
    snapshot = open_snapshot(path)
    (file,) = prune(snapshot, [KeyFilter("id", (105,))])
    assert (file.minimum["id"], file.maximum["id"], file.nulls["id"]) == (100, 109, 0)
    assert prune(snapshot, [KeyFilter("id", (50,))]) == ()
    assert len(prune(snapshot, [KeyFilter("a.b", (50,))])) == 3, "its name may stand for a field of the struct"
    assert "a.b" not in file.minimum
    assert set(file.minimum) == {"id"}
    assert len(file.minimum) == 1


def test_times_of_the_hour_that_clocks_show_twice_are_told_apart() -> None:
    summer, winter = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    schema = StructType([StructField("c", TimestampType())])
    shown = pa.table({"c": pa.array([summer, winter], pa.timestamp("us", "Europe/Berlin"))})
    known = distinct_values(in_utc(shown, schema).column("c"), 10)
    assert known is not None
    for moment in (summer, winter):
        assert keeps(TimestampType(), moment, moment, known[0])
