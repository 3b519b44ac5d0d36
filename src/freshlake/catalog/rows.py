"""From rows to records; a value that no record can hold means that the catalog is damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, Executable

from freshlake.errors import CatalogCorrupt

R = TypeVar("R")


def fetch(connection: Connection, statement: Executable, record: Callable[..., R], **parameters: Any) -> tuple[R, ...]:
    """All rows of a statement, each made into a record from its columns by name."""
    try:
        return tuple(record(**row) for row in connection.execute(statement, parameters).mappings())
    except (ValueError, TypeError) as error:
        raise CatalogCorrupt("the catalog holds a damaged record", detail=str(error)) from error


def fetch_in_order(connection: Connection, statement: Executable, record: Callable[..., R]) -> tuple[R, ...]:
    """As `fetch`, from columns in the order of the record's fields: faster, for what is read every second."""
    try:
        return tuple(record(*row) for row in connection.execute(statement))
    except (ValueError, TypeError) as error:
        raise CatalogCorrupt("the catalog holds a damaged record", detail=str(error)) from error


def fetch_one(connection: Connection, statement: Executable, record: Callable[..., R], **parameters: Any) -> R | None:
    """The first row of a statement as a record, or None."""
    rows = fetch(connection, statement, record, **parameters)
    return rows[0] if rows else None
