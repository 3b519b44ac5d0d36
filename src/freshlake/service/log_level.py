"""The setting `log_level`: how much the logger `freshlake`, and with it those below it, say."""

from __future__ import annotations

import logging

from freshlake.config import Settings

LOGGER = logging.getLogger("freshlake")
_ours = logging.NOTSET


def apply_log_level(settings: Settings) -> None:
    """A level that the program itself gave the logger stays."""
    global _ours
    if LOGGER.level in (logging.NOTSET, _ours):
        _ours = logging.getLevelNamesMapping()[settings.log_level.upper()]
        LOGGER.setLevel(_ours)
