"""Numbered steps from an empty database to the current catalog; a released step is never changed.

Each file `m<number>_<what>.py` has one function `upgrade(connection)`.
"""

from freshlake.catalog.migrations.runner import current_version, upgrade

__all__ = ["current_version", "upgrade"]
