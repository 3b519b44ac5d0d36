"""What all calls of a lake need: the stream table that a name means."""

from __future__ import annotations

from freshlake.catalog.names import TableName
from freshlake.catalog.records import StreamTable
from freshlake.refresh.engine import Engine


class Calls:
    """A lake is made of several of these, each with what users call about one thing."""

    _engine: Engine

    def _name(self, name: str) -> TableName:
        return TableName.parse(name, self._engine.spark.catalog.currentDatabase())

    def _stream_table(self, name: str) -> StreamTable:
        return self._engine.catalog.get(self._name(name))
