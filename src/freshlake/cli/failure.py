"""Any failure as an error with code, message and hint: no stack trace reaches the user unasked."""

from __future__ import annotations

import logging

from freshlake.errors import FreshlakeError, InternalError

FAILED = 1
"""The exit code of a command that failed."""
_PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def silence_spark() -> None:
    """PySpark writes a failed query with its JVM stack to stderr, and Py4J an interrupted one; raising is enough."""
    for name in _PYSPARK_LOGGERS:
        logging.getLogger(name).disabled = True
    logging.getLogger().addFilter(_not_from_py4j)


def silence_alerts() -> None:
    """Without a handler Python would write alerts to stderr, beside what the command shows of them itself."""
    logger = logging.getLogger("freshlake.alerts")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def _not_from_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def as_freshlake_error(error: Exception) -> FreshlakeError:
    """The error itself when it is ours; Spark's message without its stack; anything else is a defect and said so."""
    if isinstance(error, FreshlakeError):
        return error
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        # Late: whoever fails before Spark is needed should not wait for it.
        from freshlake.refresh.spark_errors import translate

        return translate(error)
    return InternalError(
        f"{type(error).__name__}: {error}",
        hint="this should not happen; please report it with the output of the same command with --debug",
    )
