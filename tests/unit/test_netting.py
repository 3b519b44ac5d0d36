"""Arithmetic on weighted Arrow tables."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.types import DecimalType, DoubleType, IntegerType, StringType, StructField, StructType

from freshlake.errors import InvariantViolated
from freshlake.storage.netting import (
    among,
    copies,
    key_filters,
    negative,
    net,
    net_lists,
    nettable,
    positive,
    totals,
    updated,
)
from freshlake.storage.relation import WEIGHT, exactly
from freshlake.storage.scan import KeyFilter

OTHER_NAN = struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0]


def entries(values: list[object], weights: list[int], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"x": pa.array(values, kind), WEIGHT: pa.array(weights, pa.int64())})


def test_equal_rows_are_summed_and_zero_is_gone() -> None:
    result = net(entries([1, 1, None, None, 2, 2], [3, -1, 1, 1, 1, -1]))
    assert sorted(result.to_pylist(), key=str) == [{"x": 1, WEIGHT: 2}, {"x": None, WEIGHT: 2}]


def test_lists_are_summed_too_and_other_nested_values_are_not() -> None:
    values = [[1.0, None], [1.0, None], [], None, [0.0], [-0.0], [float("nan")], [OTHER_NAN], ["x"][:0]]
    result = net_lists(entries(values, [1, 1, 2, 1, 1, 1, 1, 1, -2], pa.list_(pa.float64())))
    assert result is not None
    assert sorted((str(row["x"]), row[WEIGHT]) for row in result.to_pylist()) == [
        *(("None", 1), ("[-0.0]", 1), ("[0.0]", 1), ("[1.0, None]", 2), ("[nan]", 2)),
    ]
    assert net_lists(entries([1, 1], [1, -1])).num_rows == 0  # type: ignore[union-attr]
    assert net_lists(entries([[[1]]], [1], pa.list_(pa.list_(pa.int64())))) is None


def test_zeros_differ_by_sign_and_all_nans_are_one() -> None:
    result = net(entries([0.0, -0.0, float("nan"), OTHER_NAN, None], [1, -1, 1, 1, 1], pa.float64()))
    assert sorted((str(row["x"]), row[WEIGHT]) for row in result.to_pylist()) == [
        ("-0.0", -1),
        ("0.0", 1),
        ("None", 1),
        ("nan", 2),
    ]


@pytest.mark.parametrize(
    "value", [b"", "", True, date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), Decimal("1.50")], ids=repr
)
def test_every_atomic_type_is_netted_and_null_is_not_empty(value: object) -> None:
    result = net(entries([value, None, value, None], [1, 1, 1, -1]))
    assert result.to_pylist() == [{"x": value, WEIGHT: 2}]


def test_a_column_may_have_any_name() -> None:
    table = pa.table({f"{WEIGHT}_sum": [1, 1], "0": [2, 2], WEIGHT: [1, 1]})
    assert net(table).to_pylist() == [{f"{WEIGHT}_sum": 1, "0": 2, WEIGHT: 2}]


def test_nested_values_are_left_to_spark() -> None:
    assert not nettable(entries([[1]], [1]))
    assert nettable(entries([1], [1]))


def test_copies_and_totals() -> None:
    table = entries(["a", "b", "c"], [2, -3, 1])
    assert copies(positive(table)).to_pylist() == [{"x": "a"}, {"x": "a"}, {"x": "c"}]
    assert negative(table).num_rows == 1
    assert totals(table) == (3, 3)
    assert totals(table.slice(0, 0)) == (0, 0)
    with pytest.raises(InvariantViolated):
        copies(table)


SCHEMA = StructType(
    [StructField("i", IntegerType()), StructField("d", DecimalType(5, 2)), StructField("f", DoubleType())]
)
TABLE = pa.table(
    {
        "i": pa.array([1, 2, None], pa.int32()),
        "d": pa.array([Decimal("1.00"), Decimal("2.50"), None], pa.decimal128(5, 2)),
        "f": [1.0, 2.0, None],
        WEIGHT: [1, 1, 1],
    }
)


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (KeyFilter("i", (1, 9)), [1]),
        (KeyFilter("i", (2**40,)), []),
        (KeyFilter("i", (), has_null=True), [None]),
        (KeyFilter("i", (2, None)), [2, None]),
        (KeyFilter("d", (Decimal("2.5"), Decimal("1.001"))), [2]),
        (KeyFilter("f", (1.0,)), [1, 2, None]),
        (KeyFilter("i", ("x",)), [1, 2, None]),
    ],
)
def test_keys_keep_their_rows_and_are_ignored_where_they_cannot_be_compared(
    key: KeyFilter, found: list[int | None]
) -> None:
    assert among(TABLE, SCHEMA, [key]).column("i").to_pylist() == found


def test_removed_rows_say_what_a_file_must_hold() -> None:
    schema = StructType([*SCHEMA.fields, StructField("s", StringType())])
    table = TABLE.append_column("s", pa.array(["a", "a", "a"]))
    filters = {key.column: key for key in key_filters(table, schema)}
    assert set(filters) == {"i", "d", "s"}
    assert (set(filters["i"].values), filters["i"].has_null) == ({1, 2}, True)
    assert (filters["s"].values, filters["s"].has_null) == (("a",), False)


def test_rows_are_updated_that_go_and_come_under_one_key() -> None:
    keys = [1, 1, None, None, 2, 2, 3, float("nan"), OTHER_NAN]
    table = entries(keys, [-1, 1, 2, -1, 1, 1, -1, 1, -1], pa.float64()).append_column("y", pa.array(range(9)))
    assert updated(table, ["x"]) == 3
    assert updated(table, ["x", "y"]) == 0
    assert updated(table, []) == 1
    assert updated(table.slice(0, 0), ["x"]) == updated(table.slice(0, 0), []) == 0
    assert updated(table, None) is None
    assert updated(None, ["x"]) is None


def test_rows_without_columns_are_refused_and_not_lost() -> None:
    schema = StructType([])
    assert exactly(pa.table({}), schema).num_rows == 0
    with pytest.raises(ValueError, match="without columns"):
        exactly(entries([1, 2], [1, 1]).select([]), schema)
