"""The program that runs against a Spark standalone cluster, as a user would write it; started by test_cluster.py.

Arguments: master URL, folder, number of rows of the large join. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import freshlake
from freshlake.lake import Freshlake
from freshlake.session.jars import delta_jars


def session(master: str) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("freshlake-cluster")
    settings = {
        "spark.jars": ",".join(map(str, delta_jars(lambda _: None))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        # Spark refuses to bring more than this to the driver; the setting driver_result_bytes stays below it.
        "spark.driver.maxResultSize": "8m",
        "spark.executor.cores": "1",
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def executors(spark: SparkSession) -> int:
    """Without the driver."""
    context: Any = spark.sparkContext._jsc.sc()
    return len(context.statusTracker().getExecutorInfos()) - 1


def fits_the_driver(frame: DataFrame) -> bool:
    try:
        frame.collect()
    except (PySparkException, Py4JJavaError) as error:
        if "spark.driver.maxResultSize" not in str(error):
            raise
        return False
    return True


def cycle(fl: Freshlake, folder: Path) -> dict[str, Any]:
    """Create, change, refresh, fold, verify."""
    spark = fl.spark
    spark.sql(
        f"CREATE TABLE customers USING delta LOCATION '{folder}/c' AS SELECT id, id % 7 AS region FROM range(100)"
    )
    spark.sql(
        f"CREATE TABLE orders USING delta LOCATION '{folder}/o' AS "
        "SELECT id, id % 100 AS customer, cast(id % 50 AS DECIMAL(10, 2)) AS amount FROM range(20000)"
    )
    joined = "FROM orders o JOIN customers c ON o.customer = c.id"
    fl.create_stream_table("by_region", f"SELECT region, count(*) AS n, sum(amount) AS total {joined} GROUP BY region")
    fl.create_stream_table("rich", "SELECT region, total FROM by_region WHERE total > 70000")
    fl.create_stream_table("wide", f"SELECT o.id, c.region {joined} WHERE amount > 10", fold_policy="always")
    spark.sql("INSERT INTO orders SELECT id + 20000, id % 100, 1.5 FROM range(500)")
    spark.sql("DELETE FROM orders WHERE id % 1000 = 3")
    spark.sql("UPDATE customers SET region = 99 WHERE id = 5")
    actions = {r.table: str(r.action) for r in fl.refresh_all()}
    full = fl.refresh("wide", mode="FULL")
    equal = {s.name: fl.verify(s.name).equal for s in fl.status()}
    return {"actions": actions, "full": str(full.action), "equal": equal}


def large(fl: Freshlake, folder: Path, rows: int) -> dict[str, Any]:
    """A join whose result has as many rows as its large side: loaded, then refreshed in full as a difference."""
    spark = fl.spark
    spark.sql(
        f"CREATE TABLE facts USING delta LOCATION '{folder}/f' AS "
        f"SELECT id, id % 1000 AS k, sha2(cast(id AS STRING), 256) AS note FROM range(0, {rows}, 1, 4)"
    )
    spark.sql(f"CREATE TABLE names USING delta LOCATION '{folder}/n' AS SELECT id AS k, id % 9 AS g FROM range(1000)")
    query = "SELECT f.id, f.note, n.g FROM facts f JOIN names n ON f.k = n.k"
    fl.create_stream_table("joined", query, refresh_mode="FULL")
    spark.sql("UPDATE names SET g = g + 1 WHERE k = 77")
    result = fl.refresh("joined")
    count = fl.table("joined").count()
    checked = fl.sql("SELECT count(*) AS n FROM joined WHERE g = 77 % 9 + 1 AND id % 1000 = 77").first()
    assert checked is not None
    return {
        "action": str(result.action),
        "reason": result.reason,
        "changed": [result.rows_inserted, result.rows_deleted],
        "rows": count,
        "moved": checked["n"],
        "fits_the_driver": fits_the_driver(fl.table("joined")),
    }


def main() -> None:
    master, folder, rows = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    spark = session(master)
    settings = {"differential_max_change_ratio": 0.0, "driver_result_bytes": 2**20}
    with freshlake.connect(folder / "lake", spark=spark, settings=settings) as fl:
        found: dict[str, Any] = {"cycle": cycle(fl, folder), "large": large(fl, folder, rows)}
        found["executors"] = executors(spark)
    os.write(1, json.dumps(found).encode() + b"\n")
    spark.stop()


if __name__ == "__main__":
    main()
