"""The first load: the base is written by Spark, and counts only once the log's certificate names its version."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from freshlake.errors import CommitConflict
from freshlake.storage.append import already_committed, confirm
from freshlake.storage.base import newest_note, write_base
from freshlake.storage.certificate import Certificate, Note, NoteKind
from freshlake.storage.layout import FoldPoint, to_stored
from freshlake.storage.log import Log
from freshlake.storage.read import open_base


def load(path: str, stored: StructType, frame: DataFrame, ours: Certificate) -> FoldPoint:
    """Make `frame` the content of an empty table; after a crash before the log's commit it is still empty."""
    log = Log(path)
    done = already_committed(log, ours)
    if done is None:
        if log.head != 0:
            raise CommitConflict(f"{path} is loaded already", detail=f"it is at version {log.head}")
        done = _load(path, log, stored, frame, ours)
    if done.base_version is None:
        raise CommitConflict(f"version {ours.version} of {path} was not a load")
    return FoldPoint(done.base_version, ours.version)


def _load(path: str, log: Log, stored: StructType, frame: DataFrame, ours: Certificate) -> Certificate:
    note = Note(NoteKind.LOAD, ours, folded_version=ours.version)
    write_base(path, to_stored(frame, stored), note, "overwrite")
    base = open_base(path)
    if base.version or base.rows:  # Spark makes no commit for no rows at all
        newest_note(path, note)
    rows = base.rows
    final = replace(ours, base_version=base.version, row_count=rows, rows_inserted=rows or 0)
    # Nothing of this version is in the log, so the log begins after it.
    log.commit((), Note(NoteKind.LOAD, final), head=ours.version, floor=ours.version)
    return confirm(log, final)
