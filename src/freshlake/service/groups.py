"""A refresh group as people see it."""

from __future__ import annotations

from typing import Any

from freshlake.catalog.records import RefreshGroup


def group_row(group: RefreshGroup) -> dict[str, Any]:
    """Names without the schema `default`."""
    return {
        "name": group.name,
        "members": tuple(member.short for member in group.members),
        "created_at": group.created_at,
    }
