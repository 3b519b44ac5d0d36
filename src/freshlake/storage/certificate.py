"""What a commit says about itself: the refresh certificate, carried as `userMetadata` and so atomic with the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

_MARK = "freshlake"
_FORMAT = 1
_NUMBERS = ("folded_version", "parent")


@dataclass(frozen=True)
class Certificate:
    """One refresh: who made it (id, lease epoch), of which query, between which frontiers, with what effect.

    `changes` are further columns of the stream table that move with it, and `decision` is what it was chosen from: both
    are for whoever finds the commit of a process that died before the catalog knew of it.
    """

    refresh_id: str
    epoch: int
    fingerprint: str
    version: int
    from_frontier: dict[str, Any] | None
    to_frontier: dict[str, Any]
    action: str
    reason: str | None = None
    rows_inserted: int = 0
    rows_deleted: int = 0
    row_count: int | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    base_version: int | None = None
    engine: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    decision: Mapping[str, Any] | None = None

    def to_json(self) -> str:
        """The certificate as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read back what `to_json` wrote; unknown members, written by a later release, are ignored."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, members: Mapping[str, Any]) -> Certificate:
        """The same from parsed JSON."""
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in members.items() if name in known})

    def is_same_refresh(self, other: Certificate) -> bool:
        """Whether both were made by the same attempt under the same lease."""
        return (self.refresh_id, self.epoch, self.version) == (other.refresh_id, other.epoch, other.version)


class NoteKind(StrEnum):
    """What a commit did."""

    REFRESH = "refresh"
    LOAD = "load"
    FOLD = "fold"
    COMPACT = "compact"
    ROLLBACK = "rollback"
    CLEANUP = "cleanup"
    VACUUM = "vacuum"
    FENCE = "fence"


@dataclass(frozen=True)
class Note:
    """The `userMetadata` of every commit made here.

    Commits that are not refreshes carry the latest certificate forward, so the newest commit always has it. In the
    base, `folded_version` says which log versions the table holds, and `parent` which base version the commit changed:
    if another commit came in between, the content is not what the note says.
    """

    kind: NoteKind
    certificate: Certificate | None
    folded_version: int | None = None
    parent: int | None = None

    def to_text(self) -> str:
        """The note as JSON."""
        members: dict[str, Any] = {_MARK: _FORMAT, "kind": str(self.kind)}
        for name in _NUMBERS:
            if getattr(self, name) is not None:
                members[name] = getattr(self, name)
        if self.certificate is not None:
            members["certificate"] = asdict(self.certificate)
        return json.dumps(members, separators=(",", ":"), sort_keys=True)

    @classmethod
    def parse(cls, text: str | None) -> Note | None:
        """The note in a commit's `userMetadata`; None if the commit was not made here."""
        try:
            members = json.loads(text or "null")
        except ValueError:
            return None
        if not isinstance(members, dict) or _MARK not in members:
            return None
        certificate = members.get("certificate")
        return cls(
            NoteKind(members["kind"]),
            Certificate.from_dict(certificate) if certificate is not None else None,
            **{name: members.get(name) for name in _NUMBERS},
        )
