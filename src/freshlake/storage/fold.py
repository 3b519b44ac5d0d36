"""Folding: log versions up to f are brought into the base in one commit that says so.

A fold whose commit was never recorded by the caller is found by its note and continued from. Three forms, by cost:
append when nothing is removed, rewrite when the table is small or most of it is touched, one MERGE otherwise.
"""

from __future__ import annotations

import math
from enum import StrEnum
from itertools import takewhile

import pyarrow as pa
from delta.tables import DeltaTable as SparkDeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructField, StructType

from freshlake.errors import CommitConflict, InvariantViolated
from freshlake.storage.base import (
    Turn,
    driver_writable,
    follows,
    newest_note,
    noted,
    translated,
    write_base,
    write_rows,
)
from freshlake.storage.certificate import Certificate, Note, NoteKind
from freshlake.storage.changes import changes
from freshlake.storage.commits import notes
from freshlake.storage.identity import expand, prepare, same
from freshlake.storage.layout import BASE, FoldPoint, Limits
from freshlake.storage.log import Log
from freshlake.storage.netting import copies, negative, positive, totals
from freshlake.storage.partitions import excess_files
from freshlake.storage.read import State, open_base
from freshlake.storage.relation import WEIGHT, Relation, local_frame, weighted
from freshlake.storage.scan import Snapshot
from freshlake.storage.scan.columns import quoted
from freshlake.storage.small import small_rows

_MIB = 1024 * 1024
# Below this a rewrite takes no longer than the fixed cost of a MERGE.
_SMALL_BASE = 64 * _MIB
# MERGE reads what it touches twice, so beyond this share everything may as well be written once.
_MOST = 0.4
_FILE_BYTES = 128 * _MIB
_WRITER_BYTES = 8 * _MIB
_SMALL_FILE = 16 * _MIB
_MAX_SMALL_FILES = 50
_REMOVES = "__fl_removes"


class FoldForm(StrEnum):
    """How a fold is written."""

    APPEND = "append"
    REWRITE = "rewrite"
    MERGE = "merge"


def fold(
    spark: SparkSession,
    path: str,
    upto: int,
    point: FoldPoint,
    limits: Limits,
    epoch: int,
    form: FoldForm | None = None,
) -> FoldPoint:
    """Bring versions up to `upto` into the base under a lease; `form` overrides the choice.

    Raises LeaseLost when the holder of the lease was shut out.
    """
    if upto <= point.folded_version:
        return point
    try:
        return _fold(spark, Turn.take(path, epoch), upto, point, limits, form)
    except CommitConflict:
        Turn.take(path, epoch)  # a lost lease is the better answer
        raise


def _fold(
    spark: SparkSession, turn: Turn, upto: int, point: FoldPoint, limits: Limits, form: FoldForm | None
) -> FoldPoint:
    path = turn.path
    log = Log(path)
    start, intact = _start(turn, log, upto, point)
    base = open_base(path, start.base_version)
    delta = changes(spark, log, base.schema, start.folded_version, upto, base.schema.names, limits)
    if delta.is_empty and intact:
        return FoldPoint(start.base_version, upto)
    state = State(spark, base, limits=limits)
    chosen = (form or choose(state, delta)) if intact else FoldForm.REWRITE
    parent = None if chosen is FoldForm.REWRITE else base.version
    note = Note(NoteKind.FOLD, log.known_certificate(upto), folded_version=upto, parent=parent)
    with translated(path):
        _write(state, turn, delta, note, chosen)
    version = newest_note(turn, note)
    return FoldPoint(_compacted(spark, turn, version, note), upto)


def choose(state: State, delta: Relation) -> FoldForm:
    """The form that reads and writes least."""
    if delta.insert_only:
        return FoldForm.APPEND
    if delta.arrow is None or state.base.bytes <= _SMALL_BASE:
        return FoldForm.REWRITE
    touched = sum(file.size for file in state.touched(negative(delta.arrow)))
    return FoldForm.REWRITE if touched > state.base.bytes * _MOST else FoldForm.MERGE


def _start(turn: Turn, log: Log, upto: int, point: FoldPoint) -> tuple[FoldPoint, bool]:
    """Where to continue from, and whether the newest base is exactly that.

    If it is not (a foreign commit, a load or fold of versions that were rolled back), only a rewrite from the recorded
    point is right.
    """
    since = list(
        takewhile(lambda commit: commit[0] > point.base_version, notes(f"{turn.path}/{BASE}", turn.table.version()))
    )
    if not since:
        return point, True
    head, newest = since[0]
    if newest is None or any(note is None or not follows(version, note) for version, note in since):
        return point, False
    folded = newest.folded_version
    if folded is None or folded > upto or not _is_committed(log, folded, newest.certificate):
        return point, False
    return FoldPoint(head, folded), True


