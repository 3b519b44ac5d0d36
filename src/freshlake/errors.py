"""Every error a user can meet, in one tree: code, message, detail, hint.

`message` names the object and what went wrong, `detail` says why, `hint` is an action. A refused query also has its
`construct`, and the `position` (line, column) of it in the query's text when that is known. Families decide what a
caller does next: a UserError is never retried, a SourceError may need a reinitialisation, a SystemFailure may pass by
itself.
"""

from __future__ import annotations

from typing import ClassVar


class FreshlakeError(Exception):
    """Root of all errors raised on purpose by Freshlake."""

    code: ClassVar[str] = "freshlake-error"
    default_hint: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        construct: str | None = None,
        position: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint if hint is not None else self.default_hint
        self.construct = construct
        self.position = position

    def __str__(self) -> str:
        lines = [self.message]
        if self.position:
            lines.append(f"at: line {self.position[0]}, column {self.position[1]} of the query")
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """The error as plain data, for JSON output and history records."""
        plain: dict[str, object] = {
            "code": self.code,
            "message": self.message,
            "detail": self.detail,
            "hint": self.hint,
        }
        if self.construct:
            plain["construct"] = self.construct
        if self.position:
            plain["position"] = {"line": self.position[0], "column": self.position[1]}
        return plain


class UserError(FreshlakeError):
    """What was asked for is not possible as written; asking again does not help."""

    code = "user-error"


class SourceError(FreshlakeError):
    """A table that a stream table reads is gone, changed or unreadable."""

    code = "source-error"


class StorageError(FreshlakeError):
    """The lake's files could not be read or written as expected."""

    code = "storage-error"


class CatalogError(FreshlakeError):
    """The catalog could not be read or written."""

    code = "catalog-error"


class SystemFailure(FreshlakeError):
    """The environment failed: Spark, Java, jars, memory, or another process in the way."""

    code = "system-failure"


class InternalError(FreshlakeError):
    """A defect of Freshlake itself."""

    code = "internal-error"
    default_hint = "please report this with the output of `freshlake explain` for the table"


# User errors: queries and definitions


class InvalidQuery(UserError):
    """The query has a syntax, name or type error; the message is Spark's own, with its position."""

    code = "invalid-query"
    default_hint = "correct the query and try again; nothing was created or changed"


class UnsupportedQuery(UserError):
    """The query uses a construct that cannot be maintained: message names it, detail the reason, hint the rewrite."""

    code = "unsupported-query"


class UnsupportedTablesample(UnsupportedQuery):
    """The query samples rows at random, so it has no stable rows to maintain."""

    code = "unsupported-tablesample"
    default_hint = "materialise all rows, and sample in the reading query: WHERE rand() < fraction"


class UnsupportedLimit(UnsupportedQuery):
    """The query has a LIMIT or OFFSET that picks arbitrary rows."""

    code = "unsupported-limit"
    default_hint = "apply the limit when reading the stream table, or add ORDER BY to the query that has it"


class UnsupportedWindowInExpression(UnsupportedQuery):
    """A window function stands inside a larger expression and its partitions cannot be isolated."""

    code = "unsupported-window-in-expression"
    default_hint = "put the window column in one stream table and the expression over it in a second one"


class UnsupportedTranslation(UnsupportedQuery):
    """A construct of another SQL dialect has no proven translation to Spark SQL."""

    code = "unsupported-translation"


class UnsupportedRowLock(UnsupportedQuery):
    """The query locks rows (FOR UPDATE, FOR SHARE), which serves no purpose in a maintained result."""

    code = "unsupported-row-lock"
    default_hint = "remove the clause"


class UnsupportedAggregate(UnsupportedQuery):
    """The query has an aggregate that does not exist in Spark or has no form that can be maintained."""

    code = "unsupported-aggregate"


class UnsupportedLateralJoin(UnsupportedQuery):
    """LATERAL stands on the right of a RIGHT or FULL JOIN."""

    code = "unsupported-lateral-join"
    default_hint = "use JOIN LATERAL or LEFT JOIN LATERAL"


class TooManyGroupingBranches(UnsupportedQuery):
    """GROUPING SETS, CUBE or ROLLUP give more groupings than a stream table may have."""

    code = "too-many-grouping-branches"
    default_hint = "write the GROUPING SETS that are needed one by one"


class ViewDepthExceeded(UnsupportedQuery):
    """The query reads views that read views, in more levels than a stream table may have."""

    code = "view-depth-exceeded"
    default_hint = "make a stream table of one of the views in the middle"


class NotDifferentiable(UserError):
    """DIFFERENTIAL was asked for, but an operator of the query has no differential rule."""

    code = "not-differentiable"
    default_hint = "use refresh mode AUTO or FULL, or simplify the query"


