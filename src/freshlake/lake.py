"""connect(): open a lake, and the object whose methods are the whole public API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from freshlake import session
from freshlake.alerts import Alerts
from freshlake.catalog.enums import RefreshMode, Status
from freshlake.catalog.records import StreamTable
from freshlake.catalog.store import Catalog
from freshlake.clock import Clock, SystemClock
from freshlake.compiler.explain import Explanation
from freshlake.config import Settings, addresses
from freshlake.errors import InvalidArgument
from freshlake.refresh.definition import Builder
from freshlake.refresh.engine import Engine
from freshlake.refresh.folding import fold
from freshlake.refresh.layout import Layout
from freshlake.refresh.result import FoldResult, RefreshResult, Verification
from freshlake.refresh.vacuuming import vacuum
from freshlake.service import statements
from freshlake.service.alert_calls import AlertCalls
from freshlake.service.announce import Announcer
from freshlake.service.auditing import Auditing
from freshlake.service.audits import AuditRecord, Audits
from freshlake.service.buffer_watch import BufferWatch
from freshlake.service.capture_modes import CaptureModes
from freshlake.service.capture_report import CaptureReport
from freshlake.service.captures import Captures
from freshlake.service.compacting import Compacting
from freshlake.service.deliveries import Deliveries
from freshlake.service.doctor import Doctor
from freshlake.service.dropping import Dropping
from freshlake.service.group_calls import GroupCalls
from freshlake.service.health import Health
from freshlake.service.immediate import Immediate
from freshlake.service.landing import Landing
from freshlake.service.log_level import apply_log_level
from freshlake.service.looking_calls import LookingCalls
from freshlake.service.names import Names
from freshlake.service.on_demand import OnDemand
from freshlake.service.options import NAMES
from freshlake.service.pool import JobStatus, WorkerPool, job_statuses, worker_pools
from freshlake.service.quiet import quietly
from freshlake.service.reading import Reading
from freshlake.service.report import Report, Validation
from freshlake.service.rounds import Rounds
from freshlake.service.sampler import Sampler
from freshlake.service.scheduler import Scheduler
from freshlake.service.shown import Shown
from freshlake.service.slot_watch import SlotWatch
from freshlake.service.snapshots import Snapshot, Snapshots
from freshlake.service.source_calls import SourceCalls
from freshlake.service.sources import Sources
from freshlake.service.sql import Sql
from freshlake.service.sweeping import Sweeping
from freshlake.service.tables import Tables
from freshlake.service.transitions import Transitions
from freshlake.service.upkeep import Upkeep
from freshlake.storage.scan import KEPT
from freshlake.storage.scan.paths import not_written


def connect(
    lake: str | Path | None = None,
    *,
    spark: SparkSession | None = None,
    warehouse: str | Path | None = None,
    catalog: str | None = None,
    settings: Mapping[str, Any] | None = None,
    spark_settings: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Freshlake:
    """Open a lake folder, made when missing.

    Without `spark` a tuned local Spark with Delta is started; with it, the caller's session is used after a check that
    Delta is configured. `warehouse` is another word for the lake folder beside a session of one's own. `catalog` is the
    setting of that name: a PostgreSQL URL, unless the catalog is to be in the lake folder.
    """
    folder = Path(lake or warehouse or "lake").expanduser().resolve()
    if (found := not_written(str(folder))) is not None:
        raise InvalidArgument(
            f"the lake folder {folder} cannot be used: {found!r} in its path has a meaning of its own",
            hint="rename the folder, or choose another one; spaces and letters of any language are fine",
        )
    given = {**(settings or {}), **({} if catalog is None else {"catalog": catalog})}
    chosen = Settings.load(folder, given)
    opened = Catalog.open(folder, url=chosen.catalog, clock=clock)
    try:
        if spark is not None:
            session.check(spark)
        layout = Layout(folder, opened)
        own = spark if spark is not None else session.start(layout.tables, settings=spark_settings)
    except BaseException:
        opened.close()
        raise
    KEPT.resize(chosen.driver_cache_bytes)
    apply_log_level(chosen)
    engine = Engine(opened, layout, own, chosen, clock or SystemClock())
    return Freshlake(engine, embedded=spark is None, settings=given)


class Freshlake(LookingCalls, GroupCalls, SourceCalls, AlertCalls):
    """A lake with its stream tables."""

    def __init__(self, engine: Engine, *, embedded: bool, settings: Mapping[str, Any] | None = None) -> None:
        self._engine = engine
        self._given = settings
        self._names = Names(engine.spark, engine.catalog, engine.layout, embedded)
        engine.resolve = lambda text: self._names.ensure(text, committed=True)
        engine.in_spark = self._names.in_spark
        self._alerts = Alerts(engine.catalog, engine.clock)
        self._alerts.configure(addresses(engine.settings.alert_webhooks), engine.settings.alert_retention_days)
        self._announcer = Announcer(engine, self._alerts)
        self._captures = Captures(engine, self._names)
        transitions = Transitions(engine, self._captures, self._alerts)
        self._deliveries = Deliveries(engine, self._captures, self._alerts)
        compacting = Compacting(engine, self._captures)
        self._capture_report = CaptureReport(self._captures)
        watches = (SlotWatch(self._capture_report, self._alerts), BufferWatch(self._captures, self._alerts))
        self._upkeep = Upkeep(self._captures, transitions, compacting, self._deliveries, *watches, Sweeping(engine))
        landing = Landing(engine, self._captures, transitions)
        self._rounds = Rounds(engine, self._names, self._announcer, landing, self._deliveries.published)
        modes = CaptureModes(engine.catalog, transitions)
        made_for = (self._announcer, self._captures, modes, self._deliveries)
        self._dropping = Dropping(engine, self._names, *made_for)
        self._tables = Tables(engine, self._names, self._rounds, *made_for, self._dropping)
        self._sources = Sources(self._captures, self._dropping, transitions, self._deliveries)
        self._immediate = Immediate(engine, self._rounds, self._alerts)
        auditing = Auditing(engine, self._rounds, self._announcer)
        self._audits, sampler = Audits(auditing), Sampler(engine, auditing)
        self._scheduler = Scheduler(engine, self._rounds, self._alerts, sampler)
        self._scheduler.tidy = self._upkeep.tick
        self._on_demand = OnDemand(engine, self._rounds, self._scheduler)
        self._reading = Reading(engine, lambda table: self._on_demand.read(self._immediate.caught_up(table)))
        self._snapshots = Snapshots(engine, self._reading, self._name)
        self._sql = Sql(engine, self._names, Shown(engine, self._names, self._reading.state), self._immediate)
        self._report = Report(self._tables)
        self._health = Health(engine, self._capture_report, self._deliveries)
        self._doctor = Doctor(engine, self._health)
        engine.catalog.fail_interrupted()
        self._names.begin()

    @property
    def spark(self) -> SparkSession:
        """A session for the user; Freshlake works in sessions of its own."""
        self._names.show_all()
        return self._engine.spark

    @property
    def path(self) -> Path:
        return self._engine.layout.lake

    def sql(self, text: str) -> DataFrame:
        """Run Spark SQL or one of Freshlake's own statements."""
        return statements.run(self, text) or self._sql.run(text)

    def write(self, frame: DataFrame, name: str, *, mode: str = "append") -> None:
        """Write a DataFrame into a plain Delta table; stream tables in mode IMMEDIATE follow, or it is undone."""
        with quietly():
            self._sql.write(frame, name, mode)

    # Definitions -----------------------------------------------------------------------------------------------------

    def create_stream_table(
        self,
        name: str,
        query: str | Builder,
        *,
        schedule: str | None = None,
        refresh_mode: str | None = None,
        initialize: bool = True,
        append_only: bool = False,
        partition_by: Sequence[str] | None = None,
        fold_policy: str | None = None,
        tier: str | None = None,
        diamond_consistency: str | None = None,
        diamond_schedule_policy: str | None = None,
        dialect: str | None = None,
        never_full: bool = False,
        max_full_rows: int | None = None,
        max_full_seconds: int | None = None,
        fuse_rows: int | None = None,
        cdc_mode: str | None = None,
    ) -> StreamTable:
        """Create a stream table and load it; nothing is left behind when that fails."""
        options = _options(locals())
        with quietly():
            return self._tables.create(name, query, dialect, initialize=initialize, options=options)

    def create_stream_table_if_not_exists(self, name: str, query: str | Builder, **options: Any) -> StreamTable:
        """Create it unless a stream table of that name exists, which is returned; loaded, if it never was."""
        found = self._engine.catalog.find(self._name(name))
        if found is None:
            return self.create_stream_table(name, query, **options)
        with quietly():
            return self._tables.loaded(found, options.get("initialize", True))

    def create_or_replace_stream_table(
        self,
        name: str,
        query: str | Builder,
        *,
        schedule: str | None = None,
        refresh_mode: str | None = None,
        initialize: bool = True,
        append_only: bool = False,
        partition_by: Sequence[str] | None = None,
        fold_policy: str | None = None,
        tier: str | None = None,
        diamond_consistency: str | None = None,
        diamond_schedule_policy: str | None = None,
        dialect: str | None = None,
        never_full: bool = False,
        max_full_rows: int | None = None,
        max_full_seconds: int | None = None,
        fuse_rows: int | None = None,
        cdc_mode: str | None = None,
    ) -> StreamTable:
        """Bring a stream table to this definition, doing only what is needed."""
        options = _options(locals())
        with quietly():
            return self._tables.replace(name, query, dialect, initialize=initialize, options=options)

    def alter_stream_table(
        self,
        name: str,
        *,
        query: str | Builder | None = None,
        schedule: str | None = None,
        refresh_mode: str | None = None,
        status: str | None = None,
        append_only: bool | None = None,
        partition_by: Sequence[str] | None = None,
        fold_policy: str | None = None,
        tier: str | None = None,
        diamond_consistency: str | None = None,
        diamond_schedule_policy: str | None = None,
        dialect: str | None = None,
        never_full: bool | None = None,
        max_full_rows: int | None = None,
        max_full_seconds: int | None = None,
        fuse_rows: int | None = None,
        cdc_mode: str | None = None,
    ) -> StreamTable:
        """Change what is given and leave the rest; a new query is loaded aside and swapped in at once."""
        options = _options(locals())
        with quietly():
            return self._tables.alter(name, query, dialect, options=options)

    def drop_stream_table(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Remove a stream table with its storage and history."""
        self._dropping.drop(self._name(name), if_exists, cascade)

    def resume(self, name: str) -> StreamTable:
        """Let a suspended or failed stream table be refreshed again; a blown fuse lets the next refresh pass."""
        return self.alter_stream_table(name, status=str(Status.ACTIVE))

    # Refresh ---------------------------------------------------------------------------------------------------------

    def refresh(self, name: str, mode: str | None = None) -> RefreshResult:
        """Bring a stream table, and first those it reads, to the state of their sources now."""
        requested = RefreshMode.parse(mode) if mode else None
        requested = None if requested is RefreshMode.AUTO else requested
        if requested is RefreshMode.IMMEDIATE:
            raise InvalidArgument("one refresh cannot be IMMEDIATE", hint="use DIFFERENTIAL or FULL, or no mode")
        with quietly():
            return self._rounds.refresh(self._stream_table(name), requested, waits=True)

    def refresh_all(self) -> list[RefreshResult]:
        """Refresh everything in dependency order, all at one point in time."""
        with quietly():
            return self._rounds.refresh_all()

    def fold(self, name: str) -> FoldResult:
        """Bring a stream table's log into its base now."""
        with quietly():
            wait = self._engine.settings.immediate_wait_seconds
            return fold(self._engine, self._stream_table(name), "requested", wait_seconds=wait)

    def vacuum(self, name: str) -> int:
        """Delete files of a stream table that no version in use needs; returns how many."""
        with quietly():
            return vacuum(self._engine, self._stream_table(name))

    def verify(self, name: str) -> Verification:
        """Recompute the query at the table's frontier and compare both ways."""
        with quietly():
            return self._audits.verify(self._stream_table(name))

    def audit(self, name: str, *, keys: Mapping[str, Sequence[Any]] | None = None) -> AuditRecord:
        """Verify a stream table and its internal nodes, or some keys; one that differs is quarantined and repaired."""
        with quietly():
            return self._audits.audit(self._stream_table(name), keys)

    def repair(self, name: str) -> AuditRecord:
        """Put the rows of a stream table right that are not those of its query, and end its quarantine."""
        with quietly():
            return self._audits.repair(self._stream_table(name))

    # Reading ---------------------------------------------------------------------------------------------------------

    def table(self, name: str, *, version: int | None = None, timestamp: datetime | None = None) -> DataFrame:
        """The published state of a stream table, now or as it was; or a plain table of that name."""
        found = self._engine.catalog.find(self._name(name))
        earlier = version is not None or timestamp is not None
        if found is not None:
            return self._reading.as_of(found, version, timestamp) if earlier else self._reading.state(found)
        if earlier:
            raise InvalidArgument(f"{name} is not a stream table", hint=f"SELECT * FROM {name} VERSION AS OF …")
        return self.sql(f"SELECT * FROM {name}")

    def snapshot(self, *names: str) -> Snapshot:
        """Several tables at one point in time, by name; raises NotAligned when they have none in common."""
        return self._snapshots.snapshot(names)

    def wait_for(self, name: str, source: str, version: int | None = None, *, timeout: float = 60.0) -> int:
        """Wait until readers of a stream table see a version of a source; returns the version that they see."""
        table = self._stream_table(name)
        return self._snapshots.wait_for(table, source, version, timeout).version

    def changes(self, name: str, since: int) -> DataFrame:
        """What changed after a version, as rows with a weight."""
        return self._reading.changes(self._stream_table(name), since)

    def explain(self, name_or_query: str) -> Explanation:
        """Plan, rules, program, strategy and reasons."""
        with quietly():
            return self._report.explain(name_or_query)

    def validate(self, query: str | Builder, *, dialect: str | None = None) -> Validation:
        """Would this query be differential, and why not; nothing is created. Raises what creating it would raise."""
        with quietly():
            return self._report.validate(query, dialect)

    # Scheduling ------------------------------------------------------------------------------------------------------

    def start_scheduler(self) -> None:
        """Refresh stream tables on their schedules, in threads of this process, until it is stopped."""
        self._scheduler.start()

    def stop_scheduler(self, timeout: float | None = None) -> bool:
        """Start no more refreshes and wait for those that run; False if they took longer than the timeout."""
        return self._scheduler.stop(timeout)

    def on_refresh(self, told: Callable[[RefreshResult], None]) -> None:
        """Be told the result of every refresh that the scheduler makes."""
        self._scheduler.told(told)

    def reload_settings(self) -> None:
        """Read the lake's settings again; what a running refresh began with stays with it."""
        settings = self._engine.settings = Settings.load(self.path, self._given)
        self._alerts.configure(addresses(settings.alert_webhooks), settings.alert_retention_days)
        KEPT.resize(settings.driver_cache_bytes)
        apply_log_level(settings)
        self._scheduler.wake()

    def worker_pool_status(self) -> list[WorkerPool]:
        """The daemons that keep this lake fresh, here or elsewhere, and how busy each is; newest first."""
        return worker_pools(self._engine.catalog, self._engine.catalog.shared_now())

    def parallel_job_status(self, seconds: float = 60) -> list[JobStatus]:
        """What daemons run, have waiting, and have ended not longer ago than this."""
        return job_statuses(self._engine.catalog, self._engine.clock.now(), seconds)

    def close(self) -> None:
        """Stop the scheduler, wait a moment for webhooks, and close the catalog; Spark goes on."""
        self._scheduler.stop()
        self._on_demand.close()
        self._alerts.close()
        self._upkeep.close()
        self._captures.close()
        self._engine.catalog.close()

    def __enter__(self) -> Freshlake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a stream table among the arguments of a call."""
    return {name: arguments[name] for name in NAMES if name in arguments}


__all__ = ["Freshlake", "connect"]
