"""Create, replace, alter and drop stream tables: checked first, then all or nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from freshlake.catalog.enums import CdcMode, RefreshMode, SourceType, Status
from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency, NewStreamTable, StreamTable
from freshlake.errors import (
    AlreadyExists,
    FreshlakeError,
    InvalidArgument,
    InvalidName,
    RefreshInProgress,
    StreamTableNotPopulated,
    StreamTableProtected,
    TableNotFound,
)
from freshlake.refresh.definition import Builder, Definition, definition_of
from freshlake.refresh.edges import graph
from freshlake.refresh.engine import Engine
from freshlake.refresh.meaning import means_the_same
from freshlake.refresh.pinned import pinned_settings
from freshlake.refresh.refused import require_differential
from freshlake.refresh.shape import meaning, node_schema
from freshlake.refresh.situation import BLOWN, PASSING
from freshlake.refresh.terms import Terms
from freshlake.schedule.graph import Graph
from freshlake.service.announce import Announcer
from freshlake.service.capture_modes import CaptureModes
from freshlake.service.captures import Captures
from freshlake.service.capturing import Bound, Capturing, capturing
from freshlake.service.caution import warn, warn_of_types
from freshlake.service.definitions import define_in
from freshlake.service.deliveries import Deliveries
from freshlake.service.dropping import Dropping, upstreams
from freshlake.service.feasible import feasible
from freshlake.service.moment import Round
from freshlake.service.names import Names
from freshlake.service.options import DEFAULTS, checked, needs_rules, partition_columns, scheduled, stored_as
from freshlake.service.rebuild import rebuild
from freshlake.service.rounds import Rounds
from freshlake.storage.table import ChangeLogged

_log = logging.getLogger("freshlake")


@dataclass
class Tables:
    engine: Engine
    names: Names
    rounds: Rounds
    announcer: Announcer
    captures: Captures
    modes: CaptureModes
    deliveries: Deliveries
    dropping: Dropping

    # Create ----------------------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        query: str | Builder,
        dialect: str | None = None,
        *,
        initialize: bool = True,
        options: Mapping[str, Any],
    ) -> StreamTable:
        """Everything is checked before anything is made; a failure on the way leaves nothing behind."""
        target = self._name(name)
        self._check_free(target)
        wanted = self._wanted(options)
        wanted |= self._scheduled(wanted["refresh_mode"], None, wanted)
        with capturing(self.captures, query) as captured:
            return self._create(target, query, dialect, wanted, initialize, captured)

    def _create(
        self,
        target: TableName,
        query: str | Builder,
        dialect: str | None,
        wanted: dict[str, Any],
        initialize: bool,
        captured: Capturing,
    ) -> StreamTable:
        settings = pinned_settings(self.engine.spark)
        definition = define_in(self.engine, query, dialect, settings)
        rules = needs_rules(wanted["refresh_mode"], wanted["never_full"])
        compiled, edges = captured.bound(lambda: self._feasible(target, definition, settings, rules), self.rounds)
        wanted["partition_by"] = partition_columns(wanted["partition_by"], compiled)
        self.modes.check(wanted["requested_cdc_mode"], wanted["refresh_mode"], edges)
        warn(target, definition, compiled, wanted["refresh_mode"])
        new = NewStreamTable(
            name=target,
            storage_id=f"{target.name}-{uuid4().hex[:8]}",
            **_columns(definition),
            **wanted,
            **meaning(compiled, settings),
        )
        with self.engine.catalog.transaction():
            table = self.engine.catalog.insert_stream_table(new)
            self.engine.catalog.replace_dependencies(table.id, edges)
        try:
            self.captures.follow(edges, _asked(table))
            if all(edge.source_type is SourceType.TABLE for edge in edges):
                self.engine.keep(table, compiled)  # over stream tables it is compiled when they are up to date
            if initialize:
                self._populate(table, edges)
            else:
                # empty storage, so that other definitions can name the table before it is loaded
                path, schema = self.engine.layout.root(table, 1).path, node_schema(compiled.root)
                ChangeLogged.create(path, schema, partition_by=table.partition_by)
                self.names.show(table)
        except BaseException:
            self.dropping.remove(self.engine.catalog.get_by_id(table.id))
            raise
        if table.requested_cdc_mode is not None:
            self.modes.follow(edges)
        return self.engine.catalog.get_by_id(table.id)

    def _populate(self, table: StreamTable, edges: Sequence[Dependency]) -> None:
        """Load it from stream tables that are up to date, all at one point in time."""
        moment = self.rounds.prepare(table, edges)
        current = self.engine.catalog.get_by_id(table.id)
        self.announcer.refreshed(table, self.engine.refresh(current, moment.pins, None, Terms(moment.at)))
        self.names.show(self.engine.catalog.get_by_id(table.id))

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return checked(options, floor_seconds=self.engine.settings.min_schedule_seconds)

    def _scheduled(self, mode: RefreshMode, before: RefreshMode | None, given: Mapping[str, Any]) -> dict[str, Any]:
        return scheduled(mode, before, given, floor_seconds=self.engine.settings.min_schedule_seconds)

    def _wanted(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """All options of a new definition, those that are not given by their defaults."""
        given = {name: value for name, value in options.items() if value is not None}
        return self._checked({**DEFAULTS, **given})

    def _name(self, name: str) -> TableName:
        return TableName.parse(name, self.engine.spark.catalog.currentDatabase())

    def _check_free(self, target: TableName) -> None:
        if target.database is not None:
            raise InvalidName(
                f"{target} is not a name for a stream table",
                detail="names of three parts are those of captured tables",
                hint="use a name of one part or two",
            )
        if self.engine.catalog.find(target) is not None:
            raise AlreadyExists(
                f"stream table {target.short} already exists",
                hint="use create_or_replace_stream_table to change it, or create_stream_table_if_not_exists",
            )
        self.names.ensure(target.name)
        if not self.engine.spark.catalog.databaseExists(target.schema):
            raise TableNotFound(
                f"there is no schema {target.schema}", hint=f"create it first: CREATE SCHEMA {target.schema}"
            )
        if self.engine.spark.catalog.tableExists(str(target)):
            raise AlreadyExists(f"a table or view named {target.short} already exists", hint="choose another name")

    def graph(self) -> Graph:
        return graph(self.engine.catalog)

    # Alter -----------------------------------------------------------------------------------------------------------

    def alter(
        self, name: str, query: str | Builder | None, dialect: str | None = None, *, options: Mapping[str, Any]
    ) -> StreamTable:
        """Everything is checked before anything changes; a new query or layout is loaded aside and swapped in."""
        table = self.engine.catalog.get(self._name(name))
        fields = self._checked(options)
        if table.is_mirror and (query is not None or not fields.keys() <= _OF_MIRRORS):
            raise StreamTableProtected(
                f"{table.full_name.short} holds a captured table",
                hint=f"only {', '.join(sorted(_OF_MIRRORS))} can be set",
            )
        mode = fields.get("refresh_mode", table.refresh_mode)
        fields |= _let_go(table, fields) | self._scheduled(mode, table.refresh_mode, fields)
        edges, asked = self.engine.catalog.dependencies(table.id), fields.get("requested_cdc_mode", _asked(table))
        with capturing(self.captures, query) as captured:
            after = self._altered(table, query, dialect, fields, captured)
        self.captures.unread(upstreams(edges))
        if asked is not _asked(table) or (asked is not None and query is not None):
            self.modes.follow([*edges, *self.engine.catalog.dependencies(table.id)])
        if after.generation != table.generation:
            self._bring_group(after)
            self.deliveries.published(self.engine.catalog.get_by_id(after.id))
        self.announcer.altered(table, after)
        return self.engine.catalog.get_by_id(after.id)

    def _bring_group(self, table: StreamTable) -> None:
        """What is published with a table that was rebuilt follows; if it fails, its history says so."""
        if str(table.full_name) not in self.rounds.known().groups.of or table.status is Status.SUSPENDED:
            return
        try:
            self.rounds.refresh(table, None, waits=True)
        except FreshlakeError as error:
            _log.warning("the group of %s could not follow: %s", table.full_name.short, error.message)

    def _altered(
        self,
        table: StreamTable,
        query: str | Builder | None,
        dialect: str | None,
        fields: dict[str, Any],
        captured: Capturing,
    ) -> StreamTable:
        if dialect is not None and query is None:
            raise InvalidArgument("a dialect is part of a query", hint="give the query too")
        if query is None and not self._moves(table, fields):
            self._check_in_place(table, fields)
            self._catch_up(table, fields)
            if fields.get("status") is Status.ACTIVE and not table.is_populated:
                fields["status"] = Status.INITIALIZING  # only its first load makes it active
            return self.engine.catalog.update(table.id, **fields) if fields else table
        settings = table.session_settings
        definition = definition_of(table) if query is None else define_in(self.engine, query, dialect, settings)
        rules = needs_rules(**self._choosing(table, fields))
        name = table.full_name
        compiled, edges = captured.bound(lambda: self._feasible(name, definition, settings, rules), self.rounds)
        fields["partition_by"] = partition_columns(fields.get("partition_by", table.partition_by), compiled)
        self._check_capture(table, fields, edges)
        warn(table.full_name, definition, compiled, self._choosing(table, fields)["mode"])
        moment = Round({}, None)
        self.captures.follow(edges, fields.get("requested_cdc_mode", _asked(table)))
        if any(edge.stream_table_id is not None for edge in edges):
            moment = self.rounds.prepare(table, edges)
            # an upstream that was rebuilt may give the query another meaning
            compiled, edges = self._feasible(table.full_name, definition, settings, rules)
        warn_of_types(table, compiled)
        fields |= meaning(compiled, settings) | {"fuse_state": None, "quarantined_at": None}
        if query is None:
            reason = "partitions-altered"
        else:
            fields, reason = fields | _columns(definition), "query-altered"
        return rebuild(self.engine, self.names, table, definition, compiled, edges, moment, fields, reason)

    def _catch_up(self, table: StreamTable, fields: Mapping[str, Any]) -> None:
        """A table that is to follow writes is brought up to date first: if that fails, its mode stays what it was."""
        follows = (
            fields.get("refresh_mode") is RefreshMode.IMMEDIATE and table.refresh_mode is not RefreshMode.IMMEDIATE
        )
        if follows and table.is_populated and Status.SUSPENDED not in (table.status, fields.get("status")):
            self.rounds.refresh(table, None, waits=True)

    def _moves(self, table: StreamTable, fields: Mapping[str, Any]) -> bool:
        """Whether stored rows must be laid out anew."""
        wanted = fields.get("partition_by", table.partition_by)
        return table.is_populated and _folded(wanted) != _folded(table.partition_by)

    def _choosing(self, table: StreamTable, fields: Mapping[str, Any]) -> dict[str, Any]:
        """What of the options decides whether the query needs rules, with what is given now."""
        return {
            "mode": fields.get("refresh_mode", table.refresh_mode),
            "never_full": fields.get("never_full", table.never_full),
        }

    def _check_in_place(self, table: StreamTable, fields: dict[str, Any]) -> None:
        """What needs no new load still has to go together with the query."""
        before = needs_rules(table.refresh_mode, table.never_full)
        if needs_rules(**self._choosing(table, fields)) and not before:
            require_differential(self.engine.compiled(table), table.full_name)
        if not fields.keys().isdisjoint(("requested_cdc_mode", "refresh_mode")):
            self._check_capture(table, fields, self.engine.catalog.dependencies(table.id))
        if "partition_by" in fields:
            fields["partition_by"] = partition_columns(fields["partition_by"], self.engine.compiled(table))

    def _check_capture(self, table: StreamTable, fields: Mapping[str, Any], edges: Sequence[Dependency]) -> None:
        mode = fields.get("refresh_mode", table.refresh_mode)
        self.modes.check(fields.get("requested_cdc_mode", _asked(table)), mode, edges, table)

    def _feasible(self, target: TableName, definition: Definition, settings: Mapping[str, Any], rules: bool) -> Bound:
        return feasible(self.engine, target, definition, settings, rules)

    def replace(
        self,
        name: str,
        query: str | Builder,
        dialect: str | None = None,
        *,
        initialize: bool = True,
        options: Mapping[str, Any],
    ) -> StreamTable:
        """Absent: create. Identical: nothing. Other settings: changed in place. Another query: loaded, then swapped.

        One that was never loaded is loaded in any case, unless that is not wanted.
        """
        found = self.engine.catalog.find(self._name(name))
        if found is None:
            return self.create(name, query, dialect, initialize=initialize, options=options)
        with capturing(self.captures, query) as captured:
            definition = define_in(self.engine, query, dialect, found.session_settings)
            compiled = captured.attempt(lambda: self.engine.compile(definition, found.session_settings))
        same = means_the_same(found, compiled, definition) and definition.reference == found.definition_reference
        wanted = self._wanted(options)
        wanted["partition_by"] = partition_columns(wanted["partition_by"], compiled)
        differing = [n for n in DEFAULTS if getattr(found, stored_as(n)) != wanted[stored_as(n)]]
        if same and not differing:
            if found.is_populated:
                _log.info("stream table %s is up to date", found.full_name.short)
            return self.loaded(found, initialize)
        if "refresh_mode" in differing:
            differing.append("schedule")  # which another mode would change by itself
        changes = {n: options.get(n) if options.get(n) is not None else DEFAULTS[n] for n in differing}
        return self.loaded(self.alter(name, *((None,) if same else (query, dialect)), options=changes), initialize)

    def loaded(self, table: StreamTable, wanted: bool) -> StreamTable:
        """Load a table that was never loaded: that was not asked for, or the process that began it died."""
        if table.is_populated or not wanted or table.is_mirror or table.status is Status.SUSPENDED:
            return table
        name = table.full_name.short
        try:
            done = self.rounds.refresh(table, None, waits=True)
        except RefreshInProgress as error:
            _log.info("stream table %s is not loaded yet: %s", name, error.message)
            return table
        after = self.engine.catalog.get_by_id(table.id)
        if not after.is_populated:
            raise StreamTableNotPopulated(f"stream table {name} could not be loaded: {done.reason}", detail=done.detail)
        self.names.show(after)
        return after


_OF_MIRRORS = {"schedule", "effective_schedule", "fold_policy", "tier", "status", "consecutive_errors"}


def _columns(definition: Definition) -> dict[str, Any]:
    return {
        "original_query": definition.original,
        "defining_query": definition.text,
        "dialect": str(definition.dialect),
        "definition_kind": definition.kind,
        "definition_reference": definition.reference,
    }


def _asked(table: StreamTable) -> CdcMode | None:
    return None if table.requested_cdc_mode is None else CdcMode(table.requested_cdc_mode)


def _let_go(table: StreamTable, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Resuming a table ends a quarantine, and a blown fuse lets the next refresh pass; a new limit is a new fuse."""
    if "fuse_rows" in fields and fields["fuse_rows"] != table.fuse_rows:
        return {"fuse_state": None}
    if fields.get("status") is not Status.ACTIVE:
        return {}
    passing = {"fuse_state": PASSING} if table.fuse_state == BLOWN else {}
    return {**passing, "quarantined_at": None} if table.is_quarantined else passing


def _folded(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]
