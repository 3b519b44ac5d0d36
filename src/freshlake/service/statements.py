"""Freshlake's own SQL statements, carried out through the same calls as the Python API."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from freshlake.errors import InvalidArgument
from freshlake.service.groups import group_row
from freshlake.service.options import DEFAULTS, NAMES
from freshlake.service.show_statements import show
from freshlake.statements import values as s
from freshlake.statements.parse import parse_statement

if TYPE_CHECKING:
    from freshlake.catalog.records import StreamTable
    from freshlake.lake import Freshlake


def run(fl: Freshlake, text: str) -> DataFrame | None:
    """The result of one of Freshlake's statements; None when the text is not one."""
    statement = parse_statement(text)
    if statement is None:
        return None
    if isinstance(statement, s.ShowChanges):
        return fl.changes(statement.name, statement.since)
    return as_frame(fl.spark, _run(fl, statement))


def _run(fl: Freshlake, statement: Any) -> Iterable[Any]:
    if isinstance(statement, s.Show):
        return show(fl, statement)
    for kind in (_define, _group, _source, _work, _show):
        found = kind(fl, statement)
        if found is not None:
            return found
    return [_done(_alter(fl, statement))]


def _define(fl: Freshlake, statement: Any) -> Iterable[Any] | None:
    match statement:
        case s.CreateStreamTable():
            return [_create(fl, statement)]
        case s.DropStreamTable(name, if_exists, cascade):
            fl.drop_stream_table(name, if_exists=if_exists, cascade=cascade)
            return []
        case s.DropAllStreamTables():
            return [{"name": name} for name in fl.drop_all()]
        case s.ValidateQuery(query, dialect):
            return [fl.validate(query, dialect=dialect)]
    return None


def _group(fl: Freshlake, statement: Any) -> Iterable[Any] | None:
    match statement:
        case s.CreateRefreshGroup(name, tables):
            return [group_row(fl.create_refresh_group(name, tables))]
        case s.DropRefreshGroup(name, if_exists):
            fl.drop_refresh_group(name, if_exists=if_exists)
            return []
    return None


def _source(fl: Freshlake, statement: Any) -> Iterable[Any] | None:
    match statement:
        case s.CreateSource(name, connection, schemas, tables, as_text, mode):
            return [fl.add_postgres(name, connection, schemas=schemas, tables=tables, as_text=as_text, cdc_mode=mode)]
        case s.AlterSource(name, mode, as_text):
            return [fl.alter_source(name, cdc_mode=mode, as_text=as_text)]
        case s.DropSource(name, if_exists, cascade):
            fl.drop_source(name, if_exists=if_exists, cascade=cascade)
            return []
        case s.Deliver(name, to):
            return [fl.deliver(name, to)]
        case s.EndDelivery(to, if_exists):
            fl.end_delivery(to, if_exists=if_exists)
            return []
    return None


def _work(fl: Freshlake, statement: Any) -> Iterable[Any] | None:
    match statement:
        case s.RefreshStreamTable(name, full):
            return [fl.refresh(name, mode="FULL" if full else None)]
        case s.RefreshAllStreamTables():
            return fl.refresh_all()
        case s.FoldStreamTable(name):
            return [fl.fold(name)]
        case s.VacuumStreamTable(name):
            return [{"name": name, "deleted_files": fl.vacuum(name)}]
        case s.VerifyStreamTable(name):
            return [fl.verify(name)]
        case s.AuditStreamTable(name):
            return [fl.audit(name)]
        case s.RepairStreamTable(name):
            return [fl.repair(name)]
        case s.WaitFor(name, source, version, timeout):
            given = {} if timeout is None else {"timeout": timeout}
            return [{"name": name, "source": source, "version": fl.wait_for(name, source, version, **given)}]
    return None