def _is_committed(log: Log, version: int, certificate: Certificate | None) -> bool:
    committed = log.known_certificate(version)
    return committed is not None and certificate is not None and committed.is_same_refresh(certificate)


def _write(state: State, turn: Turn, delta: Relation, note: Note, form: FoldForm) -> None:
    if form is FoldForm.APPEND and delta.insert_only:
        _append(state, turn, delta, note)
    elif form is FoldForm.MERGE and delta.arrow is not None:
        _merge(state, turn, delta.arrow, note)
    else:
        _rewrite(state, turn, delta, note)


def _rewrite(state: State, turn: Turn, delta: Relation, note: Note) -> None:
    deltas = [] if delta.is_empty else [delta]
    small = small_rows(state.base, deltas, (), state.limits, turn.path) if _is_writable(state) else None
    if small is not None:
        write_rows(turn, state.base.schema, small, note, "overwrite")
        return
    write_base(turn, state.with_deltas(deltas).coalesce(_writers(state)), note, "overwrite")


def _is_writable(state: State) -> bool:
    return driver_writable(state.base.schema, state.base.partition_columns)


def _append(state: State, turn: Turn, delta: Relation, note: Note) -> None:
    if delta.arrow is None or not _is_writable(state) or totals(delta.arrow)[0] > state.limits.rows:
        write_base(turn, expand(delta.dataframe(state.spark)), note, "append")
        return
    write_rows(turn, state.base.schema, copies(delta.arrow), note, "append")


def _merge(state: State, turn: Turn, entries: pa.Table, note: Note) -> None:
    """Delete every copy of a touched row and insert what is left of it, with the new rows."""
    removed = negative(entries)
    left = state.remaining(removed).toArrow()
    if negative(left).num_rows:
        raise InvariantViolated(f"the log of {turn.path} removes rows that are not in its base")
    if totals(entries)[0] + totals(left)[0] > state.limits.rows:
        # few entries may stand for more copies than the driver holds
        delta = Relation.of_arrow(entries, weighted(state.base.schema), insert_only=False)
        _rewrite(state, turn, delta, note)
        return
    added = [copies(positive(entries)), copies(left.select(entries.column_names).cast(entries.schema))]
    source = _source(state, removed.drop_columns([WEIGHT]), pa.concat_tables(added))
    schema = state.base.schema
    prepare(state.spark, schema)
    values: dict[str, str | Column] = {quoted(name): F.col(f"r.{quoted(name)}") for name in schema.names}
    target = SparkDeltaTable.forPath(state.spark, f"{turn.path}/{BASE}").alias("l")
    with noted(state.spark, note, turn):
        target.merge(
            source.alias("r"), F.col(f"r.{_REMOVES}") & same("l", "r", schema)
        ).whenMatchedDelete().whenNotMatchedInsert(~F.col(f"r.{_REMOVES}"), values).execute()


def _source(state: State, removed: pa.Table, added: pa.Table) -> DataFrame:
    marked = [
        rows.append_column(_REMOVES, pa.repeat(pa.scalar(removes), rows.num_rows))
        for rows, removes in ((removed, True), (added, False))
    ]
    schema = StructType([*state.base.schema.fields, StructField(_REMOVES, BooleanType())])
    return local_frame(state.spark, pa.concat_tables(marked), schema)


def _writers(state: State) -> int:
    size = state.base.bytes
    parallel = min(state.spark.sparkContext.defaultParallelism, math.ceil(size / _WRITER_BYTES))
    return max(1, parallel, math.ceil(size / _FILE_BYTES))


def _compacted(spark: SparkSession, turn: Turn, version: int, note: Note) -> int:
    """Keep the number of small files that appends leave behind within bounds.

    It has no number: one that comes too late changes no rows, and is known by its parent.
    """
    base: Snapshot = open_base(turn.path, version)
    if excess_files(base.files, _SMALL_FILE) < _MAX_SMALL_FILES:
        return version
    compacted = Note(NoteKind.COMPACT, note.certificate, note.folded_version, parent=version)
    with translated(turn.path), noted(spark, compacted):
        SparkDeltaTable.forPath(spark, f"{turn.path}/{BASE}").optimize().executeCompaction()
    return newest_note(turn, compacted)
