"""What became of each column between two versions of a table."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from freshlake.sources.delta.schema import compare, same_files

ID, PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"


def column(name: str, kind: DataType, **metadata: Any) -> StructField:
    return StructField(name, kind, True, metadata)


def mapped(name: str, number: int, kind: DataType, physical: str = "") -> StructField:
    return StructField(name, kind, True, {ID: number, PHYSICAL: physical or f"col-{number}"})


def table(*fields: StructField) -> StructType:
    return StructType(list(fields))


def test_comments_nullability_and_order_are_no_change() -> None:
    old = table(column("a", IntegerType()), column("b", StringType()))
    new = table(column("b", StringType(), comment="text"), StructField("a", IntegerType(), False))
    assert not compare(old, new)


def test_added_dropped_and_retyped() -> None:
    old = table(column("a", IntegerType()), column("b", StringType()))
    new = table(column("a", LongType()), column("c", StringType()))
    change = compare(old, new)
    assert change.added == ("c",)
    assert change.changed == ("a", "b")
    assert change.reasons == ("column a changed from int to bigint", "column b was dropped", "column c was added")


def test_a_change_inside_a_struct_changes_the_column() -> None:
    old = table(column("a", table(column("x", IntegerType()))))
    new = table(column("a", table(column("x", IntegerType()), column("y", IntegerType()))))
    assert compare(old, new).changed == ("a",)


def test_a_padded_column_is_another_type() -> None:
    old = table(column("a", StringType(), __CHAR_VARCHAR_TYPE_STRING="char(3)"))
    new = table(column("a", StringType(), __CHAR_VARCHAR_TYPE_STRING="char(5)"))
    assert compare(old, new).reasons == ("column a changed from char(3) to char(5)",)


def test_a_renamed_column_is_known_by_its_id() -> None:
    change = compare(table(mapped("a", 1, IntegerType())), table(mapped("b", 1, IntegerType())))
    assert (change.added, change.changed) == (("b",), ("a",))
    assert change.reasons == ("column a was renamed to b",)


def test_a_dropped_column_recreated_under_its_name_is_replaced() -> None:
    change = compare(table(mapped("a", 1, IntegerType())), table(mapped("a", 2, IntegerType())))
    assert (change.added, change.changed) == ((), ("a",))
    assert change.reasons == ("column a was replaced",)


def test_two_columns_that_swap_names_have_changed() -> None:
    old = table(mapped("a", 1, IntegerType()), mapped("b", 2, IntegerType()))
    new = table(mapped("b", 1, IntegerType()), mapped("a", 2, IntegerType()))
    assert compare(old, new).changed == ("a", "b")


def test_starting_to_map_columns_is_no_change() -> None:
    old, new = table(column("a", IntegerType())), table(mapped("a", 1, IntegerType(), physical="a"))
    assert not compare(old, new)
    assert same_files([old, new], ["a"])


def test_ceasing_to_map_columns_is_seen_in_the_files() -> None:
    old, new = table(mapped("a", 1, IntegerType())), table(column("a", IntegerType()))
    assert not compare(old, new)
    assert not same_files([old, new], ["A"])
    assert same_files([old, new], ["other"])
