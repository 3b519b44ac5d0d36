"""A Spark session with Delta: started quietly, or the caller's own after a check."""

from freshlake.session.check import check
from freshlake.session.start import own_catalog, start

__all__ = ["check", "own_catalog", "start"]
