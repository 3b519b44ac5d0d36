"""A Spark session with Delta: started quietly, or the caller's own after a check."""

from freshlake.session.check import check
from freshlake.session.start import start

__all__ = ["check", "start"]
