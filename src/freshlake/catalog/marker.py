"""The file beside the catalog that says which lake this is, and where its catalog is.

It tells a lake that lost its catalog from a new one, which must not start empty in silence, and a catalog in PostgreSQL
from one in the folder. First line: the lake's id. A second line `postgresql` says that the catalog is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from freshlake.errors import CatalogCorrupt, LakeNotWritable

FOLDER = "_freshlake"
FILE = "catalog.db"
MARKER = "lake-id"

_IN_POSTGRES = "postgresql"
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Marker:
    """Which lake a folder is."""

    lake_id: str
    in_postgres: bool = False

    def write(self, folder: Path) -> None:
        """Put the marker in place at once."""
        lines = [self.lake_id, *([_IN_POSTGRES] if self.in_postgres else [])]
        try:
            aside = folder / f"{MARKER}.{uuid4().hex}"
            aside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            aside.replace(folder / MARKER)
        except OSError as error:
            raise LakeNotWritable(f"{folder / MARKER} cannot be written", detail=error.strerror) from None


def read_marker(folder: Path) -> Marker | None:
    """The marker of a lake; None when it has none yet."""
    path = folder / MARKER
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LakeNotWritable(f"{path} cannot be read", detail=error.strerror) from None
    marker = Marker(lines[0] if lines else "", _IN_POSTGRES in lines[1:])
    if marker.in_postgres and not _ID.fullmatch(marker.lake_id):
        raise CatalogCorrupt(f"{path} does not name a lake", hint="restore it from a backup of the lake folder")
    return marker


def check_marker(folder: Path, lake_id: str) -> None:
    """Write the marker of a lake whose catalog is in its folder, or refuse the catalog of another lake."""
    written = read_marker(folder)
    if written is None:
        Marker(lake_id).write(folder)
    elif written.lake_id != lake_id:
        raise CatalogCorrupt(
            f"the catalog in {folder} belongs to another lake",
            detail=f"the lake is {written.lake_id}, the catalog is of lake {lake_id}",
        )
