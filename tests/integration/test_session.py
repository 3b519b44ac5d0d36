"""Spark starts without a word, with Delta, and a session that cannot be used is refused with what to add."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshlake.errors import DeltaNotConfigured, SparkConnectUnsupported
from freshlake.session import check, start

QUIET = """
from pathlib import Path
from freshlake.session import start
spark = start(Path("warehouse"), settings={"spark.master": "local[1]"})
spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS a").collect()
print(spark.sql("SELECT * FROM t").collect(), Path("warehouse/t/_delta_log").is_dir())
"""
ASLEEP = """
import os, signal, time
from pathlib import Path
from freshlake.session import start
limits = {
    "spark.network.timeout": "3s",
    "spark.network.timeoutInterval": "500ms",
    "spark.storage.blockManagerTimeoutIntervalMs": "500ms",
    "spark.executor.heartbeatInterval": "1s",
    "spark.executor.heartbeat.maxFailures": "5",
}
spark = start(Path("warehouse"), settings={"spark.master": "local[1]", **limits})
java = spark.sparkContext._gateway.proc.pid
for _ in range(5):
    os.kill(java, signal.SIGSTOP)
    time.sleep(5)
    os.kill(java, signal.SIGCONT)
    time.sleep(1)
time.sleep(10)
assert spark.range(10).count() == 10
print("awake")
"""
PLAIN = """
from pyspark.sql import SparkSession
from freshlake.session import check
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    check(spark)
except Exception as error:
    print(error.code, error.hint)
"""
GREEDY = """
from pathlib import Path
from freshlake.session import start
try:
    start(Path("warehouse"), settings={"spark.driver.memory": "9999999g"})
except Exception as error:
    print(error.code, "|", error.detail, "|", error.hint)
"""


def run(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_new_process_starts_spark_without_noise_whatever_spark_it_is_told_of(tmp_path: Path) -> None:
    done = run(QUIET, tmp_path, SPARK_HOME=str(tmp_path), SPARK_REMOTE="sc://nowhere")
    assert (done.stderr, done.stdout, done.returncode) == ("", "[Row(a=1)] True\n", 0)


@pytest.mark.slow
def test_an_embedded_spark_goes_on_when_its_machine_has_slept(tmp_path: Path) -> None:
    """For longer than Spark waits for an executor that it hears nothing of: here three seconds, not two minutes."""
    done = run(ASLEEP, tmp_path)
    assert (done.stdout, done.returncode) == ("awake\n", 0), done.stderr


def test_a_failed_start_says_why_and_what_to_do(tmp_path: Path) -> None:
    done = run(GREEDY, tmp_path)
    assert done.stderr == ""
    code, detail, hint = done.stdout.split(" | ")
    assert code == "spark-start-failed"
    assert "heap" in detail.lower()
    assert "FRESHLAKE_DRIVER_MEMORY" in hint


def test_a_plain_spark_session_is_told_exactly_what_to_add(tmp_path: Path) -> None:
    said = run(PLAIN, tmp_path).stdout
    assert said.startswith("delta-not-configured")
    assert '.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")' in said
    assert '.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")' in said
    assert '.config("spark.jars.packages", "io.delta:delta-spark_4.2_2.13:4.4.0")' in said


def test_a_connect_session_is_refused() -> None:
    class Remote:
        """A Connect session has no JVM session behind it."""

    with pytest.raises(SparkConnectUnsupported):
        check(Remote())  # type: ignore[arg-type]


def test_a_session_with_delta_is_accepted(spark: SparkSession) -> None:
    check(spark)


def test_missing_extension_keeps_the_users_other_extensions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"spark.sql.extensions": "com.example.Other"}
    monkeypatch.setattr(type(spark), "conf", property(lambda _: known))
    with pytest.raises(DeltaNotConfigured) as caught:
        check(spark)
    assert '"com.example.Other,io.delta.sql.DeltaSparkSessionExtension"' in str(caught.value.hint)


def test_a_second_start_shares_the_running_spark(spark: SparkSession, tmp_path: Path) -> None:
    other = start(tmp_path, settings={"spark.sql.shuffle.partitions": "7", "spark.driver.memory": "9g"})
    assert other.sparkContext is spark.sparkContext
    assert other.conf.get("spark.sql.shuffle.partitions") == "7"
    assert spark.conf.get("spark.sql.shuffle.partitions") != "7"


def test_settings_that_make_small_work_cheap_are_on(spark: SparkSession) -> None:
    assert spark.conf.get("spark.databricks.delta.snapshotPartitions") == "2"
    assert int(spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold") or 0) >= 10_000
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_meaning_is_left_as_spark_has_it(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.sql("SELECT current_timezone() AS zone").first() is not None
