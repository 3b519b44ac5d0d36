"""What schedulers and readers keep in the catalog: changes of the graph, where tables stand, wishes, daemons."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from freshlake.catalog import Catalog, StreamTable
from freshlake.catalog import graph_version as graph_version_module
from freshlake.catalog.daemons import Load
from freshlake.catalog.watching import GraphChange
from freshlake.clock import ManualClock
from freshlake.schedule.tiers import with_reads
from freshlake.service.known import Known
from freshlake.version import VERSION
from tests.integration.postgres_server import Server
from tests.unit.catalog_cases import added, committed, frontier, reads, reads_stream_table

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def catalog(tmp_path: Path, catalog_url: str, clock: ManualClock) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, url=catalog_url, clock=clock)
    yield opened
    opened.close()


def reading(catalog: Catalog, name: str, *sources: str) -> StreamTable:
    table = added(catalog, name)
    catalog.replace_dependencies(table.id, reads(*sources))
    return table


# The graph


def names(change: GraphChange) -> set[str]:
    return {reader.name for reader in change.tables}


def test_two_changes_between_two_looks_are_both_seen(catalog: Catalog) -> None:
    a, b, c = (reading(catalog, name, "orders") for name in "abc")
    known = Known(catalog)
    assert set(known.current().ids) == {"default.a", "default.b", "default.c"}
    version = catalog.graph_since(None).version
    catalog.replace_dependencies(b.id, [*reads("orders"), reads_stream_table(a)])
    catalog.delete(c.id)
    d = reading(catalog, "d", "other")
    change = catalog.graph_since(version)
    assert (names(change), change.gone, change.is_whole) == ({"default.b", "default.d"}, {c.id}, False)
    dag = known.current()
    assert dag.graph.reads == {"default.a": {"orders"}, "default.b": {"orders", "default.a"}, "default.d": {"other"}}
    assert dag.ids["default.d"] == d.id
    assert known.current() is dag, "nothing changed: nothing is made anew"


def test_a_group_is_a_change_without_tables(catalog: Catalog) -> None:
    a, b = (reading(catalog, name, "orders") for name in "ab")
    known = Known(catalog)
    before = known.current()
    catalog.insert_group("both", [a.id, b.id])
    after = known.current()
    assert (before.declared, after.declared) == ((), (frozenset({"default.a", "default.b"}),))
    assert after.graph.reads == before.graph.reads


def test_who_has_missed_too_much_reads_everything(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_version_module, "_REMEMBERED", 3)
    table = reading(catalog, "a", "orders")
    version = catalog.graph_since(None).version
    for _ in range(3):
        catalog.replace_dependencies(table.id, reads("orders"))
    assert not catalog.graph_since(version).is_whole, "all three are remembered"
    catalog.replace_dependencies(table.id, reads("orders"))
    assert catalog.graph_since(version).is_whole
    assert catalog.graph_since(version + 99).is_whole, "a catalog that was restored to an earlier state"


# Where tables stand


def test_a_frontier_that_moved_is_read_again_and_one_that_did_not_is_not(catalog: Catalog) -> None:
    a, b = (committed(catalog, added(catalog, name), 1, NOW, generation=1) for name in "ab")
    first = catalog.standings()
    assert first[a.id].frontier == frontier()
    committed(catalog, b, 2, NOW, generation=1, frontier=frontier(orders=7))
    second = catalog.standings()
    assert second[a.id] is first[a.id]
    assert (second[b.id].version, second[b.id].frontier) == (2, frontier(orders=7))


def test_idle_tables_move_in_time_and_have_a_line_in_the_history(catalog: Catalog, clock: ManualClock) -> None:
    tables = [committed(catalog, added(catalog, name), 1, NOW, generation=1) for name in "ab"]
    stands = catalog.standings()
    later = clock.advance(60)
    assert catalog.record_idle([stands[t.id] for t in tables], later) == 2
    for table in tables:
        after = catalog.get_by_id(table.id)
        assert (after.data_timestamp, after.last_refresh_at, after.version) == (later, later, 1)
        newest = catalog.history(table.id, 1)[0]
        assert (str(newest.action), newest.data_timestamp, newest.version) == ("NO_DATA", later, 1)
        assert catalog.find_refresh(newest.refresh_id) == newest
    clock.advance(60)
    again = catalog.standings()
    assert catalog.record_idle([again[t.id] for t in tables], clock.now()) == 2


def test_idle_leaves_alone_what_is_not_as_it_was(catalog: Catalog, clock: ManualClock) -> None:
    names = ("leased", "moved", "rebuilt", "further")
    leased, moved, rebuilt, further = (committed(catalog, added(catalog, n), 1, NOW, generation=1) for n in names)
    stands = catalog.standings()
    lease = catalog.acquire_lease(leased.id, 600)
    committed(catalog, moved, 2, NOW, generation=1)
    catalog.update(rebuilt.id, needs_reinit=True)
    catalog.update(further.id, data_timestamp=NOW + timedelta(seconds=5))
    assert catalog.record_idle(stands.values(), NOW + timedelta(seconds=1)) == 0
    catalog.release_lease(lease)
    assert catalog.record_idle(stands.values(), NOW + timedelta(seconds=1)) == 1
    assert catalog.get_by_id(further.id).data_timestamp == NOW + timedelta(seconds=5)


# Readers


def test_a_table_is_wanted_until_its_contents_are_newer_than_the_wish(catalog: Catalog, clock: ManualClock) -> None:
    table = committed(catalog, added(catalog), 1, NOW, generation=1)
    assert not catalog.look()[0].is_wanted
    clock.advance(10)
    assert catalog.want(table.id) == clock.now()
    assert catalog.look()[0].is_wanted
    table = committed(catalog, table, 2, NOW + timedelta(seconds=5), generation=1)
    assert catalog.look()[0].is_wanted, "what had begun before is not what was asked for"
    committed(catalog, table, 3, clock.now(), generation=1)
    assert not catalog.look()[0].is_wanted


def test_reads_are_counted_over_time(catalog: Catalog, clock: ManualClock) -> None:
    table, gone = added(catalog), added(catalog, "gone")
    catalog.delete(gone.id)
    catalog.add_reads({table.id: 10, gone.id: 3}, with_reads)
    clock.advance(60)
    catalog.want(table.id)
    catalog.add_reads({table.id: 5}, with_reads)
    known = catalog.readership(table.id)
    assert known.reads_per_minute == pytest.approx(2 * 0.8187 + 1, abs=0.001)
    assert (known.last_read_at, known.wanted_at) == (clock.now(), clock.now())


# Daemons


def loads(catalog: Catalog, *others: Catalog) -> list[Load]:
    """What runs in these lakes; those of other tests may be in the same database."""
    lakes = {"", *(f"freshlake_{other.lake_id}" for other in others)}
    return [load for load in catalog.loads() if load.lake in lakes]


def test_a_daemon_says_what_it_runs_until_it_ends(catalog: Catalog, clock: ManualClock) -> None:
    catalog.register_daemon(1_000, 4, quota=3)
    jobs = ({"unit": 1, "tables": ["a"]},)
    catalog.beat_daemon(clock.advance(1), running=2, waiting=7, jobs=jobs)
    (daemon,) = catalog.live_daemons()
    assert (daemon.running, daemon.waiting, daemon.quota, daemon.version) == (2, 7, 3, VERSION)
    assert daemon.jobs == jobs
    (load,) = loads(catalog)
    assert (load.lake, load.owner, load.running, load.waiting, load.quota) == ("", catalog.owner, 2, 7, 3)
    clock.advance(11)
    assert (catalog.live_daemons(), loads(catalog)) == ((), [])
    catalog.beat_daemon(clock.now())
    assert len(loads(catalog)) == 1
    catalog.end_daemon()
    assert catalog.live_daemons() == ()


def test_daemons_of_other_lakes_in_the_same_database_are_seen(tmp_path: Path, postgres_server: Server) -> None:
    clock, url = ManualClock(NOW), postgres_server.url("catalogs")
    lakes = [Catalog.open(tmp_path / name, url=url, clock=clock) for name in ("one", "two")]
    for number, lake in enumerate(lakes):
        lake.register_daemon(1_000, 4, quota=number)
        lake.beat_daemon(NOW, running=number)
    first, second = loads(*lakes)
    assert (first.lake, first.owner, first.quota) == ("", lakes[0].owner, 0)
    assert (second.lake, second.owner) == (f"freshlake_{lakes[1].lake_id}", lakes[1].owner)
    assert (second.running, second.quota) == (1, 1)
    lakes[1].end_daemon()
    assert [load.owner for load in loads(*lakes)] == [lakes[0].owner]
    for lake in lakes:
        lake.close()
