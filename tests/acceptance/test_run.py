"""`freshlake run` in a process of its own: it refreshes, reads its settings again, and finishes what runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-c", "from freshlake.cli import main; main()")
SETTINGS = "min_schedule_seconds = 1\nscheduler_interval_ms = 200\n"


@contextmanager
def daemon(lake: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")}
    process = subprocess.Popen(
        [*COMMAND, "--lake", str(lake), "run"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def said(process: subprocess.Popen[str], words: str) -> None:
    """Wait until it has said something; it ends its output when it ends."""
    assert process.stderr is not None
    assert any(words in line for line in process.stderr)


def test_a_daemon_reloads_its_settings_and_drains(spark: SparkSession, tmp_path: Path) -> None:
    settings = tmp_path / "freshlake.toml"
    settings.write_text(SETTINGS, encoding="utf-8")
    with freshlake.connect(tmp_path) as fl, daemon(tmp_path) as process:
        fl.sql("CREATE TABLE orders (id INT) USING delta")
        fl.create_stream_table("ids", "SELECT id FROM orders", schedule="1s")
        said(process, "keeping")
        fl.sql("INSERT INTO orders VALUES (1)")
        assert fl.wait_for("ids", "orders", timeout=120)
        (pool,) = fl.worker_pool_status()
        assert (pool.is_alive, pool.workers, pool.version) == (True, 4, freshlake.__version__)
        assert fl.parallel_job_status(600)

        settings.write_text(SETTINGS + "lease_seconds = 0\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        said(process, "invalid-setting")
        settings.write_text(SETTINGS + 'parallel_refresh_mode = "off"\n', encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        said(process, "settings read again")
        fl.sql("INSERT INTO orders VALUES (2)")
        assert fl.wait_for("ids", "orders", timeout=120)
        assert [pool.workers for pool in fl.worker_pool_status()] == [1]

        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        assert fl.worker_pool_status() == []
        assert [f.code for f in fl.health()] == ["no-daemon"]
        assert fl.verify("ids").equal
