"""The calls of a lake that are about refresh groups."""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.catalog.records import RefreshGroup
from freshlake.errors import NotFound
from freshlake.service.calls import Calls


class GroupCalls(Calls):
    """What users call; a lake has them among its own."""

    def create_refresh_group(self, name: str, tables: Sequence[str]) -> RefreshGroup:
        """Refresh and publish these stream tables together from now on."""
        return self._engine.catalog.insert_group(name, [self._stream_table(table).id for table in tables])

    def drop_refresh_group(self, name: str) -> None:
        """Refresh the members of a group each for itself again."""
        if not self._engine.catalog.remove_group(name):
            raise NotFound(f"there is no refresh group {name}")

    def refresh_groups(self) -> list[RefreshGroup]:
        return list(self._engine.catalog.groups())
