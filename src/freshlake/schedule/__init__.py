"""When to refresh, and in what order."""

from freshlake.schedule.expression import Calculated, Cron, Every, Schedule, parse_schedule
from freshlake.schedule.graph import Graph

__all__ = ["Calculated", "Cron", "Every", "Graph", "Schedule", "parse_schedule"]
