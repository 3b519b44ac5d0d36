"""Reading a pinned Delta snapshot: metadata by delta-rs, data as an explicit list of files."""

from freshlake.storage.scan.driver import NotDriverReadable, driver_readable, read_arrow, read_places
from freshlake.storage.scan.file_list import read_files
from freshlake.storage.scan.files import DataFile, KeyFilter, Snapshot
from freshlake.storage.scan.kept import KEPT
from freshlake.storage.scan.open import open_snapshot
from freshlake.storage.scan.prune import prune
from freshlake.storage.scan.read import read

__all__ = [
    "KEPT",
    "DataFile",
    "KeyFilter",
    "NotDriverReadable",
    "Snapshot",
    "driver_readable",
    "open_snapshot",
    "prune",
    "read",
    "read_arrow",
    "read_files",
    "read_places",
]
