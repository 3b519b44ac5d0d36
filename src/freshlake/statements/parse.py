"""Stream table statements: text in, a frozen value out; every other statement belongs to Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from freshlake.catalog import FoldPolicy, RefreshMode
from freshlake.dialect import Dialect
from freshlake.statements.cursor import Cursor
from freshlake.statements.deliveries import deliver, end_delivery
from freshlake.statements.groups import create_group, drop_group
from freshlake.statements.shown import show, show_changes, show_of, show_of_any, wait_for
from freshlake.statements.sources import alter_source, create_source, drop_source
from freshlake.statements.tokens import Kind
from freshlake.statements.values import (
    AuditStreamTable,
    CreateStreamTable,
    DropAllStreamTables,
    DropStreamTable,
    ExplainStreamTable,
    FoldStreamTable,
    RefreshAllStreamTables,
    RefreshStreamTable,
    RepairStreamTable,
    ResumeStreamTable,
    SetOptions,
    SetQuery,
    SetRefreshMode,
    SetSchedule,
    ShowAlerts,
    ShowAudits,
    ShowDeliveries,
    ShowHealth,
    ShowHistory,
    Shown,
    ShowSources,
    ShowStreamTables,
    Statement,
    SuspendStreamTable,
    VacuumStreamTable,
    ValidateQuery,
    VerifyStreamTable,
)

_MODES = (*RefreshMode, "INCREMENTAL")
_FOLDS = tuple(policy.upper() for policy in FoldPolicy)


def parse_statement(text: str) -> Statement | None:
    """The stream table statement in a text, or None when it is not one; raises InvalidStatement with the position."""
    cursor = Cursor(text)
    for start, parse in _STATEMENTS:
        if cursor.accept(*start):
            statement = parse(cursor)
            cursor.finish()
            return statement
    return None


def _create(cursor: Cursor, *, or_replace: bool = False) -> CreateStreamTable:
    cursor.expect("TABLE")
    if or_replace and cursor.at("IF", "NOT", "EXISTS"):
        raise cursor.error("a stream table name (OR REPLACE excludes IF NOT EXISTS)")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.table_name()
    clauses = _clauses(cursor)
    cursor.expect("AS")
    query = _query(cursor, clauses.get("dialect"))
    return CreateStreamTable(name, query, or_replace=or_replace, if_not_exists=if_not_exists, **clauses)


def _create_or_replace(cursor: Cursor) -> CreateStreamTable:
    return _create(cursor, or_replace=True)


def _clauses(cursor: Cursor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while not cursor.at("AS"):
        place = cursor.error("each clause once")
        name, value = _clause(cursor)
        if name in found:
            raise place
        found[name] = value
    return found


def _clause(cursor: Cursor) -> tuple[str, Any]:
    for words, name, parse in _CLAUSES:
        if cursor.accept(*words):
            return name, parse(cursor)
    starts = [" ".join(words) for words, _, _ in _CLAUSES if words != ("PARTITIONED", "BY")]
    raise cursor.error(f"{', '.join(starts)} or AS")


def _schedule(cursor: Cursor) -> str:
    if cursor.accept("CALCULATED"):
        return "calculated"
    return cursor.string("a schedule in quotes, such as '5m'")


def _mode(cursor: Cursor) -> RefreshMode:
    return RefreshMode.parse(cursor.choice("a refresh mode", _MODES))


def _fold_policy(cursor: Cursor) -> FoldPolicy:
    return FoldPolicy.parse(cursor.choice("a fold policy", _FOLDS))


def _dialect(cursor: Cursor) -> str:
    return str(Dialect.parse(cursor.identifier("a SQL dialect")))


def _query(cursor: Cursor, dialect: str | None) -> str:
    """Strings and names of another dialect are not Spark's, so its text is taken unread."""
    return cursor.query() if dialect in (None, Dialect.SPARK) else cursor.rest()


