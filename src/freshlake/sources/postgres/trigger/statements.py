"""The objects of trigger capture as SQL: buffers, functions, triggers.

A buffer has one row per changed row: `o_<n>` and `n_<n>` are the old and the new value of the column with number n, in
PostgreSQL's own types, so that a value costs its writer no conversion. Columns are known by number, which no renaming
changes. Actions: I, U, D; T a truncation; S a change of the schema that the function could not follow.

A writer is never stopped by DDL. Each function first tries its own statement over no rows, in a subtransaction that
writes nothing (so it takes no transaction number). If a column is gone, renamed or of another type, that fails, and the
function leaves S instead: whoever reads the buffer copies the table anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from freshlake.sources.postgres.connection import FORMS, setting
from freshlake.sources.postgres.naming import Names, literal, quoted
from freshlake.sources.postgres.tables import Captured, Column, Table, TableKind
from freshlake.sources.postgres.types import SourceType, buffer_type, text_in_buffer

EVENTS = {"ins": "INSERT", "upd": "UPDATE", "del": "DELETE"}
TRUNCATION = "trunc"


def by_row(table: Table) -> bool:
    """Whether triggers must fire for each row instead of once for a statement.

    A statement's triggers are those of the table that it names, so changes that reach a table through its parent or
    its partitions pass them by; and a subscription applies rows without statements.
    """
    return table.kind is TableKind.PARTITIONED or table.has_parent or table.is_subscribed


def create_buffer(names: Names, captured: Captured) -> str:
    """The buffer of a table."""
    return f"""
CREATE TABLE {names.buffer(captured.oid)} (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    captured_at timestamptz NOT NULL DEFAULT pg_catalog.statement_timestamp(),
    relid oid NOT NULL,
    action "char" NOT NULL,
    changed smallint[],
    {", ".join(f"{name} {kind}" for name, kind in image_columns(captured).items())}
)"""


def widen_buffer(names: Names, captured: Captured, missing: Iterator[str]) -> str:
    """More columns for a buffer that others already use."""
    kinds = image_columns(captured)
    adds = ", ".join(f"ADD COLUMN {name} {kinds[name]}" for name in missing)
    return f"ALTER TABLE {names.buffer(captured.oid)} {adds}"


def image_columns(captured: Captured) -> dict[str, str]:
    """The buffer's columns for old and new values, with their types."""
    kinds = {column.number: buffer_type(column.type) for column in captured.columns}
    return {f"{side}_{number}": kind for side in "on" for number, kind in kinds.items()}


def create_guard(names: Names) -> str:
    """A function that two values of different types cannot be given to; what it returns does not matter."""
    return f"""
CREATE OR REPLACE FUNCTION {names.guard} (a anyelement, b anyelement) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT true'"""


def create_functions(names: Names, captured: Captured) -> Iterator[str]:
    """The functions of a table's triggers."""
    for function, source in sources(names, captured).items():
        yield _function(captured, function, source)


def sources(names: Names, captured: Captured) -> dict[str, str]:
    """What each function of a table does."""
    row = by_row(captured.table)
    bodies = {
        event: _row_body(names, captured, operation) if row else _statement_body(names, captured, operation)
        for event, operation in EVENTS.items()
    }
    bodies[TRUNCATION] = f"INSERT INTO {names.buffer(captured.oid)} (relid, action) VALUES (TG_RELID, 'T');"
    return {names.function(captured.oid, event): f"BEGIN\n{body}\nRETURN NULL;\nEND" for event, body in bodies.items()}


def revoke_functions(names: Names, captured: Captured) -> Iterator[str]:
    """Nobody else may put the functions on a table of their own, and so write to the buffer."""
    for event in (*EVENTS, TRUNCATION):
        yield f"REVOKE ALL ON FUNCTION {names.function(captured.oid, event)} () FROM PUBLIC"


def create_triggers(names: Names, captured: Captured) -> Iterator[str]:
    """The triggers of a table and, for truncations, of its partitions; PostgreSQL hands row triggers on by itself."""
    table = captured.table
    here = table.quoted_name
    for event, operation in EVENTS.items():
        each = "ROW" if by_row(table) else "STATEMENT"
        referencing = "" if by_row(table) else f" REFERENCING {_TRANSITIONS[operation]}"
        timing = f"AFTER {operation} ON {here}{referencing} FOR EACH {each}"
        yield from _trigger(names, table.oid, here, event, timing)
    partitions = [f"{quoted(p.schema)}.{quoted(p.name)}" for p in table.partitions]
    for place in [here, *partitions]:
        yield from _trigger(names, table.oid, place, TRUNCATION, f"AFTER TRUNCATE ON {place} FOR EACH STATEMENT")


_TRANSITIONS = {
    "INSERT": "NEW TABLE AS fl_new",
    "UPDATE": "OLD TABLE AS fl_old NEW TABLE AS fl_new",
    "DELETE": "OLD TABLE AS fl_old",
}


def _trigger(names: Names, oid: int, place: str, event: str, timing: str) -> Iterator[str]:
    trigger = names.trigger(oid, event)
    # dropping it first would need a lock against readers, too
    yield f"CREATE OR REPLACE TRIGGER {trigger} {timing} EXECUTE FUNCTION {names.function(oid, event)}()"
    # also for rows that a subscription or a restore writes
    yield f"ALTER TABLE {place} ENABLE ALWAYS TRIGGER {trigger}"


