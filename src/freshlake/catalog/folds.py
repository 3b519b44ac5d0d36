"""Folds: which base version of a table or internal node holds which log versions."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select

from freshlake.catalog.database import Database
from freshlake.catalog.leases import check_epoch
from freshlake.catalog.records import Fold, StreamTable
from freshlake.catalog.rows import fetch, fetch_one
from freshlake.catalog.stream_tables import change, require
from freshlake.catalog.tables import folds
from freshlake.catalog.upsert import upsert
from freshlake.errors import InvariantViolated


class Folds(Database):
    """Add, look up and forget folds; `node` '' is the stream table itself."""

    def add_fold(
        self,
        stream_table_id: int,
        epoch: int,
        *,
        generation: int,
        folded_version: int,
        base_version: int,
        node: str = "",
    ) -> Fold:
        """Record a fold and make it the current one; raises LeaseLost, or refuses a fold past what readers see."""
        now = self._clock.now()
        fold = Fold(stream_table_id, node, generation, folded_version, base_version, now)
        with self._write() as connection:
            check_epoch(connection, stream_table_id, epoch)
            table = require(connection, stream_table_id)
            _check_published(table, fold)
            put_fold(connection, fold)
            current = _current(table, fold)
            if current:
                change(connection, stream_table_id, {**current, "updated_at": now})
            return fold

    def newest_fold(self, stream_table_id: int, *, generation: int, upto: int, node: str = "") -> Fold | None:
        """The newest fold that holds no log version after `upto`."""
        query = select(folds).where(_of(stream_table_id, generation, node), folds.c.folded_version <= upto)
        with self._read() as connection:
            return fetch_one(connection, query.order_by(folds.c.folded_version.desc()).limit(1), Fold)

    def folds(self, stream_table_id: int) -> tuple[Fold, ...]:
        """All folds of a stream table and its nodes, oldest first."""
        query = select(folds).where(folds.c.stream_table_id == stream_table_id)
        ordered = query.order_by(folds.c.node, folds.c.generation, folds.c.folded_version)
        with self._read() as connection:
            return fetch(connection, ordered, Fold)

    def prune_folds(self, stream_table_id: int, *, generation: int, oldest_read: int, node: str = "") -> int:
        """Forget folds that no reader at version `oldest_read` or later needs; returns how many."""
        with self._write() as connection:
            needed = self.newest_fold(stream_table_id, generation=generation, upto=oldest_read, node=node)
            if needed is None:
                return 0
            older = folds.c.folded_version < needed.folded_version
            return connection.execute(delete(folds).where(_of(stream_table_id, generation, node), older)).rowcount

    def forget_generations(self, stream_table_id: int, *, before: int) -> int:
        """Forget the folds of generations that no reader or consumer uses any more; returns how many."""
        old = (folds.c.stream_table_id == stream_table_id) & (folds.c.generation < before)
        with self._write() as connection:
            return connection.execute(delete(folds).where(old)).rowcount


def put_fold(connection: Connection, fold: Fold) -> None:
    """Record a fold inside a transaction; a repeated one replaces the first."""
    values = {"base_version": fold.base_version, "at": fold.at}
    key = ["stream_table_id", "node", "generation", "folded_version"]
    connection.execute(
        upsert(connection, folds).values(**asdict(fold)).on_conflict_do_update(index_elements=key, set_=values)
    )


def _of(stream_table_id: int, generation: int, node: str) -> ColumnElement[bool]:
    return (folds.c.stream_table_id == stream_table_id) & (folds.c.generation == generation) & (folds.c.node == node)


def _check_published(table: StreamTable, fold: Fold) -> None:
    published = table.published_version if fold.generation == table.published_generation else table.version
    if not fold.node and fold.folded_version > published:
        raise InvariantViolated(
            f"stream table {table.full_name.short} cannot be folded to version {fold.folded_version}",
            detail=f"readers see version {published}",
        )


def _current(table: StreamTable, fold: Fold) -> dict[str, Any]:
    """The columns that name the current fold; a fold of an older generation is not current."""
    if fold.generation != table.generation:
        return {}
    if not fold.node:
        return {"fold_base_version": fold.base_version, "folded_version": fold.folded_version}
    if fold.node not in table.nodes:
        raise InvariantViolated(f"stream table {table.full_name.short} has no internal node {fold.node}")
    state = replace(table.nodes[fold.node], base_version=fold.base_version, folded_version=fold.folded_version)
    return {"nodes": {**table.nodes, fold.node: state}}