def _columns(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect_symbol("(")
    columns = [cursor.identifier("a column name")]
    while cursor.accept_symbol(","):
        columns.append(cursor.identifier("a column name"))
    cursor.expect_symbol(")")
    return tuple(columns)


def _options(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    options: dict[str, str] = {}
    while True:
        place = cursor.error("each option once")
        key = cursor.identifier("an option name").lower()
        if key in options:
            raise place
        cursor.expect_symbol("=")
        options[key] = _value(cursor)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return tuple(options.items())


def _value(cursor: Cursor) -> str:
    if cursor.peek().kind in (Kind.WORD, Kind.NUMBER):
        return cursor.take().text
    return cursor.string("a value")


_CLAUSES: tuple[tuple[tuple[str, ...], str, Callable[[Cursor], Any]], ...] = (
    (("SCHEDULE",), "schedule", _schedule),
    (("REFRESH", "MODE"), "refresh_mode", _mode),
    (("APPEND", "ONLY"), "append_only", lambda _: True),
    (("PARTITION", "BY"), "partition_by", _columns),
    (("PARTITIONED", "BY"), "partition_by", _columns),
    (("FOLD",), "fold", _fold_policy),
    (("DIALECT",), "dialect", _dialect),
    (("WITH", "NO", "DATA"), "with_data", lambda _: False),
    (("WITH", "("), "options", _options),
)


def _alter(cursor: Cursor) -> Statement:
    cursor.expect("TABLE")
    name = cursor.table_name()
    if cursor.accept("SUSPEND"):
        return SuspendStreamTable(name)
    if cursor.accept("RESUME"):
        return ResumeStreamTable(name)
    if cursor.accept("SET"):
        return _set(cursor, name)
    raise cursor.error("SET, SUSPEND or RESUME")


def _set(cursor: Cursor, name: str) -> Statement:
    if cursor.accept("QUERY"):
        dialect = _dialect(cursor) if cursor.accept("DIALECT") else None
        cursor.accept("AS")
        return SetQuery(name, _query(cursor, dialect), dialect)
    if cursor.accept("SCHEDULE"):
        return SetSchedule(name, _schedule(cursor))
    if cursor.accept("REFRESH", "MODE"):
        return SetRefreshMode(name, _mode(cursor))
    if cursor.accept_symbol("("):
        return SetOptions(name, _options(cursor))
    raise cursor.error("QUERY, SCHEDULE, REFRESH MODE or '('")


def _drop(cursor: Cursor) -> DropStreamTable:
    cursor.expect("TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    return DropStreamTable(cursor.table_name(), if_exists, cursor.accept("CASCADE"))


def _drop_all(cursor: Cursor) -> DropAllStreamTables:
    cursor.expect("TABLES")
    return DropAllStreamTables()


def _refresh(cursor: Cursor) -> RefreshStreamTable:
    return RefreshStreamTable(cursor.table_name(), cursor.accept("FULL"))


def _refresh_all(cursor: Cursor) -> RefreshAllStreamTables:
    cursor.expect("TABLES")
    return RefreshAllStreamTables()


def _validate(cursor: Cursor) -> ValidateQuery:
    dialect = _dialect(cursor) if cursor.accept("DIALECT") else None
    cursor.expect("AS")
    return ValidateQuery(_query(cursor, dialect), dialect)


def _show_history(cursor: Cursor) -> ShowHistory:
    cursor.expect("HISTORY")
    return ShowHistory(cursor.table_name())


def _show_audits(cursor: Cursor) -> ShowAudits:
    return ShowAudits(None if cursor.is_done() else cursor.table_name())


def _named(statement: Callable[[str], Statement]) -> Callable[[Cursor], Statement]:
    return lambda cursor: statement(cursor.table_name())


# CREATE, ALTER and DROP STREAM mean nothing to Spark, so a mistake after them is reported here.
_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[Cursor], Statement]], ...] = (
    (("CREATE", "STREAM"), _create),
    (("CREATE", "OR", "REPLACE", "STREAM"), _create_or_replace),
    (("ALTER", "STREAM"), _alter),
    (("DROP", "STREAM"), _drop),
    (("DROP", "ALL", "STREAM"), _drop_all),
    (("CREATE", "SOURCE"), create_source),
    (("ALTER", "SOURCE"), alter_source),
    (("DROP", "SOURCE"), drop_source),
    (("SHOW", "SOURCES"), lambda _: ShowSources()),
    (("DELIVER", "STREAM", "TABLE"), deliver),
    (("END", "DELIVERY"), end_delivery),
    (("SHOW", "DELIVERIES"), lambda _: ShowDeliveries()),
    (("REFRESH", "STREAM", "TABLE"), _refresh),
    (("REFRESH", "ALL", "STREAM"), _refresh_all),
    (("SHOW", "STREAM", "TABLES"), lambda _: ShowStreamTables()),
    (("SHOW", "STREAM", "TABLE", "HEALTH"), lambda _: ShowHealth()),
    (("SHOW", "STREAM", "TABLE", "ALERTS"), lambda _: ShowAlerts()),
    (("SHOW", "STREAM", "TABLE", "AUDITS"), _show_audits),
    (("SHOW", "STREAM", "TABLE", "TREE"), show(Shown.TREE)),
    (("SHOW", "STREAM", "TABLE", "SOURCES"), show_of_any(Shown.SOURCES)),
    (("SHOW", "STREAM", "TABLE", "CHANGES"), show_changes),
    (("SHOW", "STREAM", "TABLE", "CHOICE"), show_of(Shown.CHOICE)),
    (("SHOW", "STREAM", "TABLE", "CHOICES"), show_of(Shown.CHOICES)),
    (("SHOW", "STREAM", "TABLE", "WORKERS"), show(Shown.WORKERS)),
    (("SHOW", "STREAM", "TABLE", "JOBS"), show(Shown.JOBS)),
    (("SHOW", "STREAM", "TABLE", "SETTINGS"), show(Shown.SETTINGS)),
    (("SHOW", "STREAM", "TABLE"), _show_history),
    (("DIAGNOSE", "STREAM", "TABLE"), show_of(Shown.DIAGNOSIS)),
    (("CREATE", "REFRESH", "GROUP"), create_group),
    (("DROP", "REFRESH", "GROUP"), drop_group),
    (("SHOW", "REFRESH", "GROUPS"), show(Shown.GROUPS)),
    (("SHOW", "CDC", "STATUS"), show(Shown.CDC_STATUS)),
    (("SHOW", "CDC", "HEALTH"), show(Shown.CDC_HEALTH)),
    (("SHOW", "CDC", "SLOTS"), show(Shown.CDC_SLOTS)),
    (("SHOW", "CDC", "BUFFERS"), show(Shown.CDC_BUFFERS)),
    (("VALIDATE", "STREAM", "TABLE"), _validate),
    (("WAIT", "FOR", "STREAM", "TABLE"), wait_for),
    (("VACUUM", "STREAM", "TABLE"), _named(VacuumStreamTable)),
    (("EXPLAIN", "STREAM", "TABLE"), _named(ExplainStreamTable)),
    (("VERIFY", "STREAM", "TABLE"), _named(VerifyStreamTable)),
    (("AUDIT", "STREAM", "TABLE"), _named(AuditStreamTable)),
    (("REPAIR", "STREAM", "TABLE"), _named(RepairStreamTable)),
    (("FOLD", "STREAM", "TABLE"), _named(FoldStreamTable)),
)
