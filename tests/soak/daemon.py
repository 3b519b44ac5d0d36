"""A daemon of the soak: `freshlake run` with a smaller Spark, since three of them share a machine."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import freshlake
from tests.local_spark import SETTINGS


def main() -> None:
    """Run until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    small = {**SETTINGS, "spark.driver.memory": "1g", "spark.sql.codegen.wholeStage": "false"}
    with freshlake.connect(Path(sys.argv[1]), spark_settings=small) as fl:
        fl.start_scheduler()
        stop.wait()
