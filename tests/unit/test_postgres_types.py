"""Types of PostgreSQL in the lake, and the decoders of their text forms, without a server."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from freshlake.errors import ValueNotRepresentable
from freshlake.sources.postgres.arrays import MalformedArray, elements
from freshlake.sources.postgres.decode import decode
from freshlake.sources.postgres.events import WEIGHT
from freshlake.sources.postgres.types import TYPES, LakeType, Refusal, SourceType, buffer_type, lake_type, table_lines
from freshlake.storage import relation

INTEGER = SourceType(23, "pg_catalog", "int4", "b")
NUMERIC = SourceType(1700, "pg_catalog", "numeric", "b")
ENUM = SourceType(20_000, "shop", "mood", "e", labels=("sad", "happy"))
OWN = SourceType(20_001, "public", "hstore", "b")
ROW = SourceType(20_002, "shop", "orders", "c")
SPARK = {
    "BOOLEAN": spark.BooleanType(),
    "SMALLINT": spark.ShortType(),
    "INT": spark.IntegerType(),
    "BIGINT": spark.LongType(),
    "FLOAT": spark.FloatType(),
    "DOUBLE": spark.DoubleType(),
    "STRING": spark.StringType(),
    "BINARY": spark.BinaryType(),
    "DATE": spark.DateType(),
    "TIMESTAMP": spark.TimestampType(),
    "TIMESTAMP_NTZ": spark.TimestampNTZType(),
    "DECIMAL(20,0)": spark.DecimalType(20, 0),
    "DECIMAL(10,2)": spark.DecimalType(10, 2),
    "ARRAY<INT>": spark.ArrayType(spark.IntegerType()),
}


def array_of(element: SourceType) -> SourceType:
    return SourceType(element.oid + 1_000, element.schema, f"_{element.name}", "b", element=element)


def domain(base: SourceType) -> SourceType:
    return SourceType(30_000, "shop", "d", "d", base=base)


def numeric(precision: int, scale: int) -> SourceType:
    return SourceType(1700, "pg_catalog", "numeric", "b", modifier=(precision << 16 | scale & 0x7FF) + 4)


def taken(source: SourceType, money_digits: int = 2) -> LakeType:
    found = lake_type(source, money_digits=money_digits)
    assert isinstance(found, LakeType)
    return found


@pytest.mark.parametrize(
    "lake",
    [*{row.lake.spark: row.lake for row in TYPES}.values(), taken(numeric(10, 2)), taken(array_of(INTEGER))],
    ids=lambda t: t.spark,
)
def test_the_arrow_type_is_the_one_that_holds_the_spark_type(lake: LakeType) -> None:
    schema = spark.StructType([spark.StructField("c", SPARK[lake.spark])])
    assert relation.arrow_schema(schema).field("c").type == lake.arrow


def test_the_weight_is_called_as_in_storage() -> None:
    assert WEIGHT == relation.WEIGHT


@pytest.mark.parametrize(
    ("precision", "scale", "expected"),
    [
        (10, 2, "DECIMAL(10,2)"),
        (38, 0, "DECIMAL(38,0)"),
        (38, 38, "DECIMAL(38,38)"),
        (2, -3, "DECIMAL(5,0)"),
        (3, 5, "DECIMAL(5,5)"),
    ],
)
def test_a_numeric_keeps_its_precision_and_scale(precision: int, scale: int, expected: str) -> None:
    assert taken(numeric(precision, scale)).spark == expected


@pytest.mark.parametrize(("precision", "scale"), [(39, 0), (1000, 1000), (38, -1)])
def test_a_numeric_with_more_digits_than_decimal_is_refused(precision: int, scale: int) -> None:
    assert isinstance(lake_type(numeric(precision, scale)), Refusal)


def test_a_numeric_without_precision_is_the_widest_decimal() -> None:
    assert taken(NUMERIC).spark == "DECIMAL(38,18)"


def test_a_domain_is_its_base_type_with_the_modifier_that_the_domain_gives() -> None:
    assert taken(domain(domain(numeric(5, 1)))).spark == "DECIMAL(5,1)"
    assert buffer_type(domain(numeric(5, 1))) == 'pg_catalog."numeric"'


def test_money_is_taken_where_it_has_two_digits() -> None:
    money = SourceType(790, "pg_catalog", "money", "b")
    assert taken(money).spark == "DECIMAL(19,2)"
    assert isinstance(lake_type(money, money_digits=0), Refusal)


@pytest.mark.parametrize(
    "source",
    [OWN, ROW, array_of(OWN), array_of(ROW), domain(OWN), array_of(domain(array_of(INTEGER)))],
    ids=lambda s: s.name,
)
def test_what_cannot_be_exact_is_refused_with_a_rewrite(source: SourceType) -> None:
    found = lake_type(source)
    assert isinstance(found, Refusal)
    assert found.reason
    assert "text" in found.rewrite


@pytest.mark.parametrize("source", [ENUM, array_of(ENUM), OWN, array_of(domain(INTEGER)), ROW], ids=lambda s: s.name)
def test_a_buffer_does_not_depend_on_types_of_users(source: SourceType) -> None:
    assert buffer_type(source) == "pg_catalog.text"


def test_a_buffer_holds_values_of_the_servers_own_types_as_they_are() -> None:
    assert buffer_type(array_of(INTEGER)) == 'pg_catalog."int4"[]'


def test_labels_of_an_enum_are_found_below_arrays_and_domains() -> None:
    assert domain(array_of(domain(ENUM))).all_labels == {"sad", "happy"}
    assert array_of(INTEGER).all_labels == frozenset()


def test_every_type_has_one_line() -> None:
    names = [name for row in TYPES for name in row.names]
    assert sorted(names) == sorted(set(names))
    assert len(list(table_lines())) == len(set(table_lines()))


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("{}", []),
        ("{a}", ["a"]),
        ("{NULL,null}", [None, "null"]),
        ('{"NULL",""}', ["NULL", ""]),
        ('{"a,b",c}', ["a,b", "c"]),
        ('{"\\"\\\\",x}', ['"\\', "x"]),
        ('{a,"{b}"}', ["a", "{b}"]),
        ('{x,"é"}', ["x", "é"]),
    ],
)
def test_elements_of_an_array(literal: str, expected: list[str | None]) -> None:
    assert elements(literal) == expected


@pytest.mark.parametrize(
    "literal", ["", "{", "a", "{{1}}", '{{"a"}}', "[0:1]={1,2}", '{"a}', '{"a"b}', '{a"b"}', '{"a",{b}}']
)
def test_what_is_not_a_plain_list_is_refused(literal: str) -> None:
    with pytest.raises(MalformedArray):
        elements(literal)


@given(st.lists(st.none() | st.text()))
def test_elements_are_read_back_as_they_were_written(values: list[str | None]) -> None:
    def written(value: str | None) -> str:
        return "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert elements("{" + ",".join(map(written, values)) + "}") == values


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row.written)
def test_nothing_and_null_are_decoded_for_every_type(row: object) -> None:
    for lake in (row.lake, LakeType("ARRAY", pa.list_(row.lake.arrow), "array", row.lake)):  # type: ignore[attr-defined, arg-type]
        assert decode(texts(), lake, "c").to_pylist() == []
        decoded = decode(texts(None, None), lake, "c")
        assert decoded.to_pylist() == [None, None]
        assert decoded.type == lake.arrow


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bool", "true"),
        ("int2", "32768"),
        ("int4", "1.0"),
        ("bytea", "abc"),
        ("bytea", "\\xa"),
        ("timestamptz", "2024-01-01 00:00:00+01"),
    ],
)
def test_a_text_that_is_not_of_the_form_is_refused_with_column_and_value(name: str, text: str) -> None:
    lake = next(row.lake for row in TYPES if name in row.names)
    with pytest.raises(ValueNotRepresentable, match=r"public\.t\.c") as refused:
        decode(texts(None, text), lake, "public.t.c")
    assert text in str(refused.value.detail)


def test_a_long_value_is_shown_by_its_beginning() -> None:
    with pytest.raises(ValueNotRepresentable) as refused:
        decode(texts("9" * 1000), taken(INTEGER), "c")
    assert len(str(refused.value.detail)) < 120
