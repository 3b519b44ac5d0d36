"""Names of tables."""

from __future__ import annotations

import pytest

from freshlake.catalog import TableName
from freshlake.errors import InvalidName


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("revenue", "default", "revenue"),
        ("Sales.Revenue", "sales", "revenue"),
        ("`sales`.`revenue`", "sales", "revenue"),
        (" sales . revenue ", "sales", "revenue"),
        ("spark_catalog.sales.revenue", "sales", "revenue"),
        ("Shop.public.`Orders`", "shop.public", "orders"),
        ("_x1", "default", "_x1"),
        ("a" * 128, "default", "a" * 128),
    ],
)
def test_names_are_read_without_regard_to_case(text: str, schema: str, name: str) -> None:
    assert TableName.parse(text) == TableName(schema, name)


def test_a_name_without_schema_belongs_to_the_current_one() -> None:
    assert TableName.parse("t", default_schema="Sales") == TableName("sales", "t")
    assert TableName.parse("other.t", default_schema="sales") == TableName("other", "t")


def test_people_see_no_default_schema() -> None:
    assert TableName.parse("t").short == "t"
    assert TableName.parse("sales.t").short == "sales.t"
    assert str(TableName.parse("t")) == "default.t"


def test_a_name_of_three_parts_is_of_a_source_database_and_has_another_schema_in_spark() -> None:
    captured, plain = TableName.parse("shop.public.orders"), TableName.parse("sales.t")
    assert TableName.parse(str(captured)) == captured
    assert (captured.database, captured.spark_schema, captured.short) == ("shop", "shop__public", "shop.public.orders")
    assert (plain.database, plain.spark_schema) == (None, "sales")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a.",
        ".a",
        "a.b.c.d",
        "a..b",
        "1a",
        "a-b",
        "a b",
        "ü",
        "a;drop",
        "`a.b`",
        "``",
        "__fl_x",
        "a" * 129,
        "a\nb",
    ],
)
def test_other_names_are_refused_and_quoted(text: str) -> None:
    with pytest.raises(InvalidName) as caught:
        TableName.parse(text)
    assert caught.value.detail
