"""After every refresh a stream table equals its query: one lake, every strategy, rounds of mixed changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import Freshlake
from tests.bags import assert_same_bag

pytestmark = pytest.mark.slow

QUERIES = {
    "big": "SELECT id, cust, amount FROM orders WHERE amount > 90",
    "totals": "SELECT cust, sum(amount) total, count(*) n, avg(qty) q FROM orders GROUP BY cust",
    "extremes": "SELECT cust, max(amount) mx, min(qty) mn, count(note) c FROM orders GROUP BY cust",
    "distincts": "SELECT cust, count(distinct qty) d, stddev(qty) s FROM orders GROUP BY cust",
    "regions": "SELECT c.region, sum(o.amount) t, max(o.id) m FROM orders o JOIN customers c ON o.cust = c.id "
    "GROUP BY c.region",
    "busy": "SELECT x.cust, x.total, c.region FROM (SELECT cust, sum(amount) total FROM orders GROUP BY cust "
    "HAVING count(*) > 35) x JOIN customers c ON c.id = x.cust",
    "whole": "SELECT count(*) n, sum(amount) s, max(qty) m FROM orders",
    "pairs": "SELECT a.id, b.region FROM customers a JOIN customers b ON a.region = b.region AND a.id < b.id",
    "kinds": "SELECT DISTINCT qty, note FROM orders",
    "both": "SELECT id k, 'o' s FROM orders WHERE qty = 1 UNION ALL SELECT id, region FROM customers",
    "above": "SELECT region, t * 2 t2 FROM regions WHERE t > 10",
}

ROUNDS = {
    "nothing": [],
    "inserts with NULLs and duplicates": [
        "INSERT INTO orders VALUES (9000, 3, 99.50, 2, NULL), (9000, 3, 99.50, 2, NULL), (9001, 77, 1.50, NULL, 'x'), "
        "(9002, NULL, NULL, NULL, NULL)"
    ],
    "updates that move rows between groups": [
        "UPDATE orders SET amount = amount + 1, cust = cust + 1 WHERE id % 40 = 3",
        "UPDATE orders SET note = 'changed' WHERE id % 50 = 1",
    ],
    "both sides at once": [
        "DELETE FROM orders WHERE amount >= 96",
        "UPDATE customers SET region = 'zz' WHERE id < 4",
        "INSERT INTO customers VALUES (77, 'new'), (77, 'new'), (78, NULL)",
    ],
    "a merge": [
        "MERGE INTO orders t USING (SELECT id + 5 AS id, cust, amount, qty, note FROM orders WHERE id % 30 = 0) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = 96.99 WHEN NOT MATCHED THEN INSERT *"
    ],
    "everything deleted": ["DELETE FROM orders"],
    "first row again": ["INSERT INTO orders VALUES (1, 3, 99.5, 2, NULL)"],
}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    fl = freshlake.connect(tmp_path_factory.mktemp("rounds") / "lake")
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    fl.sql(f"CREATE TABLE orders (id BIGINT, cust INT, amount DECIMAL(10,2), qty INT, note STRING) USING delta {feed}")
    fl.sql("CREATE TABLE customers (id INT, region STRING) USING delta")
    fl.sql(
        "INSERT INTO orders SELECT id, CAST(id % 50 AS INT), CAST(id % 97 AS DECIMAL(10,2)), CAST(id % 7 AS INT), 'n' "
        "FROM range(2000)"
    )
    fl.sql("INSERT INTO customers SELECT CAST(id AS INT), concat('r', id % 5) FROM range(50)")
    for name, query in QUERIES.items():
        fl.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    yield fl
    fl.close()


@pytest.mark.parametrize("change", list(ROUNDS))
def test_every_table_equals_its_query_after_a_differential_refresh(lake: Freshlake, change: str) -> None:
    for statement in ROUNDS[change]:
        lake.sql(statement)
    for name, query in QUERIES.items():
        result = lake.refresh(name, mode="DIFFERENTIAL")
        assert str(result.action) in ("DIFFERENTIAL", "NO_DATA"), (name, result)
        if not ROUNDS[change]:
            assert (str(result.action), result.spark_jobs) == ("NO_DATA", 0)
            continue
        assert_same_bag(lake.table(name), lake.sql(query))


def test_verify_agrees(lake: Freshlake) -> None:
    for name in QUERIES:
        verification = lake.verify(name)
        assert (verification.equal, verification.missing, verification.unexpected) == (True, 0, 0), name


def test_a_full_refresh_of_an_unchanged_query_writes_no_rows(lake: Freshlake) -> None:
    for name in ("totals", "busy", "extremes"):
        result = lake.refresh(name, mode="FULL")
        assert (str(result.action), result.rows_inserted, result.rows_deleted) == ("FULL", 0, 0), name


def test_a_fold_changes_nothing_that_readers_see(lake: Freshlake) -> None:
    for name in ("totals", "busy", "big"):
        before = lake.table(name)
        lake.fold(name)
        assert_same_bag(before, lake.table(name))
    lake.sql("INSERT INTO orders SELECT id, CAST(id % 5 AS INT), 95.5, 1, NULL FROM range(400)")
    for name in ("totals", "busy", "big"):
        assert lake.refresh(name, mode="DIFFERENTIAL").rows_inserted > 0
        assert_same_bag(lake.table(name), lake.sql(QUERIES[name]))
