"""Any failure as an error with code, message and hint: no stack trace reaches the user unasked."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from freshlake.errors import FreshlakeError, InternalError
from freshlake.refresh.spark_errors import translate


def as_freshlake_error(error: Exception) -> FreshlakeError:
    """The error itself when it is ours; Spark's message without its stack; anything else is a defect and said so."""
    if isinstance(error, FreshlakeError):
        return error
    if isinstance(error, PySparkException | Py4JError):
        return translate(error)
    return InternalError(
        f"{type(error).__name__}: {error}",
        hint="this should not happen; please report it with the output of the same command with --debug",
    )
