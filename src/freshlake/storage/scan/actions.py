"""The actions of one commit, read from its JSON lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from freshlake.errors import SourceUnreadable


@dataclass(frozen=True)
class DeletionVector:
    """Where the positions of the deleted rows of a file are kept."""

    storage: str
    location: str
    offset: int | None
    size: int
    cardinality: int

    @property
    def id(self) -> str:
        """Unique within the table."""
        return f"{self.storage}{self.location}@{self.offset}"


@dataclass(frozen=True)
class FileAction:
    """An `add`, `remove` or `cdc` action; `path` is URL-encoded as in the log."""

    path: str
    size: int
    partition: Mapping[str, str | None] | None
    data_change: bool
    records: int | None
    vector: DeletionVector | None

    @property
    def rows(self) -> int | None:
        """Rows of the file that are not deleted, if the log says."""
        return None if self.records is None else self.records - (self.vector.cardinality if self.vector else 0)


@dataclass(frozen=True)
class Commit:
    """One version's actions. The fingerprint tells it from any other commit, also of a table recreated in its place."""

    version: int
    fingerprint: str
    operation: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, Any]
    metadata: Mapping[str, Any] | None
    protocol: Mapping[str, Any] | None
    adds: tuple[FileAction, ...]
    removes: tuple[FileAction, ...]
    cdc: tuple[FileAction, ...]

    @property
    def added(self) -> tuple[FileAction, ...]:
        """Files that bring new rows."""
        return tuple(action for action in self.adds if action.data_change)

    @property
    def removed(self) -> tuple[FileAction, ...]:
        """Files whose rows go."""
        return tuple(action for action in self.removes if action.data_change)


def parse(version: int, content: bytes) -> Commit:
    """A commit from its JSON lines."""
    try:
        actions = [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError as error:
        raise SourceUnreadable(f"commit {version} of a transaction log is damaged", detail=str(error)) from error
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return Commit(
        version,
        hashlib.sha256(content).hexdigest()[:32],
        str(info.get("operation", "")),
        info.get("operationParameters") or {},
        info.get("operationMetrics") or {},
        next((action["metaData"] for action in actions if "metaData" in action), None),
        next((action["protocol"] for action in actions if "protocol" in action), None),
        tuple(_file(action["add"]) for action in actions if "add" in action),
        tuple(_file(action["remove"]) for action in actions if "remove" in action),
        tuple(_file(action["cdc"]) for action in actions if "cdc" in action),
    )


def _file(action: Mapping[str, Any]) -> FileAction:
    partition = action.get("partitionValues")
    return FileAction(
        action["path"],
        int(action.get("size") or 0),
        None if partition is None else {name: value or None for name, value in partition.items()},
        bool(action.get("dataChange", True)),
        _records(action.get("stats")),
        _vector(action.get("deletionVector")),
    )


def _records(stats: str | None) -> int | None:
    value = json.loads(stats).get("numRecords") if stats else None
    return None if value is None else int(value)


def _vector(data: Mapping[str, Any] | None) -> DeletionVector | None:
    if not data:
        return None
    return DeletionVector(
        data["storageType"], data["pathOrInlineDv"], data.get("offset"), data["sizeInBytes"], data["cardinality"]
    )
