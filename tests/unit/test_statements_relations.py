"""Relations are renamed where they are relations, and nowhere else; targets of writes are found in every form."""

from __future__ import annotations

import pytest

from freshlake.statements.relations import relations, renamed
from freshlake.statements.target import defines_view, dropped_schema, written, written_paths

NAMES = {
    ("x", "s"): ("view_of_s",),
    ("default", "s"): ("s",),
    ("shop", "public", "orders"): ("shop__public", "orders"),
    ("shop", "public", "t"): ("view_of_t",),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM x.s", "SELECT * FROM `view_of_s` AS `s`"),
        ("SELECT * FROM X.S t", "SELECT * FROM `view_of_s` t"),
        ("SELECT * FROM `x` . `s` AS t", "SELECT * FROM `view_of_s` AS t"),
        ("SELECT * FROM spark_catalog.x.s WHERE a > 1", "SELECT * FROM `view_of_s` AS `s` WHERE a > 1"),
        ("SELECT * FROM default.s", "SELECT * FROM `s`"),
        ("SELECT x.s.a, s.b FROM x.s", "SELECT `s`.a, s.b FROM `view_of_s` AS `s`"),
        ("SELECT x.s FROM x", "SELECT x.s FROM x"),
        ("SELECT x.s.*, t.* FROM x.s, t", "SELECT `s`.*, t.* FROM `view_of_s` AS `s`, t"),
        ("SELECT shop.public.t.* FROM shop.public.t", "SELECT `t`.* FROM `view_of_t` AS `t`"),
        ("SELECT a FROM t, x.s, u", "SELECT a FROM t, `view_of_s` AS `s`, u"),
        ("SELECT a, x.s FROM t", "SELECT a, x.s FROM t"),
        ("SELECT a FROM t WHERE f(b, x.s)", "SELECT a FROM t WHERE f(b, x.s)"),
        ("SELECT a FROM t GROUP BY a, x.s", "SELECT a FROM t GROUP BY a, x.s"),
        ("SELECT 1 FROM t LEFT JOIN x.s ON t.a = s.a", "SELECT 1 FROM t LEFT JOIN `view_of_s` AS `s` ON t.a = s.a"),
        ("SELECT 1 FROM (x.s JOIN t)", "SELECT 1 FROM (`view_of_s` AS `s` JOIN t)"),
        ("SELECT (SELECT 1 FROM x.s)", "SELECT (SELECT 1 FROM `view_of_s` AS `s`)"),
        ("SELECT extract(day FROM x.s) FROM t", "SELECT extract(day FROM x.s) FROM t"),
        ("SELECT a IS DISTINCT FROM x.s FROM t", "SELECT a IS DISTINCT FROM x.s FROM t"),
        ("INSERT INTO t TABLE x.s", "INSERT INTO t TABLE `view_of_s` AS `s`"),
        ("SELECT 'x.s' FROM t -- x.s", "SELECT 'x.s' FROM t -- x.s"),
        ("SELECT * FROM y.s", "SELECT * FROM y.s"),
        ("SELECT o.a FROM shop.public.orders o", "SELECT o.a FROM `shop__public`.`orders` o"),
        ("SELECT a FROM Shop.`Public`.orders", "SELECT a FROM `shop__public`.`orders`"),
        (
            "SELECT shop.public.orders.a.b FROM shop.public.orders",
            "SELECT `orders`.a.b FROM `shop__public`.`orders`",
        ),
        ("SELECT shop.public.orders FROM u AS shop", "SELECT shop.public.orders FROM u AS shop"),
        ("SELECT t.a FROM shop.public.t", "SELECT t.a FROM `view_of_t` AS `t`"),
        ("SELECT a FROM mall.public.orders", "SELECT a FROM mall.public.orders"),
        ("SELECT a FROM shop.public.orders.x", "SELECT a FROM shop.public.orders.x"),
    ],
)
def test_a_relation_is_renamed_where_it_is_one(text: str, expected: str) -> None:
    assert renamed(text, NAMES) == expected


def test_the_relations_of_a_text_are_found_without_its_columns_and_strings() -> None:
    text = "WITH c AS (SELECT x.y FROM Shop.public.Orders) SELECT 'a.b' FROM c, spark_catalog.d.e JOIN `f` ON c.g = f.h"
    assert relations(text) == {("shop", "public", "orders"), ("c",), ("d", "e"), ("f",)}


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("OPTIMIZE a.b ZORDER BY (c)", (("a", "b"),)),
        ("VACUUM t RETAIN 0 HOURS", (("t",),)),
        ("RESTORE TABLE t TO VERSION AS OF 1", (("t",),)),
        ("REORG TABLE t APPLY (PURGE)", (("t",),)),
        ("COPY INTO t FROM 'x'", (("t",),)),
        ("WITH t AS (SELECT 1) SELECT * FROM t", ()),
        ("SELECT update FROM t", ()),
    ],
)
def test_what_a_statement_writes(text: str, targets: tuple[tuple[str, ...], ...]) -> None:
    assert written(text) == targets


def test_paths_are_targets_only_where_they_name_a_place() -> None:
    assert written_paths("CREATE TABLE t USING delta LOCATION '/a/b'") == ("/a/b",)
    assert written_paths("INSERT OVERWRITE DIRECTORY '/a' SELECT 1") == ("/a",)
    assert written_paths("VACUUM '/a'") == ("/a",)
    assert written_paths("INSERT INTO t VALUES ('/a/b')") == ()


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("DROP SCHEMA a CASCADE", "a"),
        ("drop database if exists spark_catalog.A", "a"),
        ("DROP NAMESPACE `a`", "a"),
        ("DROP TABLE a", None),
        ("SELECT 1", None),
    ],
)
def test_which_schema_is_dropped(text: str, schema: str | None) -> None:
    assert dropped_schema(text) == schema


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CREATE VIEW v AS SELECT 1", "PERMANENT"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "PERMANENT"),
        ("ALTER VIEW v AS SELECT 1", "PERMANENT"),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT 1", "TEMPORARY"),
        ("CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1", "TEMPORARY"),
        ("CREATE TABLE v AS SELECT 1", None),
        ("SELECT view FROM t", None),
    ],
)
def test_which_view_is_made(text: str, kind: str | None) -> None:
    assert defines_view(text) == kind
