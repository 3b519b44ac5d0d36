"""A process that dies or is stopped on purpose: it works on a lake, and ends without a word after a lasting effect.

Run as `python -m tests.faults.victim LAKE ORDER`, with the order as JSON (`tests.faults.processes.Order`): which method
of Freshlake to call, and at which effect it happens. It uses the Spark of the process that started it, so that a death
costs a second and not ten; with `PYSPARK_GATEWAY_PORT` unset it starts its own, which then dies with it.

Effects are caught where they leave Freshlake: transactions of the catalog, files, commits and writes of Delta tables. A
new one is among them by itself. The steps that the engine tells of are between them, if they are asked for.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from operator import attrgetter
from pathlib import Path
from typing import Any

DIED = 13
"""The exit code of a process that reached its end."""

_COMMANDS = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "RESTORE", "CREATE", "DROP")
_PACKAGE = str(Path(__file__).parents[2] / "src" / "freshlake")
_PLUMBING = ("database.py", "postgres/connection.py")


class Fuse:
    """Ends or stops the process at the n-th effect, or at the first one of a name."""

    def __init__(self, at: int | str, *, stops: bool) -> None:
        self.at, self.stops, self.is_lit, self.seen = at, stops, False, 0

    def burn(self, effect: str) -> None:
        if not self.is_lit or threading.current_thread() is not threading.main_thread():
            return
        reached = effect == self.at if isinstance(self.at, str) else self.seen == self.at
        self.seen += 1
        if reached and self.stops:
            self.is_lit = False
            os.kill(os.getpid(), signal.SIGSTOP)
        elif reached:
            os.write(1, effect.encode())
            os._exit(DIED)

    def after(self, owner: Any, name: str, told: Callable[..., bool] = lambda *_, **__: True) -> None:
        """Burn after every call of a function, under the name of the function of Freshlake that made it."""
        original = getattr(owner, name)

        @wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if told(*args, **kwargs):
                self.burn(_caller())
            return result

        setattr(owner, name, wrapped)

    def after_transactions(self) -> None:
        """Burn after every transaction of the catalog that has changed something."""
        from freshlake.catalog import database

        begun = database.begun

        @contextmanager
        def wrapped(engine: Any, kind: Any) -> Iterator[Any]:
            with begun(engine, kind) as connection:
                driver = connection.connection.driver_connection
                before = driver.total_changes
                yield connection
                changed = driver.total_changes != before
            if changed:
                self.burn(_caller())

        database.begun = wrapped

    def after_source_transactions(self) -> None:
        """Burn after everything that lasts in a source database: transactions that may write, and new slots."""
        import psycopg

        execute = psycopg.Cursor.execute
        writing: set[int] = set()

        def wrapped(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
            done = execute(cursor, query, *args, **kwargs)
            text, session = query if isinstance(query, str) else bytes(query).decode(), id(cursor.connection)
            if text.startswith("BEGIN"):
                (writing.add if "READ WRITE" in text else writing.discard)(session)
            elif text.startswith("CREATE_REPLICATION_SLOT") or (text == "COMMIT" and session in writing):
                self.burn(_caller())
            return done

        psycopg.Cursor.execute = wrapped  # type: ignore[method-assign]


def _caller() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if file.startswith(_PACKAGE) and not file.endswith(_PLUMBING):
            break
        frame = frame.f_back
    return frame.f_code.co_name


def lay(fuse: Fuse) -> None:
    """Put the fuse behind everything that outlives the process; before Freshlake is imported."""
    import deltalake
    import pyarrow.parquet
    from delta.tables import DeltaMergeBuilder, DeltaOptimizeBuilder
    from pyspark.sql import DataFrameWriter, SparkSession

    fuse.after(deltalake, "write_deltalake")
    for name in ("create_write_transaction", "create", "restore"):
        fuse.after(deltalake.DeltaTable, name)
    for name in ("save", "saveAsTable", "parquet"):
        fuse.after(DataFrameWriter, name)
    fuse.after(DeltaMergeBuilder, "execute")
    fuse.after(DeltaOptimizeBuilder, "executeCompaction")
    fuse.after(SparkSession, "sql", lambda _, text, *__, **___: text.lstrip().upper().startswith(_COMMANDS))
    fuse.after(pyarrow.parquet, "write_table")
    fuse.after(shutil, "rmtree", lambda path, *_, **__: "_freshlake" in str(path))
    fuse.after_transactions()
    fuse.after_source_transactions()


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
    lake, order = Path(sys.argv[1]), json.loads(sys.argv[2])
    own_spark = "PYSPARK_GATEWAY_PORT" not in os.environ
    if not own_spark:
        attach()
    fuse = Fuse(order["at"], stops=order["stops"])
    if not own_spark:
        lay(fuse)
    fl = _connect(lake, order)
    if own_spark:
        fl._engine.observer = explode(order["at"])
    elif order["steps"]:
        fl._engine.observer = fuse.burn
    if order["daemon"]:
        fl._scheduler._register()
    fuse.is_lit = True
    answer = _answer(lambda: attrgetter(order["call"])(fl)(*order["args"], **order["kwargs"]))
    fuse.is_lit = False
    if order["stops"]:
        sys.stdout.write(json.dumps(answer))
        sys.stdout.flush()
    elif answer.get("error") not in (order["fails"], order["may_fail"]):
        raise SystemExit(str(answer))
    if own_spark:
        os._exit(0)


def _connect(lake: Path, order: dict[str, Any]) -> Any:
    import freshlake
    from freshlake.catalog.owner import Owner
    from freshlake.clock import ManualClock

    clock = ManualClock(datetime.fromisoformat(order["now"])) if order["now"] else None
    fl = freshlake.connect(lake, settings=order["settings"], spark_settings={"spark.master": "local[2]"}, clock=clock)
    if order["elsewhere"]:
        fl._engine.catalog.owner = str(Owner("elsewhere", os.getpid(), "another machine", "", "worker"))
    return fl


def _answer(call: Callable[[], Any]) -> dict[str, Any]:
    from freshlake.errors import FreshlakeError

    try:
        call()
    except FreshlakeError as error:
        return {"error": error.code, "message": str(error)}
    return {}


if __name__ == "__main__":
    main()
