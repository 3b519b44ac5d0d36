"""What Spark and the storage raise is told as an error of Freshlake, in the words of the cause that has any."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from freshlake.errors import (
    CommitConflict,
    DataError,
    FreshlakeError,
    InvalidQuery,
    RefreshFailed,
    SourceHistoryLost,
    TableNotFound,
)
from freshlake.refresh.spark_errors import translate, translated
from freshlake.storage.failures import may_pass


@dataclass
class Thrown:
    """A Java exception as Py4J hands it over."""

    kind: str
    message: str | None = None
    cause: Thrown | None = None
    _target_id: str = "o1"

    def getClass(self) -> Thrown:
        return self

    def getSimpleName(self) -> str:
        return self.kind

    def getMessage(self) -> str | None:
        return self.message

    def getCause(self) -> Thrown | None:
        return self.cause


def told(*causes: Thrown) -> FreshlakeError:
    for outer, inner in pairwise(causes):
        outer.cause = inner
    return translate(Py4JJavaError("An error occurred", causes[0]))


def test_the_deepest_cause_is_told() -> None:
    error = told(Thrown("SparkException", "Job aborted"), Thrown("IOException", "No space left on device"))
    assert isinstance(error, RefreshFailed)
    assert error.detail == "IOException: No space left on device"


def test_a_cause_without_words_leaves_it_to_what_it_caused() -> None:
    outer = Thrown("SparkException", "Could not execute broadcast in 300 secs.")
    assert told(outer, Thrown("TimeoutException")).detail == "SparkException: Could not execute broadcast in 300 secs."


def test_nobody_says_a_word() -> None:
    assert told(Thrown("StackOverflowError")).detail == "StackOverflowError"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", DataError),
        ("[CAST_INVALID_INPUT] The value 'x' cannot be cast. SQLSTATE: 22018", DataError),
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] Error while reading file:/x. SQLSTATE: KD001", SourceHistoryLost),
        ("ConcurrentAppendException: files were added by a concurrent update", CommitConflict),
        ("something else", RefreshFailed),
    ],
)
def test_what_went_wrong_decides_the_error(message: str, kind: type[FreshlakeError]) -> None:
    assert type(told(Thrown("SparkException", "Job aborted"), Thrown("Cause", message))) is kind


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found. SQLSTATE: 42P01; line 1 pos 14;", TableNotFound),
        (
            "[DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION] Cannot time travel beyond "
            "delta.deletedFileRetentionDuration (168 HOURS) set on the table. SQLSTATE: 0AKDC",
            SourceHistoryLost,
        ),
        ("[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 3.", SourceHistoryLost),
        ("[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [1 , 2].", SourceHistoryLost),
        ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. SQLSTATE: 42703", InvalidQuery),
    ],
)
def test_what_analysis_finds_is_the_users_to_mend(message: str, kind: type[FreshlakeError]) -> None:
    assert type(translate(AnalysisException(message))) is kind


def test_the_plan_and_the_stack_stay_away() -> None:
    said = "[UNRESOLVED_COLUMN] no `x`. SQLSTATE: 42703; line 1 pos 7"
    error = translate(AnalysisException(f"{said};\n'Project ['x]\n+- Relation\n\nJVM stacktrace:\nat a.b"))
    assert error.message == said


def test_an_error_of_freshlake_passes_unchanged() -> None:
    raised = DataError("as it is")
    with pytest.raises(DataError) as caught, translated():
        raise raised
    assert caught.value is raised


@pytest.mark.parametrize(
    ("raised", "message", "hint"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full", "free space"),
        (OSError("Generic LocalFileSystem error: No space left on device (os error 28)"), "the disk is full", "free"),
        (OSError(errno.ESTALE, "Stale file handle"), "files could not be read or written", "storage"),
        (DeltaError("Generic S3 error"), "files could not be read or written", "storage"),
        (pa.ArrowInvalid("Parquet magic bytes not found"), "files could not be read or written", "storage"),
        (MemoryError(), "this process has not enough memory", "memory"),
    ],
)
def test_what_storage_raises_may_pass(raised: Exception, message: str, hint: str) -> None:
    with pytest.raises(RefreshFailed) as caught, translated():
        raise raised
    assert caught.value.message == message
    assert hint in str(caught.value.hint)
    assert str(caught.value.detail).startswith(type(raised).__name__)


@pytest.mark.parametrize(
    ("raised", "passes"),
    [
        (OSError(errno.EIO, "Input/output error"), True),
        (PermissionError(errno.EACCES, "Permission denied"), True),
        (pa.ArrowMemoryError("malloc failed"), True),
        (FileNotFoundError(errno.ENOENT, "No such file"), False),
        (OSError("Couldn't deserialize thrift"), False),
        (OSError("Generic LocalFileSystem error: Too many open files (os error 24)"), True),
        (OSError("Object at location x not found: No such file or directory (os error 2)"), False),
        (pa.ArrowInvalid("Parquet magic bytes not found"), False),
    ],
)
def test_damage_does_not_pass(raised: Exception, passes: bool) -> None:
    assert may_pass(raised) is passes
