"""The point in time that a round reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from freshlake.errors import FreshlakeError
from freshlake.refresh.heads import Pins


@dataclass(frozen=True)
class Round:
    """One point in time: the heads of plain sources, taken once."""

    pins: Pins
    at: datetime | None
    """None: the moment at which a refresh begins."""
    failed: dict[str, FreshlakeError] = field(default_factory=dict)
    """What was refreshed in this round and failed, or was left out because of that; what reads it is left out too."""
    unreachable: Mapping[str, FreshlakeError] = field(default_factory=dict)
    """Why the heads of other sources could not be taken."""