def _function(captured: Captured, function: str, source: str) -> str:
    settings = {"search_path": "pg_catalog, pg_temp", **(FORMS if _depends_on_settings(captured) else {})}
    clauses = "\n".join(f"SET {name} TO {setting(value)}" for name, value in settings.items())
    return f"""
CREATE OR REPLACE FUNCTION {function} () RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
{clauses}
AS {literal(source)}"""


def _depends_on_settings(captured: Captured) -> bool:
    """Whether a value is turned into text here whose form the writer's settings would change; labels have one form."""
    return any(text_in_buffer(c.type) and _inner(c.type).kind != "e" for c in captured.columns)


def _inner(source: SourceType) -> SourceType:
    core = source.core
    return core if core.element is None else _inner(core.element)


def _statement_body(names: Names, captured: Captured, operation: str) -> str:
    insert, tables = _statement_insert(names, captured, operation)
    guards = " AND ".join(_guards(names, captured, "n" if operation != "DELETE" else "o"))
    probe = f"{insert} FROM {tables['plain']} WHERE false AND {guards};"
    return f"{_probed(names, captured, probe)}\n{insert} FROM {tables['whole']};"


def _statement_insert(names: Names, captured: Captured, operation: str) -> tuple[str, dict[str, str]]:
    if operation == "INSERT":
        tables = {"plain": "fl_new n", "whole": "fl_new n"}
        return _insert(names, captured, "'I'", "NULL", new="n"), tables
    if operation == "DELETE":
        tables = {"plain": "fl_old o", "whole": "fl_old o"}
        return _insert(names, captured, "'D'", "NULL", old="o"), tables
    action = "CASE WHEN n.__fl_row IS NULL THEN 'D' WHEN o.__fl_row IS NULL THEN 'I' ELSE 'U' END::\"char\""
    changed = "CASE WHEN o.__fl_row IS NOT NULL AND n.__fl_row IS NOT NULL THEN c.changed END"
    return _insert(names, captured, action, changed, old="o", new="n"), _pairs(captured)


def _pairs(captured: Captured) -> dict[str, str]:
    """Old and new rows side by side, in the order in which they were changed.

    Any pairing would do: an update is −old +new, and a pair whose values are the same adds up to nothing. Where a
    trigger of the user's kept a moved row from arriving, there are fewer new rows than old ones.
    """
    columns = ", ".join(quoted(name) for name in captured.names)
    sides = [
        f"(SELECT {columns}, row_number() OVER () AS __fl_row FROM fl_{table}) {alias}"
        for table, alias in (("old", "o"), ("new", "n"))
    ]
    mask = f"CROSS JOIN LATERAL (SELECT {_mask(captured, 'o', 'n')} AS changed) c"
    plain = f"{sides[0]} FULL JOIN {sides[1]} ON o.__fl_row = n.__fl_row {mask}"
    unequal = "o.__fl_row IS NULL OR n.__fl_row IS NULL OR c.changed <> '{}'"
    return {"plain": plain, "whole": f"{plain} WHERE {unequal}"}


def _mask(captured: Captured, old: str, new: str) -> str:
    """The numbers of the columns whose bytes differ, which is never fewer than those whose values do."""
    parts = [
        f"CASE WHEN record_image_ne(ROW({_value(c, old)}), ROW({_value(c, new)})) THEN {c.number} END"
        for c in captured.columns
    ]
    return f"array_remove(ARRAY[{', '.join(parts)}]::smallint[], NULL)"


def _row_body(names: Names, captured: Captured, operation: str) -> str:
    old = "OLD" if operation != "INSERT" else ""
    new = "NEW" if operation != "DELETE" else ""
    guards = " AND ".join(_guards(names, captured, new or old))
    probed = _probed(names, captured, f"PERFORM 1 WHERE false AND {guards};")
    mask = _mask(captured, "OLD", "NEW") if operation == "UPDATE" else "NULL"
    insert = _insert(names, captured, f"'{operation[0]}'", mask, old=old, new=new)
    unequal = f" WHERE {mask} <> '{{}}'" if operation == "UPDATE" else ""
    return f"{probed}\n{insert}{unequal};"


def _probed(names: Names, captured: Captured, probe: str) -> str:
    """The probe, and what to do when it fails; without a buffer there is nothing to do, and its reader notices."""
    mark = f"INSERT INTO {names.buffer(captured.oid)} (relid, action) VALUES (TG_RELID, 'S');"
    return f"""BEGIN
{probe}
EXCEPTION WHEN syntax_error_or_access_rule_violation OR invalid_schema_name THEN
BEGIN
{mark}
EXCEPTION WHEN undefined_table OR undefined_column OR invalid_schema_name THEN NULL;
END;
RETURN NULL;
END;"""


def _guards(names: Names, captured: Captured, side: str) -> Iterator[str]:
    for column in captured.columns:
        kind = f"{quoted(column.type.schema)}.{quoted(column.type.name)}"
        yield f"{names.guard}({side}.{quoted(column.name)}, NULL::{kind})"


def _insert(names: Names, captured: Captured, action: str, changed: str, *, old: str = "", new: str = "") -> str:
    sides = [(prefix, alias) for prefix, alias in (("o", old), ("n", new)) if alias]
    columns = [f"{prefix}_{c.number}" for prefix, _ in sides for c in captured.columns]
    values = [_value(c, alias) for _, alias in sides for c in captured.columns]
    return (
        f"INSERT INTO {names.buffer(captured.oid)} (relid, action, changed, {', '.join(columns)})\n"
        f"SELECT TG_RELID, {action}, {changed}, {', '.join(values)}"
    )


def _value(column: Column, side: str) -> str:
    text = "::pg_catalog.text" if text_in_buffer(column.type) else ""
    return f"{side}.{quoted(column.name)}{text}"
