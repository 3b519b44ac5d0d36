"""Whether the folders of a change-logged table still hold what was committed there; others may have been at them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from deltalake import DeltaTable

from freshlake.errors import StorageCorrupt, StorageMissing
from freshlake.storage.commits import open_table
from freshlake.storage.layout import BASE, LOG, VERSION, FoldPoint
from freshlake.storage.log import Log
from freshlake.storage.read import open_base
from freshlake.storage.relation import WEIGHT
from freshlake.storage.scan.files import DataFile
from freshlake.storage.scan.paths import is_local, misread

_COMMITS = "_delta_log"


def is_there(path: str) -> bool:
    """Whether there is anything to read at all; two looks at the folder, nothing is opened."""
    return not is_local(path) or all(os.path.isdir(f"{path}/{part}/{_COMMITS}") for part in (BASE, LOG))


def check(path: str, log: Log, version: int, base_version: int) -> None:
    """Raise StorageMissing or StorageCorrupt where the transaction logs are not those that Freshlake left.

    `version` is in the log, and `base_version` of the base was read last. A base whose history ends there is the one
    that was written then, so it is opened only where somebody has added to it.
    """
    if log.head < version:
        raise StorageCorrupt(f"the log {log.path} ends at version {log.head}, version {version} is missing")
    if _ends_at(path, base_version):
        return
    base = open_table(f"{path}/{BASE}")
    if base.version() < base_version:
        raise StorageCorrupt(f"the base of {path} ends at version {base.version()}, {base_version} is missing")
    if _columns(base) != [c for c in _columns(log.table) if c[0] not in (WEIGHT, VERSION)]:
        raise StorageCorrupt(f"the columns of the base of {path} were altered")


def check_files(path: str, version: int, fold: FoldPoint) -> None:
    """Raise StorageMissing for a data file that the state at a version needs, and that is gone."""
    base = open_base(path, fold.base_version)
    if base.opaque and misread(base.path) is None:
        open_table(base.path, fold.base_version)  # Freshlake writes nothing that delta-rs does not know
    _check_there(base.files)
    if version > fold.folded_version:
        _check_there(file.data for file in Log(path).files(fold.folded_version, version))


def _check_there(files: Iterable[DataFile]) -> None:
    for file in files:
        if is_local(file.path) and not os.path.exists(file.path):
            raise StorageMissing(f"the file {file.path} is gone")


def _ends_at(path: str, base_version: int) -> bool:
    """Whether a commit to the base is its newest one, as its file and the one that would follow say."""
    here, after = (f"{path}/{BASE}/{_COMMITS}/{number:020}.json" for number in (base_version, base_version + 1))
    if not is_local(path) or not os.path.exists(here):
        return False
    if os.path.getsize(here) == 0:  # delta-rs would read the version before, without a word
        raise StorageCorrupt(f"the commit {here} is empty")
    return not os.path.exists(after)


def _columns(table: DeltaTable) -> list[tuple[str, str]]:
    return [(field.name, json.dumps(json.loads(field.to_json())["type"])) for field in table.schema().fields]
