"""How tests start Spark: for many small queries, each of them new.

Java's second compiler takes half of the processor time of such a run and is hardly ever paid back, so only the first
one works; with room for its code, which would be thrown away and compiled again otherwise.
"""

from __future__ import annotations

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
}