class NotReproducible(UserError):
    """The compiled plan did not give the same result as the query, so it is not trusted."""

    code = "not-reproducible"
    default_hint = "rewrite the query so that it gives the same rows each time it is run"


class NonDeterministic(UserError):
    """The query may give another result each time it runs (rand, uuid, a non-deterministic UDF)."""

    code = "non-deterministic"
    default_hint = "compute random or volatile values in the source, or in the query that reads the stream table"


class TimeTravelUnsupported(UserError):
    """The query reads a fixed version of a table, which never changes."""

    code = "time-travel-unsupported"
    default_hint = "remove VERSION AS OF / TIMESTAMP AS OF from the query"


class DefinitionNotImportable(UserError):
    """A stream table is defined by a Python function that cannot be imported."""

    code = "definition-not-importable"
    default_hint = "define the function at the top level of an importable module and name it as 'module:function'"


class DefinitionChanged(UserError):
    """The Python function that defines a stream table is not the one it was created with."""

    code = "definition-changed"
    default_hint = "apply the new definition with alter_stream_table(name, query=function)"


class CycleDetected(UserError):
    """The definition would make a stream table depend on itself; the detail lists the path."""

    code = "cycle-detected"
    default_hint = (
        "put the shared part into a stream table of its own, use a view for one side, or merge the queries into one"
    )


class DataError(UserError):
    """Evaluating the query failed on the data it read (division by zero, invalid cast, overflow)."""

    code = "data-error"
    default_hint = "correct the rows, or make the expression safe (try_cast, try_divide, nullif)"


class RecursionLimit(DataError):
    """A recursive query does not end within Spark's limits on levels and rows."""

    code = "recursion-limit"
    default_hint = (
        "look for a cycle in the rows, bound the depth in the step, or raise MAX RECURSION LEVEL in the query"
    )


# User errors: names, arguments, states


class InvalidArgument(UserError):
    """An argument has a value that is not allowed, or two arguments do not fit together."""

    code = "invalid-argument"


class InvalidName(UserError):
    """A table name is not `table` or `schema.table` of plain identifiers."""

    code = "invalid-name"
    default_hint = (
        "use `table` or `schema.table` of letters, digits and underscores, not starting with a digit or __fl_"
    )


class InvalidSetting(UserError):
    """A setting is unknown or its value is outside the allowed range."""

    code = "invalid-setting"


class InvalidStatement(UserError):
    """A stream table statement could not be parsed; the message says where and what was expected."""

    code = "invalid-statement"


class InvalidSchedule(UserError):
    """A schedule is neither a duration, a cron expression nor 'calculated'."""

    code = "invalid-schedule"
    default_hint = "use a duration ('30s', '5m', '1h30m'), a cron expression ('*/5 * * * *', '@hourly') or 'calculated'"


class ScheduleTooShort(UserError):
    """A schedule is shorter than the floor `min_schedule_seconds`."""

    code = "schedule-too-short"
    default_hint = "use a longer schedule, or lower the setting min_schedule_seconds"


class AlreadyExists(UserError):
    """The name is taken."""

    code = "already-exists"
    default_hint = "use CREATE OR REPLACE, IF NOT EXISTS, or another name"


class NotFound(UserError):
    """There is no stream table of this name."""

    code = "not-found"
    default_hint = "SHOW STREAM TABLES lists the names"


class TableNotFound(UserError):
    """There is no table or view of this name."""

    code = "table-not-found"


class StreamTableProtected(UserError):
    """A statement would write to a stream table, which only a refresh may do."""

    code = "stream-table-protected"
    default_hint = "change the sources and refresh, use ALTER STREAM TABLE for the definition, or build a view over it"


class StreamTableInUse(UserError):
    """A stream table cannot be dropped while others read it."""

    code = "stream-table-in-use"
    default_hint = "drop or alter the stream tables that read it first"


class SourceInUse(UserError):
    """A source database cannot be dropped while stream tables read its tables."""

    code = "source-in-use"
    default_hint = "drop or alter the stream tables that read it first"


class StreamTableNotPopulated(UserError):
    """A stream table was created without data and has never been refreshed."""

    code = "stream-table-not-populated"
    default_hint = "refresh it once: REFRESH STREAM TABLE name"


class VersionNotKept(UserError):
    """An earlier state of a stream table that never was, or is no longer kept."""

    code = "version-not-kept"
    default_hint = "read a later version; log_retention_hours and VACUUM decide how long states are kept"


class WriteUndone(UserError):
    """A stream table in mode IMMEDIATE could not follow a write, so the write was undone."""

    code = "write-undone"
    default_hint = "the table that was written is as it was; correct the data or the query"


class NotAligned(UserError):
    """The stream tables of a snapshot have no kept states that read the same state of a source they share."""

    code = "not-aligned"
    default_hint = "refresh them together: fl.refresh_all(), or put them into one refresh group"


