"""One catalog, many threads and processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import select

from freshlake.catalog import Action, Catalog, Commit, RefreshStatus, StreamTable
from freshlake.catalog.tables import stream_tables
from freshlake.errors import AlreadyExists, RefreshInProgress
from tests.unit.catalog_cases import added, frontier, reads

NOW = datetime(2026, 5, 1, tzinfo=UTC)

# Waits for a line on its input, so that competing processes start at the same moment.
HEADER = """
import sys
from datetime import UTC, datetime
from freshlake.catalog import Action, Catalog, Commit, NewStreamTable, TableName
from freshlake.errors import AlreadyExists, LeaseLost, RefreshInProgress
catalog = Catalog.open(sys.argv[1], url=sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
"""

TRY_LEASE = """
try:
    print("won", catalog.acquire_lease(int(sys.argv[3]), 600).epoch, flush=True)
except RefreshInProgress as error:
    print("lost", error.message, flush=True)
sys.stdin.readline()
"""

REFRESH_TIMES = """
table, done = int(sys.argv[3]), 0
while done < 15:
    try:
        lease = catalog.acquire_lease(table, 600)
    except RefreshInProgress:
        continue
    refresh = catalog.begin_refresh(lease)
    now = catalog.get_by_id(table)
    catalog.commit_refresh(table, lease.epoch, Commit(
        refresh.refresh_id, Action.DIFFERENTIAL, 0, now.version + 1, {"sources": {}}, datetime.now(UTC),
        row_count=(now.row_count or 0) + 1))
    catalog.release_lease(lease)
    done += 1
print("done", flush=True)
"""

CREATE_SAME_NAME = """
try:
    catalog.insert_stream_table(NewStreamTable(TableName.parse("same"), sys.argv[3], "SELECT 1", "SELECT 1"))
    print("won", flush=True)
except AlreadyExists:
    print("lost", flush=True)
"""

RUN_UNTIL_KILLED = """
catalog.begin_refresh(catalog.acquire_lease(int(sys.argv[3]), 600))
print("running", flush=True)
sys.stdin.readline()
"""


class Worker:
    """A process that follows one of the scripts above."""

    def __init__(self, script: str, *arguments: object) -> None:
        command = [sys.executable, "-c", HEADER + script, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        with self.process:
            pass


@contextmanager
def workers(count: int, script: str, *arguments: object) -> Iterator[list[Worker]]:
    started = [Worker(script, *arguments, number) for number in range(count)]
    try:
        for worker in started:
            assert worker.line() == "ready"
        for worker in started:
            worker.go()
        yield started
    finally:
        for worker in started:
            worker.kill()


@pytest.fixture
def catalog(tmp_path: Path, catalog_url: str) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, url=catalog_url)
    yield opened
    opened.close()


@pytest.fixture
def table(catalog: Catalog) -> StreamTable:
    return added(catalog)


def test_of_two_processes_one_gets_the_lease_and_the_other_is_told_who_has_it(
    catalog: Catalog, table: StreamTable, tmp_path: Path, catalog_url: str
) -> None:
    with workers(2, TRY_LEASE, tmp_path, catalog_url, table.id) as competing:
        answers = [worker.line() for worker in competing]
        winner = next(worker for worker, answer in zip(competing, answers, strict=True) if answer == "won 1")
        (lost,) = [answer for answer in answers if answer != "won 1"]
        assert lost.startswith("lost stream table revenue is being refreshed by process ")
        assert f" {winner.process.pid} " in lost
        with pytest.raises(RefreshInProgress):
            catalog.acquire_lease(table.id, 60)
        winner.kill()
        assert catalog.acquire_lease(table.id, 60).epoch == 2


def test_refreshes_of_competing_processes_follow_one_another(
    catalog: Catalog, table: StreamTable, tmp_path: Path, catalog_url: str
) -> None:
    with workers(3, REFRESH_TIMES, tmp_path, catalog_url, table.id) as competing:
        assert [worker.line() for worker in competing] == ["done"] * 3
    after = catalog.get_by_id(table.id)
    assert (after.version, after.row_count) == (44, 45)
    history = catalog.history(table.id, None)
    assert [row.version for row in history] == list(range(44, -1, -1))
    assert [row.epoch for row in history] == list(range(45, 0, -1))
    assert {row.status for row in history} == {RefreshStatus.COMPLETED}


def test_only_one_process_creates_a_name(catalog: Catalog, tmp_path: Path, catalog_url: str) -> None:
    with workers(3, CREATE_SAME_NAME, tmp_path, catalog_url) as competing:
        assert sorted(worker.line() for worker in competing) == ["lost", "lost", "won"]
    assert [found.name for found in catalog.stream_tables()] == ["same"]


def test_a_killed_process_leaves_a_refresh_that_is_found_interrupted(
    catalog: Catalog, table: StreamTable, tmp_path: Path, catalog_url: str
) -> None:
    with workers(1, RUN_UNTIL_KILLED, tmp_path, catalog_url, table.id) as (worker,):
        assert worker.line() == "running"
        assert catalog.fail_interrupted() == ()
        worker.kill()
        (failed,) = catalog.fail_interrupted()
    assert (failed.status, failed.stream_table_id) == (RefreshStatus.FAILED, table.id)
    assert catalog.acquire_lease(table.id, 60).epoch == 2


def test_processes_open_a_new_lake_at_the_same_time(tmp_path: Path, catalog_url: str) -> None:
    code = (
        "import sys; from freshlake.catalog import Catalog; print(Catalog.open(sys.argv[1], url=sys.argv[2]).lake_id)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "lake"), catalog_url]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    ids = {process.communicate()[0].strip() for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(ids) == 1


def test_threads_take_turns_at_a_lease(catalog: Catalog, table: StreamTable) -> None:
    start = Barrier(8)

    def compete(_: int) -> int:
        start.wait()
        try:
            return catalog.acquire_lease(table.id, 600).epoch
        except RefreshInProgress:
            return 0

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(compete, range(8))) == [0] * 7 + [1]


def test_threads_read_and_write_without_losing_anything(catalog: Catalog) -> None:
    def work(number: int) -> None:
        mine = added(catalog, f"t{number}")
        catalog.replace_dependencies(mine.id, reads("orders", f"s{number}"))
        for version in range(5):
            lease = catalog.acquire_lease(mine.id, 60)
            refresh = catalog.begin_refresh(lease)
            catalog.commit_refresh(
                mine.id, lease.epoch, Commit(refresh.refresh_id, Action.FULL, 0, version, frontier(orders=version), NOW)
            )
            catalog.release_lease(lease)
            assert catalog.record_no_data(catalog.get_by_id(mine.id), frontier=frontier(), data_timestamp=NOW)
            catalog.stream_tables()
            catalog.tracked_sources()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(12)))
    assert [found.version for found in catalog.stream_tables()] == [4] * 12
    assert len(catalog.history(limit=None)) == 12 * 10
    assert len(catalog.tracked_sources()) == 13


def test_a_transaction_belongs_to_its_thread(catalog: Catalog, table: StreamTable) -> None:
    with ThreadPoolExecutor(1) as threads, catalog.transaction():
        catalog.update(table.id, schedule="1h")
        assert threads.submit(catalog.get, "revenue").result().schedule is None
    assert catalog.get("revenue").schedule == "1h"


def test_a_read_sees_one_moment(catalog: Catalog, table: StreamTable) -> None:
    with ThreadPoolExecutor(1) as threads, catalog._read() as connection:
        first = connection.execute(select(stream_tables.c.id)).all()
        threads.submit(added, catalog, "other").result()
        assert connection.execute(select(stream_tables.c.id)).all() == first == [(table.id,)]
    assert len(catalog.stream_tables()) == 2


def test_of_many_threads_one_creates_a_name(catalog: Catalog) -> None:
    def create(_: int) -> bool:
        try:
            added(catalog, "same")
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(create, range(16))) == 1
