"""The fixed words of the catalog."""

from __future__ import annotations

from enum import StrEnum

from freshlake.words import word


class RefreshMode(StrEnum):
    """How a stream table is refreshed."""

    AUTO = "AUTO"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    IMMEDIATE = "IMMEDIATE"

    @classmethod
    def parse(cls, text: str) -> RefreshMode:
        """Read a mode in any case; INCREMENTAL is the older word for DIFFERENTIAL."""
        return word(cls, text, "a refresh mode", {"incremental": "differential"})


class CdcMode(StrEnum):
    """How changes of a source database are to be captured."""

    AUTO = "auto"
    TRIGGER = "trigger"
    WAL = "wal"


class Status(StrEnum):
    """The state of a stream table; only ACTIVE ones are refreshed on schedule.

    QUARANTINED is shown instead of the others, which come back after it, and is never stored.
    """

    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    ERROR = "ERROR"
    QUARANTINED = "QUARANTINED"


class Action(StrEnum):
    """What a refresh did."""

    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    REINITIALIZE = "REINITIALIZE"
    REPAIR = "REPAIR"
    SKIPPED = "SKIPPED"


class RefreshStatus(StrEnum):
    """The state of one refresh in the history."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class AuditOutcome(StrEnum):
    """How an audit ended. A MISMATCH that was put right is REPAIRED; one that could not be is UNREPAIRED."""

    EQUAL = "EQUAL"
    NOT_VERIFIED = "NOT_VERIFIED"
    MISMATCH = "MISMATCH"
    REPAIRED = "REPAIRED"
    UNREPAIRED = "UNREPAIRED"


class FoldPolicy(StrEnum):
    """When the log of a stream table is folded into its base."""

    ALWAYS = "always"
    AUTO = "auto"
    MANUAL = "manual"

    @classmethod
    def parse(cls, text: str) -> FoldPolicy:
        """Read a policy in any case."""
        return word(cls, text, "a fold policy")


class DefinitionKind(StrEnum):
    """How the query was given; a DataFrame cannot be rebuilt after the session that made it."""

    SQL = "sql"
    FUNCTION = "function"
    DATAFRAME = "dataframe"
    CAPTURE = "capture"
    """A mirror: it holds what a captured table of a source database holds."""


class SourceType(StrEnum):
    """What a stream table reads; a view is read through, its tables are the tracked sources.

    TIME is the current time, which is neither stored nor tracked. POSTGRES is a source database, read by its mirrors.
    """

    TABLE = "TABLE"
    STREAM_TABLE = "STREAM_TABLE"
    VIEW = "VIEW"
    TIME = "TIME"
    POSTGRES = "POSTGRES"


class TableKind(StrEnum):
    """What was made through `fl.sql`."""

    TABLE = "TABLE"
    VIEW = "VIEW"
    FUNCTION = "FUNCTION"
