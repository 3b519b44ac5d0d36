"""Turn exceptions of Spark and of the storage into Freshlake errors: the message stays, the JVM stack does not."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from freshlake.compiler.refusals import LATERAL_JOIN, NESTED_VIEWS, Position
from freshlake.errors import (
    CommitConflict,
    DataError,
    FreshlakeError,
    InvalidQuery,
    InvariantViolated,
    RecursionLimit,
    RefreshFailed,
    SourceHistoryLost,
    TableNotFound,
)
from freshlake.storage.failures import FAILURES, failure

_DATA = re.compile(
    r"\[(DIVIDE_BY_ZERO|ARITHMETIC_OVERFLOW|CAST_OVERFLOW\w*|CAST_INVALID_INPUT|NUMERIC_VALUE_OUT_OF_RANGE\S*|"
    r"INVALID_ARRAY_INDEX\S*|MAP_KEY_DOES_NOT_EXIST|SCALAR_SUBQUERY_TOO_MANY_ROWS|REMAINDER_BY_ZERO|"
    r"INTERVAL_\w+|DATETIME_\w+|INVALID_\w+|CANNOT_PARSE_\w+|USER_RAISED_EXCEPTION|DECIMAL_\w+|BINARY_ARITHMETIC_OVERFLOW)"
)
_REFUSED = {"INVALID_LATERAL_JOIN_TYPE": LATERAL_JOIN, "VIEW_EXCEED_MAX_NESTED_DEPTH": NESTED_VIEWS}
"""Spark's own conditions for what a stream table cannot have."""

_HISTORY = re.compile(
    r"\[DELTA_(UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION|MISSING_CHANGE_DATA|LOG_FILE_NOT_FOUND|"
    r"FILE_NOT_FOUND|TRUNCATED_TRANSACTION_LOG|VERSION_NOT_FOUND|VERSIONS_NOT_CONTIGUOUS|NO_RECREATABLE_HISTORY_FOUND)"
)
"""Delta's conditions for a version, or what led to it, that is no longer there."""
_MISSING_FILE = re.compile(r"FILE_NOT_EXIST|FileNotFoundException|PATH_NOT_FOUND|does not exist")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise Freshlake errors for whatever Spark, files, Arrow or delta-rs raise inside the block."""
    try:
        yield
    except FreshlakeError:
        raise
    except (PySparkException, Py4JError) as error:
        raise translate(error) from error
    except FAILURES as error:
        raise failure(error) from error


def translate(error: Exception) -> FreshlakeError:
    message = first_lines(error)
    for condition, refusal in _REFUSED.items():
        if condition in message:
            return refusal.raised(_position(message))
    if isinstance(error, ParseException):
        return InvalidQuery(message)
    if "freshlake: a row has a negative number of copies" in message:
        return InvariantViolated(message)
    if _HISTORY.search(message):
        return SourceHistoryLost("a version that this refresh reads is no longer kept", detail=message)
    if isinstance(error, AnalysisException) and not _MISSING_FILE.search(message):
        return _analysis(error, message)
    return _running(message)


def _running(message: str) -> FreshlakeError:
    if "RECURSION_LEVEL_LIMIT_EXCEEDED" in message or "RECURSION_ROW_LIMIT_EXCEEDED" in message:
        return RecursionLimit("the recursive query does not end within its limits", detail=message)
    if _DATA.search(message):
        return DataError(message)
    if _MISSING_FILE.search(message):
        return SourceHistoryLost("a data file that this refresh reads is gone", detail=message)
    if "Concurrent" in message and "Exception" in message:
        return CommitConflict("another writer changed the table at the same time", detail=message)
    return RefreshFailed("Spark could not run the query", detail=message)


def _analysis(error: AnalysisException, message: str) -> FreshlakeError:
    if "TABLE_OR_VIEW_NOT_FOUND" in message or "SCHEMA_NOT_FOUND" in message:
        return TableNotFound(
            message, hint="check the name; a temporary view belongs to one session and cannot be part of a definition"
        )
    return InvalidQuery(message)


def _position(message: str) -> Position | None:
    """Spark counts a `pos` from 0 and a `position` from 1."""
    found = re.search(r"line (\d+),? (pos|position) (\d+)", message)
    return (int(found[1]), int(found[3]) + (found[2] == "pos")) if found else None


def first_lines(error: Exception) -> str:
    """The part of an error a person reads: no plan dump, no stack."""
    text = _java_message(error) if isinstance(error, Py4JJavaError) else str(error)
    head = re.split(r"\n\s*at |\nJVM stacktrace|\nDriver stacktrace|;\n'", text)[0]
    head = re.sub(r"(SQLSTATE: \w{5}|pos \d+);\n.*", r"\1", head, flags=re.DOTALL)
    lines = [line.rstrip() for line in head.splitlines() if line.strip()]
    return "\n".join(lines[:8])


def _java_message(error: Py4JJavaError) -> str:
    """What the deepest cause that says anything says: the timeout that ends a broadcast has no message of its own."""
    told = cause = error.java_exception
    while (cause := cause.getCause()) is not None:
        told = cause if cause.getMessage() else told
    return ": ".join(filter(None, (told.getClass().getSimpleName(), told.getMessage())))
