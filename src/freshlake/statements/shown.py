"""Statements that only look: what is shown, and of which stream table."""

from __future__ import annotations

from collections.abc import Callable

from freshlake.statements.cursor import Cursor
from freshlake.statements.values import Show, ShowChanges, Shown, WaitFor


def show(what: Shown) -> Callable[[Cursor], Show]:
    """Of the whole lake."""
    return lambda _: Show(what)


def show_of(what: Shown) -> Callable[[Cursor], Show]:
    """Of one stream table."""
    return lambda cursor: Show(what, cursor.table_name())


def show_of_any(what: Shown) -> Callable[[Cursor], Show]:
    """Of one stream table, or of all when none is named."""
    return lambda cursor: Show(what, None if cursor.is_done() else cursor.table_name())


def show_changes(cursor: Cursor) -> ShowChanges:
    """After SHOW STREAM TABLE CHANGES."""
    name = cursor.table_name()
    cursor.expect("SINCE")
    return ShowChanges(name, int(cursor.number("a version", whole=True)))


def wait_for(cursor: Cursor) -> WaitFor:
    """After WAIT FOR STREAM TABLE."""
    name = cursor.table_name()
    cursor.expect("TO", "READ")
    source = cursor.table_name()
    version = int(cursor.number("a version", whole=True)) if cursor.accept("VERSION") else None
    return WaitFor(name, source, version, float(cursor.number("seconds")) if cursor.accept("TIMEOUT") else None)
