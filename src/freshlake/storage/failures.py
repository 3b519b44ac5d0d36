"""What files, Arrow and delta-rs raise when the machine or its storage fails: it may pass by itself.

A file that is gone, or that does not hold what it should, is no such failure: trying again does not help.
"""

from __future__ import annotations

import errno
import re

import pyarrow as pa
from deltalake.exceptions import DeltaError

from freshlake.errors import FreshlakeError, RefreshFailed, StorageCorrupt

FAILURES = (OSError, MemoryError, pa.ArrowException, DeltaError)

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS = ("no space left", "quota exceeded")
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
_NUMBER = re.compile(r"(?:os error |\[Errno )(\d+)")
"""How delta-rs and Python write the number of the system's error."""


def may_pass(error: BaseException) -> bool:
    """Whether a file could not be read for the moment; what is wrong with its bytes comes without a system's number."""
    number = _number(error)
    return isinstance(error, MemoryError) or (number is not None and number not in _GONE)


def _number(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    told = error.detail if isinstance(error, FreshlakeError) else error
    found = _NUMBER.search(str(told or ""))
    return int(found[1]) if found else None


def failure(error: BaseException) -> RefreshFailed:
    """One of FAILURES, in words."""
    message, hint = _words(error)
    return RefreshFailed(message, detail=detail(error), hint=f"{hint}; a scheduler tries again by itself")


def unread(error: BaseException, what: str) -> FreshlakeError:
    """Why what Freshlake stores cannot be read: for the moment, or because it is damaged, as `what` says."""
    return failure(error) if may_pass(error) else StorageCorrupt(what, detail=str(error))


def detail(error: BaseException) -> str:
    """What was raised, in one line."""
    return f"{type(error).__name__}: {error}".removesuffix(": ").replace("\n", " ")


def _words(error: BaseException) -> tuple[str, str]:
    if isinstance(error, MemoryError):
        return "this process has not enough memory", "give it more memory, or lower driver_result_bytes and driver_rows"
    if getattr(error, "errno", None) in _FULL or any(words in str(error).lower() for words in _FULL_WORDS):
        return "the disk is full", "free space on it"
    return (
        "files could not be read or written",
        "look at the storage that the detail names: is it mounted, can it be reached, may this user write there",
    )
