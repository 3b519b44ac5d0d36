"""How tests start Spark: with room for the sessions of many lakes, and a collector that is idle until it is needed."""

from __future__ import annotations

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=4 "
    "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=90000 -XX:Tier4BackEdgeThreshold=200000",
}
"""Only what runs very often is optimised: a test does many things a few times."""

SHORT_LIVED = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
"""For processes that end soon: half of what their JVMs would do is to optimise code that they do not run again."""
