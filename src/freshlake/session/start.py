"""Start a tuned local Spark with Delta, without a word on the terminal; a failed start says why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from freshlake.errors import SparkStartFailed
from freshlake.session.cache import log_file
from freshlake.session.check import CATALOG, DELTA_CATALOG, DELTA_EXTENSION, EXTENSIONS, check
from freshlake.session.jars import Progress, delta_jars, spark_home
from freshlake.session.java import find_java

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MEMORY = "spark.driver.memory"


def start(
    warehouse: Path,
    *,
    app_name: str = "freshlake",
    settings: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> SparkSession:
    """A Spark session with Delta whose managed tables live under `warehouse`.

    One process has one Spark: when one is running already, the result is a session on it with table names of its own,
    after the same check as for a session the caller passes. `settings` (names as in Spark) win over Freshlake's own.
    `progress` hears of the one thing that takes long, fetching jars; without it a line goes to stderr.
    """
    chosen = {str(name): str(value) for name, value in (settings or {}).items()}
    if SparkContext._active_spark_context is not None:
        return _join_running(SparkContext._active_spark_context, warehouse, chosen)
    conf = _configuration(warehouse, app_name, chosen, progress or _announce)
    log = log_file()
    conf.set(_JAVA_OPTIONS, _java_options(log, chosen))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        if SparkContext._gateway is None:
            _launch(conf, log)
        return SparkSession(SparkContext(conf=conf))
    except Exception as error:
        raise _start_failed(error, log) from error


def own_catalog(session: SparkSession) -> SparkSession:
    """Delta binds its catalog to the session that is active at its first use; make that this one."""
    session.sql("USE spark_catalog.default")
    return session


def tuning() -> dict[str, str]:
    """Settings that may be set on any session: Spark's defaults are meant for a cluster and large tables."""
    return {
        "spark.sql.shuffle.partitions": str(max(2, cores())),
        "spark.databricks.delta.snapshotPartitions": "2",
        # Freshlake hands Spark explicit file lists; a job to list them would cost more than the read.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # VACUUM lists files in this many tasks, by default 10,000 however few the files are.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(4 * cores()),
        # Delta's SQL parser otherwise breaks spark.sql(query, args=...).
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    }


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2


def _announce(text: str) -> None:
    sys.stderr.write(f"freshlake: {text}\n")


def _configuration(warehouse: Path, app_name: str, chosen: dict[str, str], progress: Progress) -> SparkConf:
    conf = SparkConf(loadDefaults=False)
    for name, value in _defaults(warehouse, app_name, chosen.get("spark.master", "local[*]")).items():
        conf.set(name, value)
    for name, value in chosen.items():
        conf.set(name, value)
    extensions = [DELTA_EXTENSION, *(name for name in chosen.get(EXTENSIONS, "").split(",") if name)]
    jars = [*map(str, delta_jars(progress)), *(name for name in chosen.get("spark.jars", "").split(",") if name)]
    conf.set(EXTENSIONS, ",".join(dict.fromkeys(extensions)))
    conf.set("spark.jars", ",".join(dict.fromkeys(jars)))
    return conf


def _defaults(warehouse: Path, app_name: str, master: str) -> dict[str, str]:
    settings = {
        "spark.app.name": app_name,
        "spark.master": master,
        _MEMORY: os.environ.get("FRESHLAKE_DRIVER_MEMORY") or _memory(),
        CATALOG: DELTA_CATALOG,
        "spark.sql.warehouse.dir": str(warehouse.resolve()),
        "spark.ui.enabled": "false",
        # refreshes side by side share the cores instead of waiting for the one that came first
        "spark.scheduler.mode": "FAIR",
        "spark.ui.showConsoleProgress": "false",
        **tuning(),
    }
    if master.startswith("local"):
        # An embedded Spark listens on no network, and starts where the host name does not resolve.
        settings.update({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"})
        # It is its own executor, which cannot get lost: a machine that slept for some minutes would have it ended.
        settings["spark.storage.blockManagerHeartbeatTimeoutMs"] = "3650d"
    return settings


def _memory() -> str:
    """A quarter of the machine's memory, between 1 and 4 GiB."""
    try:
        gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError, AttributeError):
        return "2g"
    return f"{min(4, max(1, int(gigabytes / 4)))}g"


def _java_options(log: Path, chosen: dict[str, str]) -> str:
    properties = Path(str(files("freshlake.session") / "log4j2.properties"))
    own = f'"-Dlog4j2.configurationFile={properties.as_uri()}" "-Dfreshlake.log={log}"'
    return f"{own} {chosen.get(_JAVA_OPTIONS, '')}".strip()


def _launch(conf: SparkConf, log: Path) -> None:
    """Start the JVM with its own output in a file: Java prints warnings there before any logger is set up."""
    with log.with_suffix(".out").open("wb") as sink, _launch_environment():
        gateway = launch_gateway(conf, {"stdout": sink, "stderr": sink})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _launch_environment() -> Iterator[None]:
    wanted = {"JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark_home()), "SPARK_REMOTE": None}
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _join_running(context: SparkContext, warehouse: Path, chosen: dict[str, str]) -> SparkSession:
    """A session with its own table names: two lakes in one process must not see each other's tables."""
    jvm: Any = context._jvm
    options = jvm.java.util.HashMap()
    options.put("spark.sql.warehouse.dir", str(warehouse.resolve()))
    own = jvm.org.apache.spark.sql.classic.SparkSession(context._jsc.sc(), options)
    # The first session's listener records every execution already; one more per lake would only repeat it.
    listener = own.sharedState().statusStore().listener()
    if listener.isDefined():
        context._jsc.sc().removeSparkListener(listener.get())
    session = own_catalog(SparkSession(context, own))
    check(session)
    for name, value in {**tuning(), **chosen}.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session


def _start_failed(error: Exception, log: Path) -> SparkStartFailed:
    output = _read(log.with_suffix(".out"))
    java = getattr(error, "java_exception", None)
    detail = _reason(output) or (str(java.getMessage()) if java is not None else str(error))
    return SparkStartFailed("Spark could not be started", detail=detail, hint=_hint(detail, log))


def _reason(output: str) -> str | None:
    telling = ("Error", "Exception", "error", "Could not", "Invalid")
    lines = [line.strip() for line in output.splitlines() if any(word in line for word in telling)]
    return "; ".join([line for line in lines if not line.startswith("at ")][:3]) or None


def _hint(detail: str, log: Path) -> str:
    lowered = detail.lower()
    if any(word in lowered for word in ("heap", "reserve enough space", "memory")):
        return "set FRESHLAKE_DRIVER_MEMORY (for example 2g) to what this machine can give"
    return f"Spark's own messages are in {log} and {log.with_suffix('.out').name} beside it"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
