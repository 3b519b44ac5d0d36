"""Dropping stream tables: all or none while others work on them, and nothing stays behind; without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from freshlake.catalog import Catalog, Lease, StreamTable
from freshlake.catalog.enums import DefinitionKind
from freshlake.catalog.names import TableName
from freshlake.config import Settings
from freshlake.errors import RefreshInProgress, StreamTableInUse
from freshlake.refresh.layout import Layout
from freshlake.service.captures import Captures
from freshlake.service.dropping import Dropping
from freshlake.service.sweeping import Sweeping
from tests.unit.catalog_cases import added, reads_stream_table

LONG = 60.0


class Lake:
    """A lake of a catalog and folders: a ← b ← c, and d reads a and c."""

    def __init__(self, folder: Path) -> None:
        self.catalog = Catalog.open(folder)
        layout = Layout(folder, self.catalog)
        settings = Settings(immediate_wait_seconds=0)
        self.engine = SimpleNamespace(catalog=self.catalog, layout=layout, settings=settings, ddl=0, forget=MagicMock())
        parts: Any = [MagicMock() for _ in range(5)]
        self.dropping = Dropping(cast(Any, self.engine), *parts)
        self.sweeping = Sweeping(cast(Any, self.engine))
        tables = {name: added(self.catalog, name) for name in "abcd"}
        for reader, read in {"b": "a", "c": "b", "d": "ac"}.items():
            edges = [reads_stream_table(tables[name]) for name in read]
            self.catalog.replace_dependencies(tables[reader].id, edges)
        for table in tables.values():
            (layout.folder(table.storage_id) / "g1").mkdir(parents=True)
        self.tables = tables

    def drop(self, name: str, *, cascade: bool = True) -> None:
        self.dropping.drop(TableName.parse(name), cascade=cascade)

    def lease(self, name: str) -> Lease:
        return self.catalog.acquire_lease(self.tables[name].id, LONG)

    @property
    def left(self) -> str:
        return "".join(sorted(table.name for table in self.catalog.stream_tables()))

    @property
    def folders(self) -> str:
        known = {table.storage_id: name for name, table in self.tables.items()}
        streams = self.engine.layout.folder("x").parent
        return "".join(sorted(known[entry.name] for entry in streams.iterdir()))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_readers_go_first(lake: Lake) -> None:
    gone: list[str] = []
    cast(Any, lake.dropping.announcer).dropped = lambda table: gone.append(table.name)
    lake.drop("b")
    assert "".join(gone) == "dcb"
    assert (lake.left, lake.folders) == ("a", "a")
    assert lake.engine.layout.doomed() == []


def test_a_mirror_that_goes_with_its_last_reader_is_told(lake: Lake) -> None:
    mirror = added(lake.catalog, "shop.public.orders", definition_kind=DefinitionKind.CAPTURE)
    lake.catalog.replace_dependencies(lake.tables["d"].id, [reads_stream_table(mirror)])
    parts: Any = [MagicMock() for _ in range(4)]
    dropping = Dropping(cast(Any, lake.engine), *parts[:2], Captures(cast(Any, lake.engine), parts[0]), *parts[2:])
    dropping.drop(TableName.parse("d"))
    assert [str(call.args[0].full_name) for call in parts[1].dropped.call_args_list] == [
        "default.d",
        "shop.public.orders",
    ]


def test_all_of_them_go_or_none(lake: Lake) -> None:
    lease = lake.lease("a")
    with pytest.raises(RefreshInProgress):
        lake.drop("a")
    assert (lake.left, lake.folders) == ("abcd", "abcd")
    lake.catalog.release_lease(lease)
    lake.drop("a")
    assert (lake.left, lake.folders) == ("", "")


def test_a_refresh_that_runs_is_waited_for(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.engine.settings = Settings(immediate_wait_seconds=600)
    lease, acquire = lake.lease("c"), lake.catalog.acquire_lease

    def ends_meanwhile(*arguments: Any, **others: Any) -> Lease:
        try:
            return acquire(*arguments, **others)
        except RefreshInProgress:
            lake.catalog.release_lease(lease)
            raise

    monkeypatch.setattr(lake.catalog, "acquire_lease", ends_meanwhile)
    lake.drop("c")
    assert lake.left == "ab"


def test_a_reader_that_came_meanwhile_goes_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    acquire, made = lake.catalog.acquire_lease, dict[str, StreamTable]()

    def made_meanwhile(*arguments: Any, **others: Any) -> Lease:
        if not made:
            made["e"] = added(lake.catalog, "e")
            lake.catalog.replace_dependencies(made["e"].id, [reads_stream_table(lake.tables["d"])])
        return acquire(*arguments, **others)

    monkeypatch.setattr(lake.catalog, "acquire_lease", made_meanwhile)
    lake.drop("d")
    assert lake.left == "abc"


def test_without_cascade_a_table_that_is_read_stays(lake: Lake) -> None:
    with pytest.raises(StreamTableInUse, match="is read by d"):
        lake.drop("c", cascade=False)
    assert lake.left == "abcd"


class Died(BaseException):
    """A process that ended here."""


@pytest.mark.parametrize("at", ["doom", "delete", "remove"])
def test_what_a_drop_left_that_ended_half_way_is_swept(lake: Lake, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def die(*_: Any) -> None:
        raise Died

    with monkeypatch.context() as patched:
        owner = lake.catalog if at == "delete" else Layout
        patched.setattr(owner, at, die)
        with pytest.raises(Died):
            lake.drop("d")
    kept = "abcd" if at != "remove" else "abc"
    lake.sweeping.sweep()
    assert (lake.left, lake.folders) == (kept, kept)
    assert not lake.sweeping.is_due()


def test_only_what_a_drop_has_named_is_swept(lake: Lake) -> None:
    """The catalog may be an older copy, or have been lost: what it does not know may be all there is."""
    (lake.engine.layout.folder("unknown-1") / "g1").mkdir(parents=True)
    lake.sweeping.sweep()
    assert lake.engine.layout.folder("unknown-1").exists()


def test_a_table_that_is_being_dropped_is_left_to_who_does_so(lake: Lake) -> None:
    storage_id = lake.tables["d"].storage_id
    lake.engine.layout.doom(storage_id)
    lease = lake.lease("d")
    lake.sweeping.sweep()
    assert lake.engine.layout.doomed() == [storage_id]
    lake.catalog.release_lease(lease)
    lake.sweeping.sweep()
    assert (lake.engine.layout.doomed(), lake.folders) == ([], "abcd")
