"""Statements about refresh groups: CREATE, DROP."""

from __future__ import annotations

from freshlake.statements.cursor import Cursor
from freshlake.statements.values import CreateRefreshGroup, DropRefreshGroup


def create_group(cursor: Cursor) -> CreateRefreshGroup:
    """After CREATE REFRESH GROUP."""
    name = cursor.identifier("a name for the group")
    cursor.expect_symbol("(")
    tables = [cursor.table_name()]
    while cursor.accept_symbol(","):
        tables.append(cursor.table_name())
    cursor.expect_symbol(")")
    return CreateRefreshGroup(name, tuple(tables))


def drop_group(cursor: Cursor) -> DropRefreshGroup:
    """After DROP REFRESH GROUP."""
    if_exists = cursor.accept("IF", "EXISTS")
    return DropRefreshGroup(cursor.identifier("the name of a group"), if_exists)
