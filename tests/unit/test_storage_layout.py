"""Names and types on their way into the lake and back."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    CharType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimeType,
)

from freshlake.errors import InvalidName, Unsupported
from freshlake.storage.layout import (
    log_schema,
    logical_schema,
    names_differ,
    nested_names_differ,
    statistics_properties,
    stored_schema,
)
from freshlake.storage.relation import arrow_schema
from freshlake.storage.table import ChangeLogged


def of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_ordinary_columns_keep_their_names() -> None:
    schema = StructType([StructField(name, IntegerType()) for name in ("a", "a.b", "q`r", "größe", "50%")])
    stored = stored_schema(schema)
    assert stored.names == schema.names
    assert not names_differ(stored)


def test_names_that_delta_refuses_are_kept_beside_a_name_that_it_takes() -> None:
    inner = StructType([StructField("x y", IntegerType())])
    schema = StructType(
        [
            StructField("count(1)", LongType()),
            StructField("count%281%29", LongType()),
            StructField("m", MapType(StringType(), ArrayType(inner))),
        ]
    )
    stored = stored_schema(schema)
    assert stored.names == ["count%281%29_", "count%281%29", "m"]
    assert logical_schema(stored) == schema
    assert names_differ(stored)
    assert nested_names_differ(stored)
    assert not nested_names_differ(stored_schema(StructType(schema.fields[:2])))


def test_only_comments_are_kept_of_foreign_metadata() -> None:
    metadata = {"comment": "how many", "delta.generationExpression": "a + 1"}
    schema = StructType([StructField("n", LongType(), False, metadata), StructField("c", CharType(3))])
    stored = stored_schema(schema)
    assert stored == StructType(
        [StructField("n", LongType(), True, {"comment": "how many"}), StructField("c", StringType())]
    )


def test_the_log_has_a_weight_and_a_version() -> None:
    assert log_schema(of(a=IntegerType())).names == ["a", "__fl_weight", "__fl_version"]


@pytest.mark.parametrize(
    "kind",
    [NullType(), StringType("UTF8_LCASE"), DayTimeIntervalType(), CalendarIntervalType(), TimeType()],
    ids=lambda kind: kind.simpleString(),
)
def test_types_that_delta_cannot_store_are_refused_with_advice(kind: DataType) -> None:
    for schema in (of(a=kind), of(a=ArrayType(of(b=kind)))):
        with pytest.raises(Unsupported, match="column a") as raised:
            stored_schema(schema)
        assert raised.value.hint


@pytest.mark.parametrize("names", [("a", "A"), ("a", "a"), ("__fl_weight",), ("__FL_version",)])
def test_names_that_clash_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidName):
        stored_schema(StructType([StructField(name, IntegerType()) for name in names]))


def test_a_table_needs_columns() -> None:
    with pytest.raises(Unsupported):
        stored_schema(StructType())


def test_wide_decimals_are_left_out_of_the_statistics(tmp_path: Path) -> None:
    """Other engines believe them, and delta-rs writes wrong ones."""
    assert statistics_properties(of(a=IntegerType(), b=DecimalType(15, 2))) == {}
    assert statistics_properties(of(b=DecimalType(38, 0))) == {"delta.dataSkippingNumIndexedCols": "0"}
    schema = of(**{"a b": IntegerType(), "s": of(q=DecimalType(38, 38)), "w": DecimalType(38, 38), "t": StringType()})
    stored = stored_schema(schema)
    ChangeLogged.create(str(tmp_path), schema)
    values = dict(zip(stored.names, (1, {"q": Decimal("0.5")}, Decimal("0.5"), "x"), strict=True))
    write_deltalake(
        DeltaTable(str(tmp_path / "base")), pa.Table.from_pylist([values], arrow_schema(stored)), mode="append"
    )
    commit = (tmp_path / "base" / "_delta_log" / "00000000000000000001.json").read_text(encoding="utf-8")
    (added,) = (json.loads(line)["add"] for line in commit.splitlines() if '"add"' in line)
    assert json.loads(added["stats"])["maxValues"] == {stored.names[0]: 1, "t": "x"}
