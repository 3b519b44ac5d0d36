"""A stream table is written by its refreshes only: every other way in is refused, and says what to do instead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, orders, refused, rows


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        lake.sql("CREATE SCHEMA sales")
        query = "SELECT id, region, amount FROM default.orders"
        lake.create_stream_table("copy", query)
        lake.create_stream_table("sales.copy", query)
        yield lake


WRITES = [
    "INSERT INTO copy VALUES (1, 'x', 1)",
    "INSERT INTO TABLE copy SELECT * FROM orders",
    "INSERT OVERWRITE copy SELECT * FROM orders",
    "INSERT INTO default.copy VALUES (1, 'x', 1)",
    "INSERT INTO spark_catalog.default.`copy` VALUES (1, 'x', 1)",
    "INSERT INTO sales.copy VALUES (1, 'x', 1)",
    "insert into COPY values (1, 'x', 1)",
    "/* a note */ INSERT INTO copy VALUES (1, 'x', 1)",
    "WITH o AS (SELECT * FROM orders) INSERT INTO copy SELECT * FROM o",
    "FROM orders INSERT INTO copy SELECT id, region, amount",
    "UPDATE copy SET amount = 0",
    "UPDATE sales.copy AS c SET amount = 0 WHERE c.id = 1",
    "DELETE FROM copy",
    "DELETE FROM IDENTIFIER('copy')",
    "DROP VIEW IDENTIFIER('default.copy')",
    "DELETE FROM sales.copy WHERE id = 1",
    "MERGE INTO copy USING orders ON copy.id = orders.id WHEN MATCHED THEN DELETE",
    "MERGE WITH SCHEMA EVOLUTION INTO sales.copy c USING orders o ON c.id = o.id WHEN NOT MATCHED THEN INSERT *",
    "TRUNCATE TABLE copy",
    "ALTER TABLE copy ADD COLUMN x INT",
    "ALTER TABLE sales.copy RENAME TO sales.other",
    "ALTER TABLE copy SET TBLPROPERTIES ('a' = 'b')",
    "ALTER VIEW copy AS SELECT 1 AS id",
    "DROP TABLE copy",
    "DROP TABLE IF EXISTS sales.copy",
    "DROP VIEW copy",
    "OPTIMIZE copy",
    "VACUUM copy RETAIN 0 HOURS",
    "RESTORE TABLE copy TO VERSION AS OF 0",
]


@pytest.mark.parametrize("statement", WRITES)
def test_a_statement_that_writes_a_stream_table(fl: Freshlake, statement: str) -> None:
    with refused(fl, e.StreamTableProtected, "copy"):
        fl.sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE copy (id INT) USING delta",
        "CREATE TABLE IF NOT EXISTS sales.copy USING delta AS SELECT 1 AS id",
        "CREATE OR REPLACE TABLE copy USING delta AS SELECT 1 AS id",
        "REPLACE TABLE copy USING delta AS SELECT 1 AS id",
        "CREATE VIEW copy AS SELECT 1 AS id",
        "CREATE OR REPLACE VIEW sales.copy AS SELECT 1 AS id",
        "CREATE OR REPLACE TEMPORARY VIEW copy AS SELECT 1 AS id",
    ],
)
def test_a_statement_that_takes_its_name(fl: Freshlake, statement: str) -> None:
    with refused(fl, e.AlreadyExists, "copy"):
        fl.sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO delta.`{base}` VALUES (1, 'x', 1)",
        "DELETE FROM delta.`{base}`",
        "UPDATE delta.`{base}` SET amount = 0",
        "MERGE INTO delta.`{base}` b USING orders o ON b.id = o.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE delta.`{base}`",
        "ALTER TABLE delta.`{base}` ADD COLUMN x INT",
        "OPTIMIZE delta.`{base}`",
        "VACUUM delta.`{base}`",
        "VACUUM '{base}'",
        "RESTORE TABLE delta.`{base}` TO VERSION AS OF 0",
        "CREATE TABLE backdoor USING delta LOCATION '{base}'",
        "CREATE TABLE backdoor USING delta OPTIONS (path '{base}')",
        "INSERT OVERWRITE DIRECTORY '{base}' USING parquet SELECT 1",
    ],
)
def test_its_storage_has_no_back_door(fl: Freshlake, statement: str) -> None:
    table = fl._engine.catalog.get("default.copy")
    base = f"{fl._engine.layout.root(table, table.generation).path}/base"
    with refused(fl, e.StreamTableProtected, "storage"):
        fl.sql(statement.format(base=base))


def test_each_refusal_advises_its_own_way(fl: Freshlake) -> None:
    advice = {
        "DROP TABLE copy": "DROP STREAM TABLE",
        "ALTER TABLE copy ADD COLUMN x INT": "ALTER STREAM TABLE",
        "OPTIMIZE copy": "FOLD STREAM TABLE",
        "VACUUM copy": "fl.vacuum",
        "DELETE FROM copy": "view",
        "TRUNCATE TABLE copy": "recreate",
    }
    for statement, words in advice.items():
        with refused(fl, e.StreamTableProtected, words):
            fl.sql(statement)


def test_a_schema_with_stream_tables_is_not_dropped(fl: Freshlake) -> None:
    for statement in ("DROP SCHEMA sales CASCADE", "DROP DATABASE IF EXISTS sales CASCADE"):
        with refused(fl, e.StreamTableProtected, "sales.copy", "DROP STREAM TABLE"):
            fl.sql(statement)


def test_reading_it_while_writing_another_table_is_fine(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE mine (id BIGINT, region STRING, amount INT) USING delta")
    fl.sql("INSERT INTO mine SELECT * FROM copy")
    fl.sql("MERGE INTO mine USING sales.copy c ON mine.id = c.id AND c.amount = 7 WHEN MATCHED THEN DELETE")
    fl.sql("MERGE INTO mine USING copy ON mine.id = copy.id AND copy.id = 1 WHEN MATCHED THEN UPDATE SET amount = 0")
    assert rows(fl, "mine") == rows(fl, "SELECT id, region, if(id = 1, 0, amount) FROM copy WHERE id <> 4")
    fl.sql("DROP TABLE mine")


def test_a_word_that_only_looks_like_it_is_fine(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE words (copy STRING) USING delta")
    fl.sql("INSERT INTO words VALUES ('DROP TABLE copy'), ('see _freshlake/streams')")
    fl.sql("UPDATE words SET copy = 'INSERT INTO copy' WHERE copy LIKE 'DROP%'")
    assert rows(fl, "SELECT count(copy) FROM words") == rows(fl, "SELECT 2L")
    fl.sql("DROP TABLE words")


def test_after_all_this_it_equals_its_query(fl: Freshlake) -> None:
    assert fl.verify("copy").equal
    assert fl.verify("sales.copy").equal
