"""A real Spark standalone cluster on loopback: nothing in Freshlake assumes that driver and executors share a process.

The large join has 300,000 rows, more than this driver may hold; `FRESHLAKE_CLUSTER_ROWS=10000000 make pytest
ARGS=tests/acceptance/test_cluster.py` runs it with ten million, which takes a few minutes more.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshlake.session.jars import spark_home
from freshlake.session.java import find_java

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
ROWS = int(os.environ.get("FRESHLAKE_CLUSTER_ROWS", "300000"))


def environment() -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_GATEWAY", "SPARK_"))}
    return {
        **clean,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def spark_class(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, env=environment(), cwd=folder, stdout=log, stderr=log)


def wait_for(log: Path, text: str, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        assert time.monotonic() < end, f"{log.name} never said {text!r}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and a worker with two cores, in processes of their own; the driver asks for one core per executor."""
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    started = []
    try:
        web = ["--webui-port", "0"]
        started.append(spark_class(folder, "master.Master", "--host", "127.0.0.1", "--port", str(port), *web))
        wait_for(folder / "master.Master.log", "I have been elected leader", started[0])
        size = ["--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work")]
        started.append(spark_class(folder, "worker.Worker", url, "--host", "127.0.0.1", *web, *size))
        wait_for(folder / "worker.Worker.log", "Successfully registered with master", started[1])
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


@pytest.fixture(scope="module")
def found(master: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a user's program saw, which ran against the cluster in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.acceptance.cluster_driver", master, tmp_path_factory.mktemp("lake"), str(ROWS)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=590,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_create_change_refresh_and_verify_on_two_executors(found: Any) -> None:
    assert found["executors"] == 2
    assert set(found["cycle"]["actions"].values()) == {"DIFFERENTIAL"}
    assert found["cycle"]["full"] == "FULL"
    assert found["cycle"]["equal"] == {"by_region": True, "rich": True, "wide": True}


def test_a_full_refresh_of_more_than_the_driver_may_hold(found: Any) -> None:
    large, changed = found["large"], ROWS // 1000
    assert not large["fits_the_driver"]
    assert (large["action"], large["reason"]) == ("FULL", "mode-full")
    assert large["changed"] == [changed, changed]
    assert (large["rows"], large["moved"]) == (ROWS, changed)
