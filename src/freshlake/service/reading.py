"""Reading stream tables: the published state, and the changes between versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame

from freshlake.catalog.records import StatePoint, StreamTable
from freshlake.errors import FreshlakeError, InvalidArgument, StorageMissing, StreamTableNotPopulated, VersionNotKept
from freshlake.refresh.engine import Engine
from freshlake.service.held import held_columns
from freshlake.storage.layout import FoldPoint


@dataclass
class Reading:
    engine: Engine
    caught_up: Callable[[StreamTable], StreamTable] = lambda table: table
    """Brings a table that has to be up to date there before it is read."""

    def state(self, table: StreamTable) -> DataFrame:
        """The published rows, pinned: a later refresh does not change what this DataFrame shows."""
        table = self.caught_up(table)
        self.check(table)
        return self.state_at(table, table.published_generation, table.published_version)

    def state_at(self, table: StreamTable, generation: int, version: int) -> DataFrame:
        """The rows of a version that is kept."""
        storage, tried = self.engine.layout.root(table, generation), None
        while (point := self._newest_fold(table, generation, version)) is not None:
            try:
                return storage.read(self.engine.spark, version, point, columns=self._visible(table, generation))
            except StorageMissing as error:
                if point == tried:
                    raise self._missing(table, generation, version, error) from error
                tried = point  # a fold and a clean-up may have come in between
        raise VersionNotKept(_gone(table, version))

    def _missing(self, table: StreamTable, generation: int, version: int, error: StorageMissing) -> FreshlakeError:
        newest = (generation, version) == (table.published_generation, table.published_version)
        if newest or not self.engine.layout.is_there(table.storage_id, generation):
            return StorageMissing(f"the storage of stream table {table.full_name.short} is gone", detail=error.message)
        return VersionNotKept(_gone(table, version), detail=error.message)

    def _newest_fold(self, table: StreamTable, generation: int, version: int) -> FoldPoint | None:
        fold = self.engine.catalog.newest_fold(table.id, generation=generation, upto=version)
        return None if fold is None else FoldPoint(fold.base_version, fold.folded_version)

    def as_of(self, table: StreamTable, version: int | None, timestamp: datetime | None) -> DataFrame:
        """The rows as they were published at a version, or at the newest one that is not after a moment."""
        self.check(table)
        if version is not None and timestamp is not None:
            raise InvalidArgument("a version and a timestamp are two ways to say the same", hint="give one of them")
        if version is not None:
            if not 0 <= version <= table.published_version:
                raise VersionNotKept(
                    f"stream table {table.full_name.short} has no version {version}",
                    hint=f"its published version is {table.published_version}",
                )
            return self.state_at(table, table.published_generation, version)
        assert timestamp is not None
        moment = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
        if (found := self._version_at(table, moment)) is not None:
            return self.state_at(table, table.published_generation, found)
        raise VersionNotKept(f"stream table {table.full_name.short} has no state as of {moment.isoformat()}")

    def _version_at(self, table: StreamTable, moment: datetime) -> int | None:
        """The newest published version whose data is not later.

        States whose roots disagree have no point, and the history forgets sooner than the points.
        """
        known = [point.version for point in self.published_points(table, until=moment, limit=1)]
        made = self.engine.catalog.newest_version_at(
            table.id, table.published_generation, moment, upto=table.published_version
        )
        return max([*known, *([] if made is None else [made])], default=None)

    def published_points(
        self, table: StreamTable, *, until: datetime | None = None, limit: int | None = None
    ) -> Sequence[StatePoint]:
        """States of the published generation that readers may see, newest first."""
        generation, version = table.published_generation, table.published_version
        return self.engine.catalog.published_points(table.id, generation, version, until=until, limit=limit)

    def changes(self, table: StreamTable, since: int) -> DataFrame:
        """Weighted rows of the versions after `since`, consolidated."""
        table = self.caught_up(table)
        self.check(table)
        if not 0 <= since <= table.published_version:
            raise InvalidArgument(
                f"stream table {table.full_name.short} has no version {since}",
                hint=f"its published version is {table.published_version}",
            )
        storage, columns = self.engine.layout.root(table, table.published_generation), self._visible(table)
        relation = storage.changes(self.engine.spark, since, table.published_version, columns=columns)
        return relation.dataframe(self.engine.spark)

    def _visible(self, table: StreamTable, generation: int | None = None) -> list[str]:
        """Until a rebuilt table is published with its group, readers see the columns that it had before.

        A mirror has no values of columns that are not captured.
        """
        generation = table.published_generation if generation is None else generation
        held = held_columns(self.engine.catalog, table)
        if generation != table.generation:
            names = self.engine.layout.root(table, generation).visible.names
        else:
            assert table.output_schema is not None
            names = [f["name"] for f in table.output_schema["fields"]]
        return [name for name in names if held is None or name in held]

    def check(self, table: StreamTable) -> None:
        if not table.is_populated:
            raise StreamTableNotPopulated(
                f"stream table {table.full_name.short} has not been loaded yet", hint="refresh it first"
            )


def _gone(table: StreamTable, version: int) -> str:
    return f"version {version} of stream table {table.full_name.short} is no longer kept"
