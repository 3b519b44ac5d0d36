"""The Delta jars: resolved once through Spark's own Ivy, then kept in the user's cache and used without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from freshlake.errors import DeltaJarUnavailable
from freshlake.session.cache import cache_dir
from freshlake.session.java import find_java

Progress = Callable[[str], None]

# Spark ships its own, newer builds of all of these.
_IN_SPARK = (
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-logging:commons-logging",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.parquet:parquet-column",
    "org.apache.parquet:parquet-common",
    "org.apache.parquet:parquet-encoding",
    "org.apache.parquet:parquet-format-structures",
    "org.apache.parquet:parquet-hadoop",
    "org.apache.parquet:parquet-jackson",
    "org.locationtech.jts:jts-core",
    "org.roaringbitmap:RoaringBitmap",
    "org.roaringbitmap:shims",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
# Runs inside spark-submit, which has put the resolved jars into its configuration.
_TELL = """
from pyspark import SparkConf, SparkContext
SparkContext._ensure_initialized()
print("jars=" + SparkConf().get("spark.jars", ""))
"""
_CENTRAL = "https://repo1.maven.org/maven2/"
_TIMEOUT_SECONDS = 600


def delta_jars(progress: Progress | None = None) -> tuple[Path, ...]:
    """The jars that a Spark driver with Delta needs; fetched when the cache does not have them."""
    folder = cache_dir() / f"delta-{version('delta-spark')}" / "jars"
    if not _kept(folder):
        if progress:
            progress(f"fetching the Delta Lake {version('delta-spark')} jars (once)")
        _keep(_resolve(), folder)
    return _kept(folder)


def _kept(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("*.jar")))


def _keep(jars: list[Path], folder: Path) -> None:
    """Copy beside the target and rename: another process sees all jars or none."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".jars-", dir=folder.parent))
    except OSError as error:
        raise DeltaJarUnavailable(
            f"the cache folder {folder.parent} cannot be written",
            detail=str(error),
            hint="set FRESHLAKE_CACHE to a folder you may write to",
        ) from error
    for jar in jars:
        shutil.copy2(jar, part / jar.name)
    part.chmod(0o755)
    try:
        part.rename(folder)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        if not _kept(folder):
            raise


def _resolve() -> list[Path]:
    with tempfile.TemporaryDirectory(prefix="freshlake-jars-") as scratch:
        script = Path(scratch) / "tell.py"
        script.write_text(_TELL, encoding="utf-8")
        try:
            run = subprocess.run(
                _command(script),
                env=_environment(),
                cwd=scratch,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise _unavailable(f"no answer from the Maven repository in {_TIMEOUT_SECONDS} seconds") from error
    answer = [line for line in run.stdout.splitlines() if line.startswith("jars=")]
    jars = [Path(name.removeprefix("file:")) for name in answer[0][5:].split(",") if name] if answer else []
    if run.returncode or not jars:
        raise _unavailable(_reason(run.stdout + "\n" + run.stderr))
    return jars


def _command(script: Path) -> list[str]:
    spark_version = ".".join(version("pyspark").split(".")[:2])
    return [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", "local[1]"),
        *("--packages", f"io.delta:delta-spark_{spark_version}_2.13:{version('delta-spark')}"),
        *("--exclude-packages", ",".join(_IN_SPARK)),
        str(script),
    ]


def _environment() -> dict[str, str]:
    environment = dict(os.environ, JAVA_HOME=str(find_java().home), SPARK_HOME=str(spark_home()))
    environment.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    environment.pop("PYSPARK_SUBMIT_ARGS", None)
    # Spark's second default repository may be unreachable and then costs minutes of timeouts.
    environment.setdefault("DEFAULT_ARTIFACT_REPOSITORY", _CENTRAL)
    return environment


def _reason(output: str) -> str:
    telling = (
        "unresolved dependency",
        "UNRESOLVED",
        "Server access error",
        "Connection",
        "Exception in thread",
        "Error",
    )
    lines = [line.strip(" :\t") for line in output.splitlines() if any(word in line for word in telling)]
    return "; ".join(dict.fromkeys(lines[:3])) or "spark-submit could not resolve the Delta package"


def _unavailable(detail: str) -> DeltaJarUnavailable:
    return DeltaJarUnavailable(
        "the Delta jars are not in the local cache and could not be fetched",
        detail=detail,
        hint="connect to the network once and run `python -m freshlake.session`; "
        "behind a mirror set DEFAULT_ARTIFACT_REPOSITORY to its address",
    )


def spark_home() -> Path:
    """The Spark inside the pyspark package, whatever SPARK_HOME says: another version would not fit."""
    import pyspark

    return Path(pyspark.__file__).parent
