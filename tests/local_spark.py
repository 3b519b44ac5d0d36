"""How tests start Spark: with room for the sessions of many lakes, and a collector that is idle until it is needed."""

from __future__ import annotations

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}
