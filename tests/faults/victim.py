"""A process that dies on purpose: it works on a lake and ends without a word after its n-th lasting effect.

Run as `python -m tests.faults.victim LAKE N CALL`, with CALL as JSON: the name of a method of Freshlake and its
arguments. It uses the Spark of the process that started it, so that a death costs a second and not ten; with
`PYSPARK_GATEWAY_PORT` unset it starts its own, which then dies with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

DIED = 13
"""The exit code of a process that reached its end."""


class Fuse:
    """Ends the process at the n-th effect."""

    def __init__(self, at: int) -> None:
        self.left = at

    def burn(self, effect: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if self.left == 0:
            os.write(1, effect.encode())
            os._exit(DIED)
        self.left -= 1

    def after(self, owner: Any, name: str) -> None:
        """Burn after every call of a function."""
        original = getattr(owner, name)

        @wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self.burn(name)
            return result

        setattr(owner, name, wrapped)


def lay(fuse: Fuse) -> None:
    """Put the fuse behind everything that outlives the process: files, Delta commits, catalog transactions."""
    from freshlake.catalog.database import Database
    from freshlake.catalog.store import Catalog
    from freshlake.refresh import commit
    from freshlake.storage import append, cleanup, fold, load
    from freshlake.storage.log import Log
    from freshlake.storage.table import ChangeLogged

    fuse.after(Catalog, "acquire_lease")
    fuse.after(Catalog, "begin_refresh")
    fuse.after(Catalog, "insert_stream_table")
    fuse.after(Catalog, "commit_refresh")
    fuse.after(Catalog, "add_fold")
    fuse.after(Catalog, "begin_quarantine")
    fuse.after(Catalog, "end_quarantine")
    fuse.after(Catalog, "release_lease")
    fuse.after(Catalog, "delete")
    fuse.after(ChangeLogged, "create")
    fuse.after(append, "stage")
    fuse.after(load, "write_base")
    fuse.after(load, "write_rows")
    fuse.after(fold, "_write")
    fuse.after(Log, "commit")
    fuse.after(cleanup, "cleanup")
    fuse.after(commit.shutil, "rmtree")
    assert hasattr(Database, "transaction")  # commit_refresh runs inside one; the step "committed" follows it


def attach() -> None:
    """Use the JVM of the process that started this one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)
    jvm: Any = gateway.jvm
    context = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf()))


def explode(seconds: float) -> Callable[[str], None]:
    """An observer that kills Spark and this process in the middle of the first long write."""
    from pyspark import SparkContext

    def observe(step: str) -> None:
        if step in ("load root", "fold root"):
            gateway: Any = SparkContext._gateway
            threading.Timer(seconds, lambda: (os.kill(gateway.proc.pid, signal.SIGKILL), os._exit(DIED))).start()

    return observe


def main() -> None:
    lake, at, call = Path(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3])
    own_spark = "PYSPARK_GATEWAY_PORT" not in os.environ
    if not own_spark:
        attach()
    import freshlake

    spark_settings = {"spark.master": "local[2]"}
    fl = freshlake.connect(lake, settings={"differential_max_change_ratio": 0}, spark_settings=spark_settings)
    if own_spark:
        fl._engine.observer = explode(at)
    else:
        fuse = Fuse(int(at))
        lay(fuse)
        fl._engine.observer = fuse.burn
    getattr(fl, call["call"])(*call.get("args", ()), **call.get("kwargs", {}))
    if own_spark:
        os._exit(0)


if __name__ == "__main__":
    main()
