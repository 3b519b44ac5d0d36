"""Removing what nobody needs: orphan versions, folded versions, and files that no kept version refers to."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from freshlake.errors import CommitConflict, InvalidArgument
from freshlake.storage.certificate import Note, NoteKind
from freshlake.storage.commits import commit_properties, notes, open_table
from freshlake.storage.layout import BASE, VERSION
from freshlake.storage.log import Log, LogFile

# Files that are not in any commit may belong to a write that is still going on.
_ORPHAN_HOURS = 24


def rollback(path: str, upto: int, epoch: int) -> None:
    """Drop log versions after `upto`, which were never recorded; repeating it changes nothing.

    The certificate of `upto` may be older than the history that the log keeps: then it has none until the next version.
    """
    log = Log(path)
    if log.head <= upto:
        return
    note = Note(NoteKind.ROLLBACK, log.known_certificate(upto))
    # An orphan load moved the floor; what it loaded does not count any more.
    removals = _removals(log.stored_files(upto, log.head))
    log.commit(removals, note, epoch, head=upto, floor=min(log.floor, upto))


def cleanup(path: str, keep_after: int, folded: int, epoch: int) -> int:
    """Drop the files of log versions up to `keep_after` that are folded; returns how many files that were.

    `folded` is that of the oldest fold point still in use, so nothing is dropped that a reader has to add to a base.
    """
    try:
        return _cleanup(path, min(keep_after, folded), epoch)
    except CommitConflict:  # a refresh came in between
        return _cleanup(path, min(keep_after, folded), epoch)


def _cleanup(path: str, upto: int, epoch: int) -> int:
    log = Log(path)
    upto = min(upto, log.head)
    if upto <= log.floor:
        return 0
    files = log.files(log.floor, upto)
    log.commit(_removals(files), Note(NoteKind.CLEANUP, log.last_certificate()), epoch, floor=upto)
    return len(files)


def vacuum(path: str, keep_base: Iterable[int], min_age_seconds: int) -> int:
    """Delete files that were removed at least `min_age_seconds` ago and that no kept version needs.

    `keep_base` are the base versions of all fold points in use; the newest one is always kept. Returns how many files
    were deleted.
    """
    if min_age_seconds < 0:
        raise InvalidArgument("min_age_seconds must not be negative")
    hours = math.ceil(min_age_seconds / 3600)
    base_note = next((note for _, note in notes(f"{path}/{BASE}") if note is not None), None)
    folded = base_note.folded_version if base_note is not None else None
    certificate = base_note.certificate if base_note is not None else None
    deleted = _vacuum(f"{path}/{BASE}", sorted(set(keep_base)), hours, Note(NoteKind.VACUUM, certificate, folded))
    log = Log(path)
    return deleted + _vacuum(log.path, (), hours, Note(NoteKind.VACUUM, log.last_certificate()))


def _vacuum(path: str, keep: Sequence[int], hours: int, note: Note) -> int:
    """Delete files that were removed so long ago, and orphans."""
    if hours >= _ORPHAN_HOURS:
        return _deleted(path, keep, hours, note, orphans=True)
    return _deleted(path, keep, hours, note) + _deleted(path, keep, _ORPHAN_HOURS, note, orphans=True)


def _deleted(path: str, keep: Sequence[int], hours: int, note: Note, orphans: bool = False) -> int:
    table = open_table(path)
    try:
        files = table.vacuum(
            retention_hours=hours,
            dry_run=False,
            enforce_retention_duration=False,
            commit_properties=commit_properties(note),
            full=orphans,
            keep_versions=[version for version in keep if version != table.version()] or None,
        )
    except CommitFailedError as error:
        raise CommitConflict(f"another writer committed to {path} during its clean-up", detail=str(error)) from error
    return len(files)


def _removals(files: Sequence[LogFile]) -> list[RemoveAction]:
    now = int(time.time() * 1000)
    return [RemoveAction(file.relative, True, now, file.data.size, {VERSION: str(file.version)}) for file in files]
