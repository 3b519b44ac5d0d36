"""The log: for every version the files of its weighted rows, and the certificate of the refresh that made it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from freshlake.errors import CommitConflict, LeaseLost, StorageCorrupt, StorageMissing
from freshlake.storage.certificate import Certificate, Note, NoteKind
from freshlake.storage.commits import commit, notes, open_table
from freshlake.storage.layout import LOG, VERSION
from freshlake.storage.relation import WEIGHT
from freshlake.storage.scan import DataFile
from freshlake.storage.scan.paths import locate, plain


@dataclass(frozen=True)
class LogFile:
    """One file of one version."""

    version: int
    data: DataFile
    relative: str
    insert_only: bool


class Log:
    """The log of one change-logged table, as of the moment it was opened.

    Three transaction ids are kept in the table: the newest version; the version up to which rows are not (or no longer)
    here, because a load or a fold put them into the base; and the newest lease whose holder was shut out.
    """

    def __init__(self, path: str) -> None:
        self.path = plain(f"{path}/{LOG}")
        self.table: DeltaTable = open_table(self.path)
        self._head_id = str(self.table.metadata().id)
        self._floor_id = f"{self._head_id}/floor"
        self._fence_id = f"{self._head_id}/fence"

    @property
    def head(self) -> int:
        """The newest version; 0 before the first."""
        return self.table.transaction_version(self._head_id) or 0

    @property
    def floor(self) -> int:
        """Rows of versions up to this one are only in the base."""
        return self.table.transaction_version(self._floor_id) or 0

    def files(self, after: int, upto: int) -> tuple[LogFile, ...]:
        """The files of versions in (after, upto], which must all be here."""
        self._check_range(after, upto)
        return self.stored_files(after, upto)

    def stored_files(self, after: int, upto: int) -> tuple[LogFile, ...]:
        """What there is of versions in (after, upto]."""
        actions = pa.table(self.table.get_add_actions(flatten=True))
        if not actions.num_rows:
            return ()
        version = actions.column(f"partition.{VERSION}")
        actions = actions.filter(pc.and_(pc.greater(version, after), pc.less_equal(version, upto)))
        return tuple(self._file(row) for row in actions.to_pylist())

    def last_certificate(self) -> Certificate | None:
        """The certificate of the newest version; None before the first, and where it was gone before a rollback."""
        return self.known_certificate(self.head)

    def known_certificate(self, version: int) -> Certificate | None:
        """The certificate of a version, if the log still has it."""
        with suppress(StorageMissing):
            return self.certificate(version)
        return None

    def certificate(self, version: int) -> Certificate:
        """The certificate of a version. Older ones disappear with the table's own history."""
        if 0 < version <= self.head:
            for _, note in notes(self.path, self.table.version()):
                if note is not None and note.certificate is not None and note.certificate.version == version:
                    return note.certificate
        raise StorageMissing(
            f"the log has no certificate of version {version}",
            detail=f"{self.path} is at version {self.head}",
            hint="certificates are kept for a day; the refresh history is in the catalog",
        )

    def commit(
        self,
        actions: Sequence[AddAction | RemoveAction],
        note: Note,
        epoch: int,
        head: int | None = None,
        floor: int | None = None,
    ) -> None:
        """Add one commit under a lease, moving head or floor with it; raises LeaseLost when its holder was shut out."""
        self.check(epoch)
        ids = {self._head_id: head, self._floor_id: floor}
        try:
            commit(self.table, actions, note, {app: value for app, value in ids.items() if value is not None})
        except CommitConflict:
            self._check(open_table(self.path), epoch)  # a lost lease is the better answer
            raise

    def check(self, epoch: int) -> None:
        """Raise LeaseLost when the holder of this lease may no longer write here."""
        self._check(self.table, epoch)

    def _check(self, table: DeltaTable, epoch: int) -> None:
        fence = table.transaction_version(self._fence_id) or 0
        if epoch <= fence:
            raise LeaseLost(f"lease {epoch} came too late", detail=f"{self.path} is closed to leases up to {fence}")

    def close_to(self, epoch: int) -> bool:
        """Shut out the holders of leases up to this one; False if another commit came in between.

        The commit touches the ids that all others carry, so one that is on its way finds a conflict.
        """
        if epoch <= (self.table.transaction_version(self._fence_id) or 0):
            return True
        ids = {self._head_id: self.head, self._floor_id: self.floor, self._fence_id: epoch}
        try:
            commit(self.table, (), Note(NoteKind.FENCE, self.last_certificate()), ids)
        except CommitConflict:
            return False
        return True

    def _check_range(self, after: int, upto: int) -> None:
        if upto > self.head:
            raise StorageCorrupt(f"the log {self.path} ends at version {self.head}, version {upto} is missing")
        if after < min(self.floor, upto):
            raise StorageMissing(
                f"the changes after version {after} are no longer in the log",
                detail=f"{self.path} holds versions after {self.floor}",
                hint="read the whole table instead",
            )

    def _file(self, row: dict[str, Any]) -> LogFile:
        data = DataFile(locate(self.path, row["path"]), row["size_bytes"], row.get("num_records"))
        lowest = row.get(f"min.{WEIGHT}")
        return LogFile(row[f"partition.{VERSION}"], data, row["path"], lowest is not None and lowest > 0)
