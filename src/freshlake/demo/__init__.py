"""A small shop whose stream tables stay fresh while it changes."""

from freshlake.demo.play import play

__all__ = ["play"]
