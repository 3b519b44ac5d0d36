"""The events, and for each when it is sent, how grave it is, and what its payload says."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from freshlake.words import word


class Event(StrEnum):
    """What an alert is about."""

    STALE_DATA = "stale_data"
    FALLING_BEHIND = "falling_behind"
    BUFFER_GROWTH_WARNING = "buffer_growth_warning"
    REINITIALIZE_NEEDED = "reinitialize_needed"
    AUTO_SUSPENDED = "auto_suspended"
    RESUMED = "resumed"
    REFRESH_COMPLETED = "refresh_completed"
    REFRESH_FAILED = "refresh_failed"
    FULL_REFRESH_REPLACED = "full_refresh_replaced"
    DIAMOND_PARTIAL_FAILURE = "diamond_partial_failure"
    FUSE_BLOWN = "fuse_blown"
    FULL_REFUSED = "full_refused"
    COMMITTED_BUT_NOT_MAINTAINED = "committed_but_not_maintained"
    VERIFICATION_FAILED = "verification_failed"
    QUARANTINED = "quarantined"
    REPAIRED = "repaired"
    REPAIR_FAILED = "repair_failed"
    DAEMON_TOOK_OVER = "daemon_took_over"
    DELIVERY_FAILED = "delivery_failed"
    CDC_TRANSITION = "cdc_transition"
    SLOT_LAG_EXCEEDS_THRESHOLD = "slot_lag_exceeds_threshold"
    REPLICATION_SLOT_MISSING = "replication_slot_missing"

    @classmethod
    def parse(cls, text: str) -> Event:
        """Read an event in any case."""
        return word(cls, text, "an event")


@dataclass(frozen=True)
class Description:
    """`payload` has every field that an alert of the event carries, with its meaning."""

    level: int
    when: str
    payload: Mapping[str, str]
    condition: bool = False
    """Whether it lasts: sent when it begins, and not again until it has ended."""


_ERROR = {"error_code": "code of the error", "error": "its message"}
_ROWS = {"rows_inserted": "rows that were added", "rows_deleted": "rows that were removed"}
_REFRESH = {"refresh_id": "id in the history"}
_AUDIT = {"audit_id": "id of the audit"}
_DIFFERENCE = {
    "missing": "rows that the query has and the table has not",
    "unexpected": "rows that the table has and the query has not",
}
_SLOT = {
    "source": "name of the source",
    "slot_name": "name of the slot, or null",
    "level": "`warning` or `critical`",
    "retained_bytes": "log that the server keeps",
    "lag_bytes": "what of it was not confirmed",
    "detail": "the same in words",
}

EVENTS: Mapping[Event, Description] = {
    Event.STALE_DATA: Description(
        logging.WARNING,
        "the contents are older than twice the schedule",
        {
            "staleness_seconds": "how old they are",
            "schedule_seconds": "how old they should be at most",
        },
        condition=True,
    ),
    Event.FALLING_BEHIND: Description(
        logging.WARNING,
        "refreshes take longer than the schedule allows",
        {"duration_ms": "how long the last one took", "schedule_seconds": "how long one may take"},
        condition=True,
    ),
    Event.BUFFER_GROWTH_WARNING: Description(
        logging.WARNING,
        "very many changes of a source wait to be read",
        {"source": "name of the source", "pending_rows": "changed rows that wait", "limit": "how many are too many"},
        condition=True,
    ),
    Event.REINITIALIZE_NEEDED: Description(
        logging.WARNING,
        "the table must be rebuilt, and the refresh that should have done it failed",
        {"reason": "why it must be rebuilt", **_ERROR},
        condition=True,
    ),
    Event.AUTO_SUSPENDED: Description(
        logging.ERROR,
        "its refreshes failed too often, or a source is gone: the status is ERROR",
        {"consecutive_errors": "failed refreshes in a row", **_ERROR},
    ),
    Event.RESUMED: Description(
        logging.INFO,
        "a table that was suspended, in ERROR or in quarantine is ACTIVE again",
        {"previous_status": "SUSPENDED, ERROR or QUARANTINED", "by": "`request`, or `refresh` for one that succeeded"},
    ),
    Event.REFRESH_COMPLETED: Description(
        logging.INFO,
        "a refresh committed; not sent when it found nothing to do",
        {
            **_REFRESH,
            "action": "what it did",
            "reason": "reason code, or null",
            **_ROWS,
            "rows_updated": "pairs of both with one key, or null",
            "duration_ms": "how long it took",
            "version": "version of the table afterwards",
            "data_timestamp": "the moment the contents equal the query at",
        },
    ),
    Event.REFRESH_FAILED: Description(
        logging.WARNING,
        "a refresh failed and was counted",
        {**_ERROR, "detail": "more about it, or null", "hint": "what to do, or null", "consecutive_errors": "in a row"},
    ),
    Event.FULL_REFRESH_REPLACED: Description(
        logging.INFO,
        "a FULL or REINITIALIZE computed all contents anew; not sent for the first load",
        {
            **_REFRESH,
            "action": "FULL or REINITIALIZE",
            "reason": "reason code",
            **_ROWS,
            "rows": "rows of the table afterwards, or null",
        },
    ),
    Event.DIAMOND_PARTIAL_FAILURE: Description(
        logging.ERROR,
        "a member of a diamond or group failed, so the table stays at its last consistent state",
        {"members": "tables that are published together", "failed": "those that failed"},
        condition=True,
    ),
    Event.FUSE_BLOWN: Description(
        logging.ERROR,
        "a change was larger than the table's fuse allows: a person must decide",
        {"changed_rows": "size of the change", "fuse_rows": "largest change allowed"},
    ),
    Event.FULL_REFUSED: Description(
        logging.WARNING,
        "a refresh would have been FULL, which the table forbids",
        {
            "bound": "never_full, max_full_rows or max_full_seconds",
            "reason": "why it would have been FULL",
            "rows": "rows it would have computed, or null",
            "seconds": "seconds it is estimated to take, or null",
            "limit": "rows or seconds allowed, or null",
        },
    ),
    Event.COMMITTED_BUT_NOT_MAINTAINED: Description(
        logging.ERROR,
        "a write was committed, but tables in mode IMMEDIATE could not follow it",
        {"source": "what was written", "version": "its version", "dependants": "tables that are stale now", **_ERROR},
    ),
    Event.VERIFICATION_FAILED: Description(
        logging.ERROR,
        "the stored rows are not those of the query",
        {**_DIFFERENCE, "compared_rows": "rows of the table"},
    ),
    Event.QUARANTINED: Description(
        logging.ERROR,
        "an audit found that the stored rows are not those of the query: the table is not refreshed, its readers wait",
        {**_AUDIT, **_DIFFERENCE, "readers": "stream tables that wait"},
    ),
    Event.REPAIRED: Description(
        logging.WARNING,
        "rows that an audit had found wrong were put right, and the quarantine has ended",
        {
            **_AUDIT,
            "refresh_id": "id of the repair in the history; null if nothing was left to put right",
            **_ROWS,
            "rebuilt_readers": "stream tables that did not take over the wrong rows and are rebuilt next",
        },
    ),
    Event.REPAIR_FAILED: Description(
        logging.ERROR,
        "rows that an audit found wrong could not be put right: the table stays in quarantine until a person decides",
        {**_AUDIT, "reason": "why not"},
    ),
    Event.DELIVERY_FAILED: Description(
        logging.WARNING,
        "new rows could not be brought to a table of a database; they are tried again",
        {"target": "source, schema and table", **_ERROR},
    ),
    Event.DAEMON_TOOK_OVER: Description(
        logging.WARNING,
        "a daemon goes on with the work of another one, which died or was silent for too long; about no table",
        {
            "owner": "the one that goes on",
            "previous_owner": "the one that is gone",
            "last_heard_of": "when it was last awake",
            "tables": "what it was working on, perhaps nothing",
        },
    ),
    Event.CDC_TRANSITION: Description(
        logging.INFO,
        "a source database goes from one kind of capture to the other, or back; about no stream table",
        {
            "transition": "`transition_start`, `transition_complete` or `transition_rolled_back`",
            "source": "name of the source",
            "tables": "its captured tables",
            "old_mode": "how they were captured",
            "new_mode": "how they are captured now",
            "reason": "why it was taken back, or null",
        },
    ),
    Event.SLOT_LAG_EXCEEDS_THRESHOLD: Description(
        logging.WARNING,
        "a server keeps much log for the slot of a source, or so much more that it is critical; about no stream table",
        _SLOT,
        condition=True,
    ),
    Event.REPLICATION_SLOT_MISSING: Description(
        logging.ERROR,
        "the slot of a source is gone or was invalidated, and changes with it; about no stream table",
        _SLOT,
        condition=True,
    ),
}
