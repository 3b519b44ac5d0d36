"""Commits of one Delta table, by delta-rs: opening it, the notes its commits carry, and adding one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from freshlake.errors import CommitConflict, StorageCorrupt, StorageMissing
from freshlake.storage.certificate import Note
from freshlake.storage.failures import unread
from freshlake.storage.scan.log import TransactionLog
from freshlake.storage.scan.paths import is_local


def open_table(path: str, version: int | None = None) -> DeltaTable:
    """A Delta table that Freshlake wrote, at a version (the latest by default)."""
    if is_local(path) and not os.path.isdir(path):
        raise StorageMissing(f"there is no table at {path}")
    try:
        return DeltaTable(path, version=version)
    except TableNotFoundError as error:
        raise StorageMissing(f"{path} is not a Delta table", detail=str(error)) from error
    except DeltaError as error:
        if version is not None:
            raise StorageMissing(f"version {version} of {path} is not available", detail=str(error)) from error
        raise StorageCorrupt(f"the transaction log of {path} cannot be read", detail=str(error)) from error


def notes(path: str, version: int | None = None) -> Iterator[tuple[int, Note | None]]:
    """Delta versions and their notes, newest first, as far back as the transaction log reaches.

    Read from the commits' files: for a path with `#` or `?` delta-rs has no history.
    """
    log = TransactionLog(path)
    newest = log.latest() if version is None else version
    for at in range(-1 if newest is None else newest, -1, -1):
        try:
            said = log.info(at).get("userMetadata")
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise unread(error, f"the history of {path} cannot be read") from error
        yield at, Note.parse(said)


def commit(
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    note: Note,
    transactions: Mapping[str, int],
) -> None:
    """Add one commit and bring `table` up to date.

    delta-rs finds a concurrent commit of the same transaction id only if it came after this handle was loaded, so the
    caller checks `transaction_version` on this very handle first.
    """
    properties = commit_properties(note, transactions)
    partitions = table.metadata().partition_columns
    try:
        table.create_write_transaction(
            list(actions), "append", table.schema(), partition_by=partitions, commit_properties=properties
        )
    except CommitFailedError as error:
        raise CommitConflict(f"another writer committed to {table.table_uri}", detail=str(error)) from error
    table.update_incremental()


def commit_properties(note: Note, transactions: Mapping[str, int] | None = None) -> CommitProperties:
    """What delta-rs records beside the actions."""
    return CommitProperties(
        custom_metadata={"userMetadata": note.to_text()},
        app_transactions=[Transaction(app, version) for app, version in (transactions or {}).items()],
    )
