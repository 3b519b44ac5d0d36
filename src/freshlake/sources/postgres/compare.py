"""What DDL did to a captured table: two descriptions side by side."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum

from freshlake.sources.postgres.tables import Captured, Column, Table, refusal
from freshlake.sources.postgres.types import text_in_buffer


class Reason(StrEnum):
    """Why a table must be copied anew instead of following its changes."""

    TABLE_DROPPED = "table-dropped"
    SCHEMA_CHANGED = "schema-changed"
    TABLE_REWRITTEN = "table-rewritten"
    PARTITIONS_CHANGED = "partitions-changed"
    PARTITION_TRUNCATED = "partition-truncated"
    CAPTURE_MISSING = "capture-missing"
    IDENTITY_CHANGED = "identity-changed"
    VALUE_NOT_REPRESENTABLE = "value-not-representable"


@dataclass(frozen=True)
class Difference:
    """What is different from the description that capture was made with; names of columns as they were then."""

    dropped: bool = False
    renamed_to: str | None = None
    added_columns: tuple[str, ...] = ()
    changed_columns: tuple[str, ...] = ()
    rewritten: bool = False
    added_partitions: tuple[str, ...] = ()
    removed_partitions: tuple[str, ...] = ()
    changed_position: bool = False
    row_security_changed: bool = False

    @property
    def reason(self) -> Reason | None:
        """Why the table must be copied anew; None if its changes can still be followed."""
        if self.dropped:
            return Reason.TABLE_DROPPED
        if self.changed_columns:
            return Reason.SCHEMA_CHANGED
        if self.added_partitions or self.removed_partitions or self.changed_position:
            return Reason.PARTITIONS_CHANGED
        return Reason.TABLE_REWRITTEN if self.rewritten else None

    @property
    def detail(self) -> str:
        """The difference in words."""
        parts = {
            "columns changed": self.changed_columns,
            "partitions added": self.added_partitions,
            "partitions removed": self.removed_partitions,
        }
        words = [f"{what}: {', '.join(names)}" for what, names in parts.items() if names]
        words += ["the table was dropped"] * self.dropped
        words += ["the rows were written anew by ALTER TABLE"] * self.rewritten
        words += ["it became, or is no longer, a partition, a child or a subscriber's table"] * self.changed_position
        return "; ".join(words)


def compare(captured: Captured, now: Table | None) -> Difference:
    """What happened to a table since it was described for capture."""
    if now is None:
        return Difference(dropped=True)
    then = captured.table
    by_number = {column.number: column for column in now.columns}
    changed = tuple(c.name for c in captured.columns if not _same(captured, c, by_number.get(c.number), now))
    known = {column.number for column in then.columns}
    before = {p.oid: p for p in then.partitions}
    after = {p.oid: p for p in now.partitions}
    return Difference(
        renamed_to=now.full_name if now.full_name != then.full_name else None,
        added_columns=tuple(c.name for c in now.columns if c.number not in known),
        changed_columns=changed,
        rewritten=_is_rewritten(captured, now),
        added_partitions=tuple(after[oid].full_name for oid in after if oid not in before),
        removed_partitions=tuple(before[oid].full_name for oid in before if oid not in after),
        changed_position=_position(then) != _position(now),
        row_security_changed=then.row_security != now.row_security,
    )


def _same(captured: Captured, then: Column, now: Column | None, table: Table) -> bool:
    """Whether a column still means the same; a longer varchar does, since the lake holds both as text."""
    if now is None or now.name != then.name or now.type.oid != then.type.oid or now.generated != then.generated:
        return False
    # a label that was renamed shows in every row that has it; one that was added shows in none
    if not then.type.all_labels <= now.type.all_labels or refusal(table, now, captured.as_text) is not None:
        return False
    moved = Captured(table, (now,), captured.as_text)
    return captured.lake_type(then) == moved.lake_type(now) and text_in_buffer(then.type) == text_in_buffer(now.type)


def _is_rewritten(captured: Captured, now: Table) -> bool:
    """Whether ALTER TABLE may have computed values anew (`ALTER COLUMN … TYPE … USING`), which nobody captures.

    It leaves new storage and new catalog rows of the columns; VACUUM FULL and TRUNCATE only new storage, a default or a
    comment only new catalog rows.
    """
    made = {column.number: column.made for column in now.columns}
    altered = any(made.get(c.number, c.made) != c.made for c in captured.columns)
    return altered and _storage(captured.table) != _storage(now)


def _storage(table: Table) -> dict[int, int]:
    return {table.oid: table.storage, **{p.oid: p.storage for p in table.partitions}}


def _position(table: Table) -> tuple[object, ...]:
    return table.kind, table.has_parent, table.has_children, table.is_subscribed


def fingerprint(captured: Captured) -> str:
    """A short text that changes whenever `compare` would find a reason, or columns were added."""
    table = captured.table
    facts = [
        [
            (c.number, c.name, c.type.oid, sorted(c.type.all_labels), captured.lake_type(c).spark, c.made)
            for c in captured.columns
        ],
        [(c.number, c.name) for c in table.columns],
        sorted(_storage(table).items()),
        [str(part) for part in _position(table)],
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
