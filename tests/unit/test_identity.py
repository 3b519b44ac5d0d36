"""Identities as text: simple types stay plain columns, others are encoded."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)
from pyspark.testing.objects import ExamplePointUDT

from freshlake.errors import Unsupported
from freshlake.storage.identity import identity, is_simple

SIMPLE: list[DataType] = [
    IntegerType(),
    LongType(),
    DecimalType(38, 9),
    StringType(),
    BinaryType(),
    DateType(),
    TimestampType(),
    TimestampNTZType(),
    ArrayType(StringType()),
    StructType([StructField("a", ArrayType(IntegerType()))]),
]
ENCODED: list[DataType] = [
    FloatType(),
    DoubleType(),
    StringType("UTF8_LCASE"),
    VariantType(),
    MapType(StringType(), IntegerType()),
    ArrayType(DoubleType()),
    StructType([StructField("a", ArrayType(MapType(StringType(), FloatType())))]),
]


def of(*kinds: DataType) -> StructType:
    return StructType([StructField(f"c{position}", kind) for position, kind in enumerate(kinds)])


@pytest.mark.parametrize("kind", SIMPLE, ids=lambda kind: kind.simpleString())
def test_a_simple_type_is_its_own_identity(kind: DataType) -> None:
    assert is_simple(kind)
    assert identity(of(kind)) == ("`c0`",)


@pytest.mark.parametrize("kind", ENCODED, ids=lambda kind: kind.simpleString())
def test_other_types_are_encoded(kind: DataType) -> None:
    assert not is_simple(kind)
    assert identity(of(kind)) != ("`c0`",)


def test_names_are_quoted() -> None:
    schema = StructType([StructField(name, IntegerType()) for name in ("a.b", "q`r", "é ü")])
    assert identity(schema) == ("`a.b`", "`q``r`", "`é ü`")


def test_a_column_of_nulls_tells_no_rows_apart() -> None:
    assert identity(of(NullType(), IntegerType())) == ("`c1`",)


def test_nested_lambdas_use_different_variables() -> None:
    (text,) = identity(of(ArrayType(ArrayType(DoubleType()))))
    assert "__fl_item0 -> transform(__fl_item0, __fl_item1 -> " in text


def test_a_user_defined_type_is_refused_with_advice() -> None:
    with pytest.raises(Unsupported) as raised:
        identity(of(ExamplePointUDT()))
    assert raised.value.hint
