"""A small shop whose stream tables stay fresh while it changes."""

from freshlake.demo.run import run

__all__ = ["run"]