class StreamTableSuspended(UserError):
    """A stream table is SUSPENDED and is not refreshed until it is resumed."""

    code = "stream-table-suspended"
    default_hint = "resume it: ALTER STREAM TABLE name RESUME"


class StreamTableQuarantined(UserError):
    """An audit found that the rows of a stream table are not those of its query; it waits to be put right."""

    code = "stream-table-quarantined"
    default_hint = "look at fl.audits(name); then repair it: fl.repair(name)"


class FullRefused(UserError):
    """A refresh would recompute everything, which an option of the stream table forbids."""

    code = "full-refused"
    default_hint = 'recompute it once: fl.refresh(name, mode="FULL")'


class FuseBlown(UserError):
    """More rows of a source changed than the stream table's fuse allows; it waits for a person."""

    code = "fuse-blown"
    default_hint = "look at the source; then let the next refresh pass: fl.resume(name)"


class InvalidConnection(UserError):
    """A reference to a database is not one, or what it leads to cannot be read as connection parameters."""

    code = "invalid-connection"
    default_hint = "name where the address is kept: env:VARIABLE, service:NAME or file:/path/of/a/secret"


class ConnectionNotFound(UserError):
    """The variable, service or file that a reference to a database names is not there."""

    code = "connection-not-found"


class CaptureUnsupported(UserError):
    """A table's changes cannot be captured: message names the table, detail the reason, hint the rewrite."""

    code = "capture-unsupported"


class UnsupportedType(UserError):
    """A column has a type without an exact counterpart: detail says why, hint gives the rewrite."""

    code = "unsupported-type"


class Unsupported(UserError):
    """The operation itself is not supported here."""

    code = "unsupported"


class SourceDdlBlocked(UserError):
    """A statement would change the columns of a table that stream tables read, and `block_source_ddl` is set."""

    code = "source-ddl-blocked"
    default_hint = "set block_source_ddl = false, or drop the stream tables that read it"


# Sources


class DeliveryUnsupported(UserError):
    """A stream table cannot be kept in a PostgreSQL table as it is: message names the column, hint the rewrite."""

    code = "delivery-unsupported"


class DeliveryConflict(StorageError):
    """A delivered table was changed by somebody else."""

    code = "delivery-conflict"
    default_hint = "let only Freshlake write to the table; it is copied anew"


class SourceDropped(SourceError):
    """A source table no longer exists."""

    code = "source-dropped"
    default_hint = "create the source again, or change or drop the stream tables that read it"


class SourceReplaced(SourceError):
    """A source is another table than the one last read, or its version went back."""

    code = "source-replaced"
    default_hint = "refresh with mode FULL to continue from the new table"


class SourceSchemaChanged(SourceError):
    """A source column that the query uses was dropped, renamed or changed in type."""

    code = "source-schema-changed"
    default_hint = "adapt the query with ALTER STREAM TABLE name SET QUERY, or restore the column"


class SourceHistoryLost(SourceError):
    """The files or log entries needed to compute the changes were removed (VACUUM, log cleanup)."""

    code = "source-history-lost"
    default_hint = (
        "refresh with mode FULL; let the source keep deleted files longer than the longest pause in refreshing"
    )


class SourceNotDelta(SourceError):
    """A table that the query names is not a Delta table."""

    code = "source-not-delta"
    default_hint = "convert it: CREATE TABLE new_name USING delta AS SELECT * FROM old_name"


class SourceUnreadable(SourceError):
    """A source exists but cannot be read (permission, missing file, unsupported feature)."""

    code = "source-unreadable"


class SourceDenied(SourceError):
    """A database refused the user, the password or the database name."""

    code = "source-denied"
    default_hint = (
        "check user, password and database where the connection's reference points, and the server's pg_hba.conf"
    )


class PrivilegeMissing(SourceError):
    """The user that captures changes lacks a privilege; the hint is the statement that grants it."""

    code = "privilege-missing"


class ValueNotRepresentable(SourceError):
    """A row holds a value that the column's type in the lake cannot hold exactly."""

    code = "value-not-representable"


# Storage


class LakeNotFound(StorageError):
    """There is no lake at this path."""

    code = "lake-not-found"


class LakeNotWritable(StorageError):
    """The lake folder cannot be created or written."""

    code = "lake-not-writable"
    default_hint = "check the owner and the permissions of the folder, and the free space of its disk"


class StorageMissing(StorageError):
    """The files of a stream table are gone."""

    code = "storage-missing"
    default_hint = "refresh the stream table: it is rebuilt, since its storage was removed outside Freshlake"


class StorageCorrupt(StorageError):
    """The files of a stream table do not hold what their commits say."""

    code = "storage-corrupt"
    default_hint = "refresh the stream table in mode FULL: what cannot be read is rebuilt"


