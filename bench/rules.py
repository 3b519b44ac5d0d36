"""`python -m bench.rules`: what a small change costs each rule: Spark jobs and rows read, against a large table."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import freshlake
from bench.grid import say
from bench.meter import BOOKS, Meter
from bench.options import count
from bench.shop import Shop
from freshlake import Freshlake

CASES = {
    "scan": "SELECT order_id, customer_id, amount, status FROM {o}",
    "filter": "SELECT order_id, amount FROM {o} WHERE status = 'paid' AND amount > 250",
    "project": "SELECT order_id, upper(status) AS status, amount * quantity AS total FROM {o}",
    "union": "SELECT order_id FROM {o} WHERE quantity > 3 UNION ALL SELECT customer_id FROM {c}",
    "inner_join": "SELECT o.order_id, c.name, c.country FROM {o} o JOIN {c} c USING (customer_id)",
    "inner_join (self)": "SELECT a.order_id, b.order_id AS other FROM {o} a JOIN {o} b "
    "ON a.customer_id = b.customer_id AND a.product_id = b.product_id AND a.order_id < b.order_id",
    "aggregate (algebraic)": "SELECT customer_id, count(*) AS n, sum(amount) AS total FROM {o} GROUP BY customer_id",
    "aggregate (extremum)": "SELECT customer_id, max(amount) AS most, min(ordered_on) AS first FROM {o} "
    "GROUP BY customer_id",
    "aggregate (affected groups)": "SELECT customer_id, count(DISTINCT product_id) AS products FROM {o} "
    "GROUP BY customer_id",
    "aggregate (of a join)": "SELECT c.country, c.segment, count(*) AS n, sum(o.amount) AS total FROM {o} o JOIN {c} c "
    "USING (customer_id) GROUP BY c.country, c.segment",
    "aggregate (of an aggregate)": "SELECT n, count(*) AS customers FROM (SELECT customer_id, count(*) AS n FROM {o} "
    "GROUP BY customer_id) GROUP BY n",
    "aggregate (having)": "SELECT customer_id, sum(amount) AS total FROM {o} GROUP BY customer_id HAVING count(*) > 20",
    "distinct": "SELECT DISTINCT customer_id, status FROM {o}",
    "left_join": "SELECT c.customer_id, c.country, o.order_id FROM {c} c LEFT JOIN {o} o "
    "ON o.customer_id = c.customer_id AND o.status = 'returned'",
    "right_join": "SELECT o.order_id, c.customer_id FROM (SELECT * FROM {o} WHERE status = 'returned') o "
    "RIGHT JOIN {c} c ON o.customer_id = c.customer_id",
    "full_join": "SELECT o.order_id, c.customer_id FROM (SELECT * FROM {o} WHERE status = 'open') o FULL JOIN "
    "(SELECT * FROM {c} WHERE country <> 'country 1') c ON o.customer_id = c.customer_id",
    "semi_join": "SELECT customer_id, name FROM {c} c WHERE EXISTS (SELECT 1 FROM {o} o "
    "WHERE o.customer_id = c.customer_id AND o.status = 'returned')",
    "anti_join": "SELECT customer_id, name FROM {c} c WHERE NOT EXISTS (SELECT 1 FROM {o} o "
    "WHERE o.customer_id = c.customer_id AND o.status = 'returned')",
    "anti_join (NOT IN)": "SELECT customer_id, name FROM {c} WHERE customer_id NOT IN (SELECT customer_id FROM {o} "
    "WHERE status = 'returned')",
    "existence_join": "SELECT customer_id, EXISTS (SELECT 1 FROM {o} o WHERE o.customer_id = c.customer_id "
    "AND o.status = 'returned') AS returns FROM {c} c",
    "single_join": "SELECT c.customer_id, (SELECT max(o.amount) FROM {o} o WHERE o.customer_id = c.customer_id) "
    "AS most FROM {c} c",
    "generate": "SELECT order_id, part FROM {o} LATERAL VIEW explode(array(status, CAST(quantity AS STRING))) AS part",
    "expand": "SELECT customer_id, status, count(*) AS n, sum(amount) AS total FROM {o} "
    "GROUP BY ROLLUP (customer_id, status)",
    "window": "SELECT order_id, customer_id, row_number() OVER (PARTITION BY customer_id ORDER BY ordered_on, "
    "order_id) AS n FROM {o}",
    "top_k": "SELECT order_id, amount FROM {o} ORDER BY amount DESC, order_id LIMIT 100",
    "set_operation": "SELECT customer_id, status FROM {o} EXCEPT ALL SELECT customer_id, 'paid' FROM {c}",
    "current_time": "SELECT order_id, amount FROM {o} WHERE ordered_on > current_date() - INTERVAL 400 DAYS",
    "recursion": "WITH RECURSIVE t(id, root, depth) AS (SELECT customer_id, customer_id, 0 FROM {c} "
    "WHERE customer_id < 50 UNION ALL SELECT c.customer_id, t.root, t.depth + 1 FROM t JOIN {c} c "
    "ON c.customer_id DIV 50 = t.id WHERE c.customer_id >= 50) SELECT t.id, t.root, t.depth FROM t",
}


@dataclass(frozen=True)
class Cost:
    """One case under one kind of change; medians over the rounds."""

    case: str
    change: str
    milliseconds: float
    jobs: float
    spark_rows: float
    driver_rows: float
    rows_written: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rules", description=__doc__)
    parser.add_argument("--rows", type=count, default=1_000_000, help="orders; one customer for twenty of them")
    parser.add_argument("--changes", type=count, default=100, help="rows that change in a round")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds of each kind of change")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by commas")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    words = options.only.split(",")
    cases = {name: sql for name, sql in CASES.items() if any(word in name for word in words)}
    with (
        tempfile.TemporaryDirectory(prefix="freshlake-rules-", ignore_cleanup_errors=True) as folder,
        freshlake.connect(Path(folder) / "lake", spark_settings=BOOKS) as fl,
    ):
        found = list(_measure(fl, cases, options.rows, options.changes, options.rounds))
    _show(found, options.rows, options.changes)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(cost) for cost in found], indent=1), encoding="utf-8")
    return 0


def _measure(fl: Freshlake, cases: dict[str, str], rows: int, changes: int, rounds: int) -> Iterator[Cost]:
    shop, meter = Shop(fl.spark, "rules", rows), Meter(fl.spark)
    say(f"{rows} orders")
    shop.build()
    tables = {case: f"rules.case_{number}" for number, case in enumerate(cases)}
    for case, sql in cases.items():
        say(f"creating {case}")
        fl.create_stream_table(
            tables[case], sql.format(o=shop.orders, c=shop.customers), refresh_mode="DIFFERENTIAL", fold_policy="manual"
        )
    for change, both in (("orders", False), ("orders and customers", True)):
        # the first round of a kind compiles, and reads columns that stay in memory
        samples = [_round(fl, meter, shop, tables, changes, both) for _ in range(rounds + 1)][1:]
        for case in cases:
            yield _median(case, change, [sample[case] for sample in samples])


def _round(
    fl: Freshlake, meter: Meter, shop: Shop, tables: dict[str, str], changes: int, both: bool
) -> dict[str, tuple[float, ...]]:
    shop.change(changes, both)
    found = {}
    for case, table in tables.items():
        with meter.measured() as cost:
            result = fl.refresh(table, mode="DIFFERENTIAL")
        if str(result.action) not in ("DIFFERENTIAL", "NO_DATA"):
            raise RuntimeError(f"{case}: the refresh was {result.action} ({result.reason})")
        written = result.rows_inserted + result.rows_deleted
        spark_rows = meter.rows_read(cost.job_ids)
        found[case] = (cost.seconds * 1000, cost.jobs, spark_rows, result.rows_read or 0, written)
    return found


def _median(case: str, change: str, samples: list[tuple[float, ...]]) -> Cost:
    return Cost(case, change, *(statistics.median(values) for values in zip(*samples, strict=True)))


def _show(found: Sequence[Cost], rows: int, changes: int) -> None:
    table = Table(title=f"{changes} changed rows, {rows:,} orders", title_justify="left")
    for name in ("case", "what changes"):
        table.add_column(name)
    for name in ("ms", "Spark jobs", "rows read by Spark", "rows read by the driver", "rows written"):
        table.add_column(name, justify="right")
    for cost in found:
        figures = (cost.milliseconds, cost.jobs, cost.spark_rows, cost.driver_rows, cost.rows_written)
        table.add_row(cost.case, cost.change, *(f"{figure:,.0f}" for figure in figures))
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
