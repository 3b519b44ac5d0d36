"""Delta tables as sources: positions, triage and changes from the transaction log."""

from freshlake.sources.delta.source import DeltaSource, delta_source, is_delta

__all__ = ["DeltaSource", "delta_source", "is_delta"]