class CommitConflict(StorageError):
    """Another writer committed to the same table at the same time."""

    code = "commit-conflict"
    default_hint = "refresh again; only Freshlake may write to the folders of a stream table"


# Catalog


class CatalogCorrupt(CatalogError):
    """The catalog file is damaged or is not a Freshlake catalog."""

    code = "catalog-corrupt"
    default_hint = "restore it from a backup: _freshlake/catalog.db, or the lake's schema in PostgreSQL"


class CatalogTooNew(CatalogError):
    """The catalog was written by a newer Freshlake."""

    code = "catalog-too-new"
    default_hint = "upgrade Freshlake: pip install --upgrade freshlake"


class CatalogUnavailable(CatalogError):
    """The catalog did not answer in time or its disk failed."""

    code = "catalog-unavailable"
    default_hint = "try again; if it stays, look for a process that holds _freshlake/catalog.db, and for a full disk"


class CatalogDenied(CatalogError):
    """The PostgreSQL server of the catalog refused the user, the database or a permission."""

    code = "catalog-denied"
    default_hint = "check user, password and database of setting catalog, and the user's permissions in that database"


# Environment and coordination


class RefreshFailed(SystemFailure):
    """A refresh failed for a reason outside the query and the sources; nothing was changed."""

    code = "refresh-failed"


class RefreshInProgress(SystemFailure):
    """Another worker is refreshing this stream table."""

    code = "refresh-in-progress"
    default_hint = "wait for it to finish; the lease of a dead process runs out by itself"


class SourceUnreachable(SystemFailure):
    """The server or the storage of a source did not answer, or broke a connection off."""

    code = "source-unreachable"
    default_hint = "try again; if it stays, look at the database server and at the network"


class CaptureBusy(SystemFailure):
    """Setting up or removing capture did not get its locks in time."""

    code = "capture-busy"
    default_hint = "try again when no long transaction writes to the tables, or allow a longer wait"


class ColumnsAwaited(SystemFailure):
    """A query needs columns of a captured table that nobody read before, so its mirror has no values of them yet."""

    code = "columns-awaited"
    default_hint = "refresh again: the next refresh copies the captured table with these columns"


class CommittedButNotMaintained(SystemFailure):
    """A write is in its table, but a stream table in mode IMMEDIATE could not follow it."""

    code = "committed-but-not-maintained"
    default_hint = "another writer has committed since, so it was not undone; refresh the stream table, see fl.history"


class WaitTimeout(SystemFailure):
    """A stream table did not reach a position of its source in the time that was given."""

    code = "wait-timeout"
    default_hint = "see fl.health(): is a scheduler running, and is the table refreshed?"


class LeaseLost(SystemFailure):
    """This worker's lease ran out and another one took over, so its result was not accepted."""

    code = "lease-lost"
    default_hint = "refresh again; raise the setting lease_seconds if the machine pauses for long"


class ResultTooLarge(SystemFailure):
    """A result is larger than what may come to the driver."""

    code = "result-too-large"
    default_hint = "raise the setting driver_result_bytes, or read the result through Spark"


class DeltaNotConfigured(SystemFailure):
    """The given Spark session does not have the Delta extension and catalog."""

    code = "delta-not-configured"
    default_hint = (
        "add spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog to the session"
    )


class SparkStartFailed(SystemFailure):
    """Spark could not be started."""

    code = "spark-start-failed"


class SparkConnectUnsupported(SystemFailure):
    """The given session is a Spark Connect session; Freshlake needs classic PySpark."""

    code = "spark-connect-unsupported"
    default_hint = "pass a classic session: SparkSession.builder.master(...).getOrCreate() without remote()"


class JavaNotFound(SystemFailure):
    """No Java of version 17 or newer was found."""

    code = "java-not-found"
    default_hint = "install Java 17 or newer and set JAVA_HOME (Debian: apt install openjdk-17-jre-headless)"


class DeltaJarUnavailable(SystemFailure):
    """The Delta jars are not in the local cache and could not be fetched."""

    code = "delta-jar-unavailable"
    default_hint = "connect to the network once and run `make setup`"


class DriverNotFound(SystemFailure):
    """A Python package that connects to another system is not installed."""

    code = "driver-not-found"
    default_hint = "install it: pip install 'freshlake[postgres]'"


# Defects


class StreamMalformed(InternalError):
    """A server sent changes in a form that Freshlake does not know."""

    code = "stream-malformed"
    default_hint = "please report this with the version of the server"


class InvariantViolated(InternalError):
    """A refresh would have broken an invariant and was stopped before it committed."""

    code = "invariant-violated"
    default_hint = (
        "audit the stream table, which puts its stored rows right: fl.audit(name); "
        "and please report this with the output of `freshlake explain`"
    )
