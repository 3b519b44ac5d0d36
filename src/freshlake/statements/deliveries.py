"""Statements about deliveries: DELIVER STREAM TABLE, END DELIVERY."""

from __future__ import annotations

from freshlake.statements.cursor import Cursor
from freshlake.statements.values import Deliver, EndDelivery


def deliver(cursor: Cursor) -> Deliver:
    """After DELIVER STREAM TABLE."""
    name = cursor.table_name()
    cursor.expect("TO")
    return Deliver(name, _target(cursor))


def end_delivery(cursor: Cursor) -> EndDelivery:
    """After END DELIVERY."""
    if_exists = cursor.accept("IF", "EXISTS")
    cursor.expect("TO")
    return EndDelivery(_target(cursor), if_exists)


def _target(cursor: Cursor) -> str:
    """A table of a source, in the case of the database."""
    parts = [cursor.identifier("a table of a source: source.schema.table")]
    for _ in range(2):
        cursor.expect_symbol(".")
        parts.append(cursor.identifier("a name after '.'"))
    return ".".join(parts)
