"""Freshlake keeps stream tables fresh on Spark and Delta Lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from freshlake.version import VERSION as __version__

if TYPE_CHECKING:
    from freshlake.lake import Freshlake, connect

__all__ = ["Freshlake", "__version__", "connect"]


def __getattr__(name: str) -> Any:
    """Spark is imported when a lake is opened, so that parts without Spark start at once."""
    if name in ("Freshlake", "connect"):
        from freshlake import lake

        return getattr(lake, name)
    raise AttributeError(f"module 'freshlake' has no attribute {name!r}")
