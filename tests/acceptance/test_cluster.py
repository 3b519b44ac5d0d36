"""A real Spark standalone cluster on loopback: nothing in Freshlake assumes that driver and executors share a process.

The large join has two million rows in the default run; `FRESHLAKE_CLUSTER_ROWS=10000000 make pytest
ARGS=tests/acceptance/test_cluster.py` runs it with ten, which takes a few minutes more.
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

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
ROWS = int(os.environ.get("FRESHLAKE_CLUSTER_ROWS", "2000000"))


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


def drive(master: str, folder: Path, what: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.acceptance.cluster_driver", master, str(folder), what, str(ROWS)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=590,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_create_change_refresh_and_verify_on_two_executors(master: str, tmp_path: Path) -> None:
    found = drive(master, tmp_path, "cycle")
    assert found["executors"] == 2
    assert set(found["actions"].values()) == {"DIFFERENTIAL"}
    assert found["full"] == "FULL"
    assert found["equal"] == {"by_region": True, "rich": True, "wide": True}


def test_a_full_refresh_larger_than_the_driver_may_hold(master: str, tmp_path: Path) -> None:
    found = drive(master, tmp_path, "large")
    changed = ROWS // 100_000
    assert (found["action"], found["reason"]) == ("FULL", "mode-full")
    assert found["changed"] == [changed, changed]
    assert (found["rows"], found["moved"]) == (ROWS, changed)
    assert (found["driver"], found["executors"]) == ("2g", 2)
