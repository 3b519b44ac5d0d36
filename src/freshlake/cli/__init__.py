"""The `freshlake` command: the Python API from a shell."""

from freshlake.cli.app import main

__all__ = ["main"]
