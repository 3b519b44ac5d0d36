"""The calls of a lake that are about refresh groups."""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.catalog.records import RefreshGroup
from freshlake.errors import InvalidArgument, NotFound
from freshlake.service.calls import Calls


class GroupCalls(Calls):
    """What users call; a lake has them among its own."""

    def create_refresh_group(self, name: str, tables: Sequence[str]) -> RefreshGroup:
        """Refresh and publish these stream tables together from now on."""
        members = {found.id: found for found in map(self._stream_table, tables)}
        captured = [member.full_name.short for member in members.values() if member.is_mirror]
        if captured:
            raise InvalidArgument(
                f"{', '.join(captured)} holds a captured table, which cannot be in a refresh group",
                hint="leave it out: all captured tables of a database are published together anyway",
            )
        if len(members) < 2:
            raise InvalidArgument(f"refresh group {name} has fewer than two stream tables", hint="name two or more")
        return self._engine.catalog.insert_group(name, list(members))

    def drop_refresh_group(self, name: str, *, if_exists: bool = False) -> None:
        """Refresh the members of a group each for itself again."""
        if not self._engine.catalog.remove_group(name) and not if_exists:
            raise NotFound(f"there is no refresh group {name}", hint="fl.refresh_groups() shows those there are")

    def refresh_groups(self) -> list[RefreshGroup]:
        return list(self._engine.catalog.groups())
