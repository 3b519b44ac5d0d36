"""Create, replace, alter and drop stream tables: checked first, then all or nothing."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from freshlake.catalog.enums import Action, FoldPolicy, RefreshMode, Status
from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency, NewStreamTable, StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.errors import (
    AlreadyExists,
    FreshlakeError,
    InvalidArgument,
    StreamTableInUse,
    TableNotFound,
)
from freshlake.refresh import commit
from freshlake.refresh.choose import Decision
from freshlake.refresh.definition import Builder, Definition, define
from freshlake.refresh.edges import check_acyclic, edges_of, graph
from freshlake.refresh.engine import Engine, require_differential
from freshlake.refresh.recover import Heartbeat, adopt
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.worker import pinned_settings
from freshlake.schedule.expression import parse_schedule
from freshlake.schedule.graph import Graph
from freshlake.service.names import Names
from freshlake.storage.table import ChangeLogged

_log = logging.getLogger("freshlake")


@dataclass
class Tables:
    engine: Engine
    names: Names

    # Create ----------------------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        query: str | Builder,
        *,
        schedule: str | None,
        refresh_mode: str | None,
        initialize: bool,
        append_only: bool,
        partition_by: Sequence[str] | None,
        fold_policy: str | None,
    ) -> StreamTable:
        """Everything is checked before anything is made; a failure on the way leaves nothing behind."""
        target = self._name(name)
        self._check_free(target)
        mode = RefreshMode.parse(refresh_mode or "AUTO")
        policy = FoldPolicy.parse(fold_policy or "auto")
        declared = self.schedule(schedule)
        definition = self.define(query)
        settings = pinned_settings(self.engine.spark)
        compiled = self.engine.compile(definition, settings)
        self._check_mode(target, mode, compiled)
        edges = edges_of(self.engine.catalog, compiled)
        check_acyclic(self.engine.catalog, target, edges)
        self._warn(target, definition)
        new = NewStreamTable(
            name=target,
            storage_id=f"{target.name}-{uuid4().hex[:8]}",
            original_query=definition.text,
            defining_query=definition.text,
            definition_kind=definition.kind,
            definition_reference=definition.reference,
            schedule=declared,
            effective_schedule=declared,
            refresh_mode=mode,
            fold_policy=policy,
            append_only=append_only,
            partition_by=self._partitions(partition_by, compiled),
            session_settings=settings,
            **commit.meaning(compiled),
        )
        with self.engine.catalog.transaction():
            table = self.engine.catalog.insert_stream_table(new)
            self.engine.catalog.replace_dependencies(table.id, edges)
        try:
            if initialize:
                self._populate(table)
            else:
                # empty storage, so that other definitions can name the table before it is loaded
                ChangeLogged.create(self.engine.layout.root(table, 1).path, commit.stored_schema(compiled.root))
                self.names.show(table)
        except BaseException:
            self._remove(self.engine.catalog.get_by_id(table.id))
            raise
        self.engine.ddl += 1
        return self.engine.catalog.get_by_id(table.id)

    def _populate(self, table: StreamTable) -> None:
        self.refresh_upstreams(table)
        self.engine.refresh(self.engine.catalog.get_by_id(table.id), {})
        self.names.show(self.engine.catalog.get_by_id(table.id))

    def refresh_upstreams(self, table: StreamTable) -> None:
        """A stream table that reads an unloaded one loads it first."""
        for edge in self.engine.catalog.dependencies(table.id):
            if edge.stream_table_id is not None:
                upstream = self.engine.catalog.get_by_id(edge.stream_table_id)
                if not upstream.is_populated:
                    self.refresh_upstreams(upstream)
                    self.engine.refresh(upstream, {})

    def define(self, query: str | Builder) -> Definition:
        return define(query)

    def schedule(self, text: str | None) -> str | None:
        """Checked and normalised; None means calculated from the readers."""
        parsed = parse_schedule(text, floor_seconds=self.engine.settings.min_schedule_seconds)
        return None if text is None or str(parsed).lower() == "calculated" else str(parsed)

    def _name(self, name: str) -> TableName:
        return TableName.parse(name, self.engine.spark.catalog.currentDatabase())

    def _check_free(self, target: TableName) -> None:
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

    def _check_mode(self, target: TableName, mode: RefreshMode, compiled: CompiledQuery) -> None:
        if mode is RefreshMode.DIFFERENTIAL:
            require_differential(compiled, target)

    def graph(self) -> Graph:
        return graph(self.engine.catalog)

    def _partitions(self, names: Sequence[str] | None, compiled: CompiledQuery) -> tuple[str, ...]:
        known = {c.label.lower() for c in compiled.output}
        for name in names or ():
            if name.lower() not in known:
                raise InvalidArgument(
                    f"partition column {name} is not in the query's output",
                    hint=f"use one of {', '.join(sorted(known))}",
                )
        return tuple(names or ())

    def _warn(self, target: TableName, definition: Definition) -> None:
        import re

        if definition.reference is None and re.search(r"\bselect\s+(distinct\s+)?(\w+\.)?\*", definition.text, re.I):
            _log.warning("%s selects *: a new column in a source rebuilds the table", target.short)

    # Alter -----------------------------------------------------------------------------------------------------------

    def alter(self, name: str, *, query: str | Builder | None, **changes: Any) -> StreamTable:
        """Everything is checked before anything changes; a new query is loaded aside and swapped in at once."""
        table = self.engine.catalog.get(self._name(name))
        fields = self._checked(changes)
        mode = fields.get("refresh_mode", table.refresh_mode)
        definition = self.define(query) if query is not None else None
        if definition is None:
            if mode is not table.refresh_mode:
                self._check_mode(table.full_name, mode, self.engine.compiled(table))
            return self.engine.catalog.update(table.id, **fields) if fields else table
        compiled = self.engine.compile(definition, table.session_settings)
        self._check_mode(table.full_name, mode, compiled)
        edges = edges_of(self.engine.catalog, compiled)
        check_acyclic(self.engine.catalog, table.full_name, edges)
        return self._redefine(table, definition, compiled, edges, fields)

    def _checked(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if changes.get("schedule") is not None:
            fields["schedule"] = fields["effective_schedule"] = self.schedule(changes["schedule"])
        if changes.get("refresh_mode") is not None:
            fields["refresh_mode"] = RefreshMode.parse(changes["refresh_mode"])
        if changes.get("fold_policy") is not None:
            fields["fold_policy"] = FoldPolicy.parse(changes["fold_policy"])
        if changes.get("status") is not None:
            fields |= self._status(changes["status"])
        return fields

    def _status(self, status: str) -> dict[str, Any]:
        word = status.strip().upper()
        if word == Status.ACTIVE:
            return {"status": Status.ACTIVE, "consecutive_errors": 0}
        if word == Status.SUSPENDED:
            return {"status": Status.SUSPENDED}
        raise InvalidArgument(f"'{status}' is not a status that can be set", hint="use ACTIVE or SUSPENDED")

    def _redefine(
        self,
        table: StreamTable,
        definition: Definition,
        compiled: CompiledQuery,
        edges: tuple[Dependency, ...],
        fields: dict[str, Any],
    ) -> StreamTable:
        engine = self.engine
        lease = engine.catalog.acquire_lease(table.id, engine.settings.lease_seconds)
        try:
            with Heartbeat(engine.catalog, lease, engine.settings.lease_seconds):
                current = adopt(engine, engine.catalog.get_by_id(table.id), lease)
                refresh = engine.catalog.begin_refresh(lease)
                sources = {e.source_key: engine.source(e) for e in edges}
                heads = {key: source.head() for key, source in sources.items()}
                spans = commit.spans(replace(current, frontier=None), sources, heads)
                changes = fields | {
                    "original_query": definition.text,
                    "defining_query": definition.text,
                    "definition_kind": definition.kind,
                    "definition_reference": definition.reference,
                    **commit.meaning(compiled),
                }
                decision = Decision(Action.REINITIALIZE, "query-altered", None, {"sources": {}})
                work = commit.Work(
                    engine,
                    current,
                    lease,
                    refresh.refresh_id,
                    decision,
                    spans,
                    compiled,
                    definition,
                    engine.reached,
                    changes,
                    edges,
                )
                try:
                    with translated():
                        work.perform()
                except FreshlakeError as error:
                    engine.catalog.fail_refresh(
                        refresh.refresh_id,
                        error,
                        max_consecutive_errors=engine.settings.max_consecutive_errors,
                        action=decision.action,
                        fallback_reason=decision.reason,
                        counted=False,
                    )
                    raise
        finally:
            engine.catalog.release_lease(lease)
        engine.forget(table)
        engine.ddl += 1
        after = engine.catalog.get_by_id(table.id)
        self.names.show(after)
        return after

    def replace(self, name: str, query: str | Builder, options: Mapping[str, Any]) -> StreamTable:
        """Absent: create. Identical: nothing. Other settings: changed in place. Another query: loaded, then swapped."""
        found = self.engine.catalog.find(self._name(name))
        if found is None:
            return self.create(name, query, **options)
        definition = self.define(query)
        compiled = self.engine.compile(definition, found.session_settings)
        same = compiled.fingerprint == found.fingerprint and definition.reference == found.definition_reference
        schedule = options["schedule"] if options["schedule"] is not None else "calculated"
        wanted = {
            "schedule": schedule,
            "refresh_mode": options["refresh_mode"] or "AUTO",
            "fold_policy": options["fold_policy"] or "auto",
        }
        fields = self._checked(wanted)
        differing = {k: v for k, v in fields.items() if getattr(found, k) != v}
        if same and not differing:
            _log.info("stream table %s is up to date", found.full_name.short)
            return found
        return self.alter(name, query=None if same else query, **{k: v for k, v in wanted.items() if k in differing})

    # Drop ------------------------------------------------------------------------------------------------------------

    def drop(self, name: str, if_exists: bool = False, cascade: bool = False) -> None:
        target = self._name(name)
        table = self.engine.catalog.find(target) if if_exists else self.engine.catalog.get(target)
        if table is None:
            return
        readers = self.engine.catalog.dependents(table.source_key)
        if readers and not cascade:
            raise StreamTableInUse(
                f"stream table {table.full_name.short} is read by {', '.join(r.full_name.short for r in readers)}",
                hint="drop those first, or drop with cascade",
            )
        for reader in readers:
            self.drop(str(reader.full_name), if_exists=True, cascade=True)
        lease = self.engine.catalog.acquire_lease(table.id, self.engine.settings.lease_seconds)
        try:
            self._remove(table)
        finally:
            self.engine.catalog.release_lease(lease)

    def _remove(self, table: StreamTable) -> None:
        self.engine.catalog.delete(table.id)
        self.names.hide(table)
        self.engine.forget(table)
        self.engine.ddl += 1
        shutil.rmtree(self.engine.layout.folder(table.storage_id), ignore_errors=True)
