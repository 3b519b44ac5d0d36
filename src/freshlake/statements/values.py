"""Stream table statements as frozen values; names are as written, without quotes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from freshlake.catalog import FoldPolicy, RefreshMode


@dataclass(frozen=True)
class CreateStreamTable:
    """CREATE STREAM TABLE; None means that the clause was not given. Keys of WITH (key = value, …) in lower case."""

    name: str
    query: str
    schedule: str | None = None
    refresh_mode: RefreshMode | None = None
    append_only: bool = False
    partition_by: tuple[str, ...] = ()
    fold: FoldPolicy | None = None
    with_data: bool = True
    or_replace: bool = False
    if_not_exists: bool = False
    dialect: str | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SetQuery:
    """ALTER STREAM TABLE … SET QUERY."""

    name: str
    query: str
    dialect: str | None = None


@dataclass(frozen=True)
class SetSchedule:
    """ALTER STREAM TABLE … SET SCHEDULE."""

    name: str
    schedule: str


@dataclass(frozen=True)
class SetRefreshMode:
    """ALTER STREAM TABLE … SET REFRESH MODE."""

    name: str
    refresh_mode: RefreshMode


@dataclass(frozen=True)
class SetOptions:
    """ALTER STREAM TABLE … SET (key = value, …); keys in lower case."""

    name: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SuspendStreamTable:
    """ALTER STREAM TABLE … SUSPEND."""

    name: str


@dataclass(frozen=True)
class ResumeStreamTable:
    """ALTER STREAM TABLE … RESUME."""

    name: str


@dataclass(frozen=True)
class DropStreamTable:
    """DROP STREAM TABLE."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class DropAllStreamTables:
    """DROP ALL STREAM TABLES."""


@dataclass(frozen=True)
class RefreshStreamTable:
    """REFRESH STREAM TABLE."""

    name: str
    full: bool = False


@dataclass(frozen=True)
class RefreshAllStreamTables:
    """REFRESH ALL STREAM TABLES."""


@dataclass(frozen=True)
class ShowStreamTables:
    """SHOW STREAM TABLES."""


@dataclass(frozen=True)
class ShowHealth:
    """SHOW STREAM TABLE HEALTH."""


@dataclass(frozen=True)
class ShowAlerts:
    """SHOW STREAM TABLE ALERTS."""


@dataclass(frozen=True)
class ShowAudits:
    """SHOW STREAM TABLE AUDITS; of all tables when none is named."""

    name: str | None = None


@dataclass(frozen=True)
class ShowHistory:
    """SHOW STREAM TABLE HISTORY."""

    name: str


@dataclass(frozen=True)
class ExplainStreamTable:
    """EXPLAIN STREAM TABLE."""

    name: str


@dataclass(frozen=True)
class VerifyStreamTable:
    """VERIFY STREAM TABLE."""

    name: str


@dataclass(frozen=True)
class AuditStreamTable:
    """AUDIT STREAM TABLE."""

    name: str


@dataclass(frozen=True)
class RepairStreamTable:
    """REPAIR STREAM TABLE."""

    name: str


@dataclass(frozen=True)
class FoldStreamTable:
    """FOLD STREAM TABLE."""

    name: str


@dataclass(frozen=True)
class CreateSource:
    """CREATE SOURCE; None means that the clause was not given. Names are in the case of the database."""

    name: str
    connection: str
    schemas: tuple[str, ...] | None = None
    tables: tuple[str, ...] | None = None
    as_text: tuple[str, ...] | None = None
    cdc_mode: str | None = None


@dataclass(frozen=True)
class AlterSource:
    """ALTER SOURCE … SET CDC MODE, or SET AS TEXT."""

    name: str
    cdc_mode: str | None = None
    as_text: tuple[str, ...] | None = None


@dataclass(frozen=True)
class DropSource:
    """DROP SOURCE."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class ShowSources:
    """SHOW SOURCES."""


@dataclass(frozen=True)
class Deliver:
    """DELIVER STREAM TABLE … TO."""

    name: str
    to: str


@dataclass(frozen=True)
class EndDelivery:
    """END DELIVERY TO."""

    to: str
    if_exists: bool = False


@dataclass(frozen=True)
class ShowDeliveries:
    """SHOW DELIVERIES."""


@dataclass(frozen=True)
class CreateRefreshGroup:
    """CREATE REFRESH GROUP."""

    name: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class DropRefreshGroup:
    """DROP REFRESH GROUP."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class VacuumStreamTable:
    """VACUUM STREAM TABLE."""

    name: str


@dataclass(frozen=True)
class WaitFor:
    """WAIT FOR STREAM TABLE … TO READ; None means that it was not said."""

    name: str
    source: str
    version: int | None = None
    timeout: float | None = None


@dataclass(frozen=True)
class ValidateQuery:
    """VALIDATE STREAM TABLE AS."""

    query: str
    dialect: str | None = None


class Shown(StrEnum):
    """What a SHOW statement, or one like it, asks for."""

    GROUPS = "groups"
    TREE = "tree"
    SOURCES = "sources"
    CHOICE = "choice"
    CHOICES = "choices"
    DIAGNOSIS = "diagnosis"
    WORKERS = "workers"
    JOBS = "jobs"
    SETTINGS = "settings"
    CDC_STATUS = "cdc status"
    CDC_HEALTH = "cdc health"
    CDC_SLOTS = "cdc slots"
    CDC_BUFFERS = "cdc buffers"


@dataclass(frozen=True)
class Show:
    """A statement that only looks; of all stream tables when none is named."""

    what: Shown
    name: str | None = None


@dataclass(frozen=True)
class ShowChanges:
    """SHOW STREAM TABLE CHANGES … SINCE."""

    name: str
    since: int


Statement = (
    CreateStreamTable
    | CreateSource
    | AlterSource
    | DropSource
    | ShowSources
    | Deliver
    | EndDelivery
    | ShowDeliveries
    | SetQuery
    | SetSchedule
    | SetRefreshMode
    | SetOptions
    | SuspendStreamTable
    | ResumeStreamTable
    | DropStreamTable
    | DropAllStreamTables
    | RefreshStreamTable
    | RefreshAllStreamTables
    | ShowStreamTables
    | ShowHealth
    | ShowAlerts
    | ShowAudits
    | ShowHistory
    | ExplainStreamTable
    | VerifyStreamTable
    | AuditStreamTable
    | RepairStreamTable
    | FoldStreamTable
    | CreateRefreshGroup
    | DropRefreshGroup
    | VacuumStreamTable
    | WaitFor
    | ValidateQuery
    | Show
    | ShowChanges
)
