"""Statements about source databases: CREATE SOURCE, ALTER SOURCE, DROP SOURCE."""

from __future__ import annotations

from typing import Any

from freshlake.statements.cursor import Cursor
from freshlake.statements.values import AlterSource, CreateSource, DropSource

_MODES = ("AUTO", "TRIGGER", "WAL")


def create_source(cursor: Cursor) -> CreateSource:
    """After CREATE SOURCE."""
    name = cursor.identifier("a name for the source")
    cursor.expect("FROM", "POSTGRES", "CONNECTION")
    connection = cursor.string("where the address is kept, in quotes, such as 'env:SHOP_DATABASE'")
    return CreateSource(name, connection, **_clauses(cursor))


def _clauses(cursor: Cursor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while True:
        place = cursor.error("each clause once")
        name, value = _clause(cursor)
        if name is None:
            return found
        if name in found:
            raise place
        found[name] = value


def _clause(cursor: Cursor) -> tuple[str | None, Any]:
    if cursor.accept("SCHEMAS"):
        return "schemas", _names(cursor, "a schema")
    if cursor.accept("TABLES"):
        return "tables", _names(cursor, "a table: schema.table")
    if cursor.accept("AS", "TEXT"):
        return "as_text", _names(cursor, "a column: schema.table.column")
    if cursor.accept("CDC", "MODE"):
        return "cdc_mode", _mode(cursor)
    return None, None


def _mode(cursor: Cursor) -> str:
    return cursor.choice("a mode of capture", _MODES).lower()


def _names(cursor: Cursor, what: str) -> tuple[str, ...]:
    """Names in the case of the database, in parentheses."""
    cursor.expect_symbol("(")
    names = [_name(cursor, what)]
    while cursor.accept_symbol(","):
        names.append(_name(cursor, what))
    cursor.expect_symbol(")")
    return tuple(names)


def _texts(cursor: Cursor) -> tuple[str, ...]:
    """Columns, or none of them."""
    if cursor.accept("(", ")"):
        return ()
    return _names(cursor, "a column: schema.table.column")


def _name(cursor: Cursor, what: str) -> str:
    parts = [cursor.identifier(what)]
    while cursor.accept_symbol("."):
        parts.append(cursor.identifier("a name after '.'"))
    return ".".join(parts)


def alter_source(cursor: Cursor) -> AlterSource:
    """After ALTER SOURCE."""
    name = cursor.identifier("the name of a source")
    if cursor.accept("SET", "AS", "TEXT"):
        return AlterSource(name, as_text=_texts(cursor))
    cursor.expect("SET", "CDC", "MODE")
    return AlterSource(name, _mode(cursor))


def drop_source(cursor: Cursor) -> DropSource:
    """After DROP SOURCE."""
    if_exists = cursor.accept("IF", "EXISTS")
    return DropSource(cursor.identifier("the name of a source"), if_exists, cursor.accept("CASCADE"))
