"""A server that crashes forgets what was not on its disk, and gives the same transaction numbers out again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from freshlake.sources.protocol import Position
from tests.integration.capture_database import Database, new_database
from tests.integration.capture_shop import Shop, opened
from tests.integration.postgres_server import Server, binaries, cluster, embedded, running

# nothing but commits brings the log to disk
_SETTINGS = {"synchronous_commit": "on", "wal_writer_delay": "10s", "autovacuum": "off"}
_LOSING = {
    "aborted": "BEGIN; INSERT INTO t VALUES (0, 'undone'); ROLLBACK",
    "asynchronous": "BEGIN; SET LOCAL synchronous_commit = off; INSERT INTO t VALUES (0, 'soon lost'); COMMIT",
}


class Crashing:
    """A database on a server that can crash and come back."""

    def __init__(self, folder: Path, bin_folder: Path, servers: ExitStack) -> None:
        self._folder, self._bin, self._servers = folder, bin_folder, servers
        self.server = self._start()

    def _start(self) -> Server:
        return self._servers.enter_context(running(self._folder, signal.SIGQUIT, self._bin, _SETTINGS))

    def crash(self, database: Database) -> None:
        self._servers.close()
        self._start()
        database.reopen()


@pytest.fixture(scope="module", params=["installed", "embedded"])
def crashing(request: pytest.FixtureRequest) -> Iterator[Crashing]:
    bin_folder = binaries() if request.param == "installed" else embedded()
    with cluster(bin_folder) as folder, ExitStack() as servers:
        yield Crashing(folder, bin_folder, servers)


@contextmanager
def shop_of(crashing: Crashing, folder: Path) -> Iterator[Shop]:
    with new_database(crashing.server) as database:
        database.run("CREATE TABLE t (id int, a text)")
        with opened(database, folder, ("public.t",)) as shop:
            yield shop


def copy_point(shop: Shop) -> Position:
    with shop.shop.copying([shop.captured["t"]]) as at:
        return at


@pytest.mark.parametrize("losing", _LOSING)
@pytest.mark.parametrize("is_copied", [False, True])
def test_a_position_sees_nothing_that_a_crash_takes_back(
    crashing: Crashing, tmp_path: Path, losing: str, is_copied: bool
) -> None:
    with shop_of(crashing, tmp_path) as shop:
        shop.database.run("INSERT INTO t VALUES (1, 'x')")
        for _ in range(5):
            shop.database.run(_LOSING[losing])
        start = copy_point(shop) if is_copied else shop.shop.head()
        shop.moves("t", start)
        kept = shop.database.one("SELECT count(*) FROM t")
        crashing.crash(shop.database)
        assert shop.database.one("SELECT count(*) FROM t") == kept
        shop.database.run("INSERT INTO t VALUES (2, 'y')")
        end = shop.shop.head()
        assert end.version == start.version + 1
        assert shop.batch("t", start, end)[1].total() == 1