def _show(fl: Freshlake, statement: Any) -> Iterable[Any] | None:
    match statement:
        case s.ShowStreamTables():
            return fl.status()
        case s.ShowSources():
            return fl.list_sources()
        case s.ShowDeliveries():
            return fl.deliveries()
        case s.ShowHealth():
            return fl.health()
        case s.ShowAlerts():
            return fl.alerts()
        case s.ShowAudits(name):
            return fl.audits(name)
        case s.ShowHistory(name):
            return fl.history(name)
        case s.ExplainStreamTable(name):
            return [{"explanation": str(fl.explain(name))}]
    return None


def _alter(fl: Freshlake, statement: Any) -> StreamTable:
    match statement:
        case s.SetQuery(name, query, dialect):
            return fl.alter_stream_table(name, query=query, dialect=dialect)
        case s.SetSchedule(name, schedule):
            return fl.alter_stream_table(name, schedule=schedule)
        case s.SetRefreshMode(name, mode):
            return fl.alter_stream_table(name, refresh_mode=str(mode))
        case s.SetOptions(name, options):
            return fl.alter_stream_table(name, **_options(options, NAMES))
        case s.SuspendStreamTable(name):
            return fl.alter_stream_table(name, status="SUSPENDED")
        case s.ResumeStreamTable(name):
            return fl.resume(name)
    raise InvalidArgument(f"statement {type(statement).__name__} is not known")


def _create(fl: Freshlake, statement: s.CreateStreamTable) -> dict[str, Any]:
    clauses: dict[str, Any] = {
        "schedule": statement.schedule,
        "refresh_mode": str(statement.refresh_mode) if statement.refresh_mode else None,
        "append_only": statement.append_only or None,
        "partition_by": statement.partition_by or None,
        "fold_policy": str(statement.fold) if statement.fold else None,
    }
    given = {name: value for name, value in clauses.items() if value is not None}
    options = _options(statement.options, DEFAULTS)
    for name in options.keys() & given:
        raise InvalidArgument(f"{name} is given twice", hint="give it as a clause or in WITH (…), not both")
    options |= {**given, "initialize": statement.with_data, "dialect": statement.dialect}
    if statement.or_replace:
        return _done(fl.create_or_replace_stream_table(statement.name, statement.query, **options))
    if statement.if_not_exists:
        return _done(fl.create_stream_table_if_not_exists(statement.name, statement.query, **options))
    return _done(fl.create_stream_table(statement.name, statement.query, **options))


def _options(options: tuple[tuple[str, str], ...], known: Collection[str]) -> dict[str, Any]:
    for name, _ in options:
        if name not in known:
            raise InvalidArgument(
                f"'{name}' is not a property of a stream table", hint=f"use {', '.join(sorted(known))}"
            )
    return dict(options)


def _done(table: Any) -> dict[str, Any]:
    return {"name": table.full_name.short, "status": str(table.shown_status), "version": table.version}


def as_frame(spark: SparkSession, records: Iterable[Any]) -> DataFrame:
    """Records as a DataFrame on the driver; values that SQL has no type for become text."""
    import json

    import pyarrow as pa

    rows = [_plain(r) for r in records]
    if not rows:
        return spark.createDataFrame(pa.table({"name": pa.array([], pa.string())}))
    columns: dict[str, list[Any]] = {}
    for name in rows[0]:
        values = [r[name] for r in rows]
        if any(isinstance(v, dict | list | tuple) for v in values):
            values = [None if v is None else json.dumps(v, default=str) for v in values]
        columns[name] = values
    table = pa.table({n: pa.array(v) for n, v in columns.items()})
    nulls = [f.name for f in table.schema if pa.types.is_null(f.type)]
    for name in nulls:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(name).cast(pa.string()))
    return spark.createDataFrame(table)


def _plain(record: Any) -> dict[str, Any]:
    if isinstance(record, dict):
        return record
    assert is_dataclass(record)
    found = {f.name: getattr(record, f.name) for f in fields(record)}
    return {k: _value(v) for k, v in found.items()}


def _value(value: Any) -> Any:
    from enum import Enum

    if isinstance(value, Enum):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(value)
    if isinstance(value, list | tuple) and any(is_dataclass(v) for v in value):
        return [_plain(v) for v in value]
    return dict(value) if hasattr(value, "keys") else value
