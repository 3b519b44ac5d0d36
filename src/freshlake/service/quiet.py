"""Errors reach the caller as Freshlake errors, and not the terminal as well."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.logger import PySparkLogger


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """PySpark logs every failed query with its JVM stack; not inside this block."""
    loggers = [PySparkLogger.getLogger(n) for n in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
