"""`block_source_ddl`: what would change the columns of a table that is read is refused, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.errors import PrivilegeMissing, SourceDdlBlocked
from freshlake.lake import Freshlake
from freshlake.sources.postgres.blocking import ALLOWED, block, unblock
from freshlake.sources.postgres.connection import connect, transaction
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.removing import remove
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import Captured
from tests.integration.capture_database import Database
from tests.integration.lakes import orders

PROJECT = Names("p1")
BLOCKED = (
    "ALTER TABLE t ADD COLUMN c int",
    "ALTER TABLE t DROP COLUMN b",
    "ALTER TABLE t RENAME COLUMN b TO c",
    "ALTER TABLE t ALTER COLUMN a TYPE bigint",
    "ALTER TABLE t RENAME TO u",
    "ALTER TABLE t SET SCHEMA side",
    "DROP TABLE t",
    "DROP TABLE other, t",
    "DROP SCHEMA public CASCADE",
)
ALLOWED_DDL = (
    "ALTER TABLE t ALTER COLUMN b SET DEFAULT 'x'",
    "ALTER TABLE t ALTER COLUMN b SET STATISTICS 500",
    "ALTER TABLE t REPLICA IDENTITY FULL",
    "ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)",
    "CREATE INDEX ON t (b)",
    "ALTER TABLE other ADD COLUMN c int",
    "DROP TABLE other",
)


def guarded(database: Database, *names: str) -> list[Captured]:
    tables = [database.captured(name) for name in names]
    with connect(database.reference) as connection, transaction(connection) as cursor:
        block(cursor, look(cursor), PROJECT, tables)
    return tables


def triggers(database: Database) -> int:
    return int(database.one("SELECT count(*) FROM pg_event_trigger WHERE evtname ~ '^freshlake_ddl_p1_'"))


@pytest.fixture
def shop(database: Database) -> Iterator[Database]:
    database.run("CREATE SCHEMA side; CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE other (a int)")
    database.run("INSERT INTO t VALUES (1, 'x')")
    yield database
    with connect(database.reference) as connection, transaction(connection) as cursor:
        unblock(cursor, PROJECT)


def test_columns_of_a_guarded_table_cannot_be_changed(shop: Database) -> None:
    guarded(shop, "public.t")
    for statement in BLOCKED:
        with pytest.raises(psycopg.errors.ObjectInUse, match=r"table public\.t is read by Freshlake") as refused:
            shop.run(statement)
        assert ALLOWED in str(refused.value.diag.message_hint)
    assert shop.one("SELECT b FROM t") == "x", "it is as it was"
    for statement in ALLOWED_DDL:
        shop.run(statement)


def test_who_has_to_alter_it_says_so_in_a_session(shop: Database) -> None:
    guarded(shop, "public.t")
    shop.run(f"BEGIN; SET LOCAL {ALLOWED} = on; ALTER TABLE t ADD COLUMN c int; COMMIT")
    shop.run("ALTER TABLE other ADD COLUMN c int")
    with pytest.raises(psycopg.errors.ObjectInUse):
        shop.run("ALTER TABLE t RENAME COLUMN c TO d")
    guarded(shop, "public.t")
    shop.run("ALTER TABLE t ALTER COLUMN c SET STATISTICS 500")
    with pytest.raises(psycopg.errors.ObjectInUse):
        shop.run("ALTER TABLE t DROP COLUMN c")


def test_a_guard_is_brought_up_to_date_and_taken_away(shop: Database) -> None:
    guarded(shop, "public.t", "public.other")
    with pytest.raises(psycopg.errors.ObjectInUse, match="other"):
        shop.run("DROP TABLE other")
    guarded(shop, "public.t")
    assert triggers(shop) == 2
    shop.run("DROP TABLE other")
    with connect(shop.reference) as connection, transaction(connection) as cursor:
        unblock(cursor, PROJECT)
        unblock(cursor, PROJECT)
    assert triggers(shop) == 0
    guarded(shop, "public.t")
    remove(Pool(shop.reference), PROJECT, None)
    assert triggers(shop) == 0
    assert shop.one("SELECT to_regnamespace('freshlake_changes')") is None
    shop.run("DROP TABLE t")


def test_only_who_may_make_event_triggers_can_guard(shop: Database) -> None:
    table = shop.captured("public.t")
    shop.run("CREATE ROLE app LOGIN")
    try:
        with (
            psycopg.connect(shop.server.url(shop.name, user="app")) as connection,
            pytest.raises(PrivilegeMissing, match="user app may not make event triggers"),
            transaction(connection) as cursor,
        ):
            block(cursor, look(cursor), PROJECT, [table])
    finally:
        shop.run("DROP ROLE app")


def test_captured_tables_are_guarded_as_long_as_it_is_set(
    spark: SparkSession, lake_dir: Path, database: Database
) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x')")
    with freshlake.connect(lake_dir, settings={"block_source_ddl": True}) as fl:
        fl.add_postgres("shop", str(database.reference), cdc_mode="trigger")
        fl.create_stream_table("all_t", "SELECT a, b FROM shop.public.t")
        with pytest.raises(psycopg.errors.ObjectInUse):
            database.run("ALTER TABLE t DROP COLUMN b")
        database.run(f"BEGIN; SET LOCAL {ALLOWED} = on; ALTER TABLE t ADD COLUMN c int; COMMIT")
        fl.refresh("all_t")
        fl._upkeep.run(fl._engine.clock.now())
        with pytest.raises(psycopg.errors.ObjectInUse):
            database.run("ALTER TABLE t DROP COLUMN c")
    with freshlake.connect(lake_dir) as fl:
        fl._upkeep.run(fl._engine.clock.now())
        database.run("ALTER TABLE t DROP COLUMN c")
        fl.drop_source("shop", cascade=True)


def test_tables_of_the_lake_are_guarded_in_statements(spark: SparkSession, lake_dir: Path) -> None:
    with freshlake.connect(lake_dir, settings={"block_source_ddl": True}) as fl:
        orders(fl)
        orders(fl, "free")
        fl.sql("ALTER TABLE orders SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        fl.create_stream_table("totals", "SELECT region, sum(amount) AS total FROM orders GROUP BY region")
        for statement in (
            "ALTER TABLE orders ADD COLUMN note STRING",
            "ALTER TABLE orders ADD COLUMNS (note STRING)",
            "ALTER TABLE orders DROP COLUMN amount",
            "ALTER TABLE default.orders RENAME COLUMN amount TO price",
            "ALTER TABLE orders ALTER COLUMN amount TYPE BIGINT",
            "ALTER TABLE orders RENAME TO old_orders",
            "CREATE OR REPLACE TABLE orders (id BIGINT) USING delta",
            "CREATE OR REPLACE TABLE orders USING delta AS SELECT 1 AS id",
            "DROP TABLE orders",
            "DROP TABLE IF EXISTS orders",
        ):
            with pytest.raises(SourceDdlBlocked, match=r"default\.orders is read by totals"):
                fl.sql(statement)
        _passes(fl)


def _passes(fl: Freshlake) -> None:
    fl.sql("ALTER TABLE orders SET TBLPROPERTIES ('note' = 'x')")
    fl.sql("INSERT INTO orders VALUES (9, 'north', 1)")
    fl.sql("ALTER TABLE free ADD COLUMN note STRING")
    fl.sql("DROP TABLE free")
    fl.refresh("totals")
    assert fl.verify("totals").equal
    fl.drop_stream_table("totals")
    fl.sql("DROP TABLE orders")
