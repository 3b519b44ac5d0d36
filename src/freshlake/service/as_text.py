"""Columns (`schema.table.column`) of a source database that are taken as text, whatever their type."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from freshlake.catalog import Catalog
from freshlake.catalog.names import TableName
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.postgres.compare import Reason
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.finding import check_columns
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import Table

_log = logging.getLogger("freshlake")


def of_table(table: Table, columns: Iterable[str]) -> list[str]:
    """Those of these columns that are a table's, by their own names."""
    start = f"{table.full_name}."
    return [column.removeprefix(start) for column in columns if column.startswith(start)]


def taken_as_text(name: TableName, table: Table, columns: Iterable[str]) -> list[str]:
    """The columns that are taken as text; one of them may have been dropped since that was asked for."""
    wanted, there = of_table(table, columns), {column.name.lower() for column in table.columns}
    for column in (column for column in wanted if column.lower() not in there):
        _log.warning("%s has no column %s, which is to be taken as text", name, column)
    return [column for column in wanted if column.lower() in there]


def check_as_text(database: CapturedDatabase, columns: Sequence[str]) -> None:
    """Raise unless these are columns of a database."""
    if columns:
        with database.pool.take() as connection, transaction(connection, read_only=True) as cursor:
            check_columns(cursor, look(cursor), columns)


def take_as_text(catalog: Catalog, database: CapturedDatabase, columns: Sequence[str]) -> None:
    """These columns of a database, and no others, are taken as text; mirrors that had them otherwise are copied."""
    with catalog.transaction():
        catalog.update_database(database.name, as_text=tuple(columns))
        for mine in database.mirrored():
            table = mine.captured.table
            wanted = frozenset(table.column(column).name for column in of_table(table, columns))
            if wanted != mine.captured.as_text:
                catalog.mark_resync(mine.mirror.id, f"{Reason.SCHEMA_CHANGED}: other columns are taken as text")
