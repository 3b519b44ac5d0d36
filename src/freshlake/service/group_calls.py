"""The calls of a lake that are about refresh groups."""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.catalog.names import TableName
from freshlake.catalog.records import RefreshGroup
from freshlake.errors import NotFound
from freshlake.refresh.engine import Engine


class GroupCalls:
    """What users call; a lake has them among its own."""

    _engine: Engine

    def create_refresh_group(self, name: str, tables: Sequence[str]) -> RefreshGroup:
        """Refresh and publish these stream tables together from now on."""
        catalog = self._engine.catalog
        return catalog.insert_group(name, [catalog.get(self._name(table)).id for table in tables])

    def drop_refresh_group(self, name: str) -> None:
        """Refresh the members of a group each for itself again."""
        if not self._engine.catalog.remove_group(name):
            raise NotFound(f"there is no refresh group {name}")

    def refresh_groups(self) -> list[RefreshGroup]:
        return list(self._engine.catalog.groups())

    def _name(self, name: str) -> TableName:
        return TableName.parse(name, self._engine.spark.catalog.currentDatabase())
