"""What a range of commits holds, from the transaction log alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from freshlake.sources.delta.files import LogFiles
from freshlake.sources.delta.net import NetChange, net_change
from freshlake.sources.delta.schema import SchemaChange, compare, table_schema
from freshlake.sources.protocol import ChangeKind, Triage
from freshlake.storage.scan.actions import Commit

# How many rows one operation changed, as Spark and delta-rs report it: an update is a removal and an addition.
_METRICS = {
    "numUpdatedRows": 2,
    "numDeletedRows": 1,
    "numTargetRowsInserted": 1,
    "numTargetRowsUpdated": 2,
    "numTargetRowsDeleted": 1,
    "num_updated_rows": 2,
    "num_deleted_rows": 1,
    "num_target_rows_inserted": 1,
    "num_target_rows_updated": 2,
    "num_target_rows_deleted": 1,
}
_MEASURED = frozenset({"UPDATE", "DELETE", "MERGE"})
_EMPTYING = frozenset({"DELETE", "TRUNCATE"})
_EVERYTHING = frozenset({"", "[]", '["true"]', "true"})


def schema_change(commits: Sequence[Commit], start: StructType) -> SchemaChange:
    """All that happened to the columns, step by step: a column that changed and changed back has changed."""
    changes, current = SchemaChange(), start
    for commit in commits:
        if commit.metadata is not None:
            new = table_schema(commit.metadata)
            changes += compare(current, new)
            current = new
    return changes


def judge(files: LogFiles, schema: SchemaChange) -> tuple[Triage, NetChange]:
    """The verdict on the rows and the columns, and what would have to be read."""
    net = net_change(files)
    kind = ChangeKind.NONE
    if any(commit.added or commit.removed or commit.cdc for commit in files.commits):
        kind = ChangeKind.INSERT_ONLY if net.insert_only else ChangeKind.MUTATING
    triage = Triage(
        ChangeKind.SCHEMA_CHANGED if schema else kind,
        changed_rows(files),
        net.bytes,
        "; ".join(schema.reasons) or None,
        any(_empties(commit) for commit in files.commits),
        schema.added,
        schema.changed,
        kind,
    )
    return triage, net


def changed_rows(files: LogFiles) -> int | None:
    """How many rows the commits added and removed, as far as the log says."""
    changing = [commit for commit in files.commits if commit.added or commit.removed or commit.cdc]
    counts = [_changed_rows(commit, files) for commit in changing]
    return None if None in counts else sum(count for count in counts if count is not None)


def _changed_rows(commit: Commit, files: LogFiles) -> int | None:
    measured = _measured(commit.metrics) if commit.operation in _MEASURED else None
    if measured is not None:
        return measured
    added, removed = ({a.path: files.rows(a) for a in side} for side in (commit.added, commit.removed))
    total = 0
    for path in {**added, **removed}:
        before, after = removed.get(path, 0), added.get(path, 0)
        if before is None or after is None:
            return None
        total += abs(after - before)  # the same file on both sides only lost or regained rows
    return total


def _measured(metrics: Mapping[str, Any]) -> int | None:
    found = [int(metrics[name]) * rows for name, rows in _METRICS.items() if name in metrics]
    return sum(found) if found else None


def _empties(commit: Commit) -> bool:
    """A deletion without condition: nothing was left."""
    everything = str(commit.parameters.get("predicate", "")) in _EVERYTHING
    return commit.operation in _EMPTYING and everything and bool(commit.removed) and not commit.adds
