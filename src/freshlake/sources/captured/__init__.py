"""Captured tables of source databases, as sources of the lake."""

from freshlake.sources.captured.database import CapturedDatabase
from freshlake.sources.captured.source import CapturedSource

__all__ = ["CapturedDatabase", "CapturedSource"]
