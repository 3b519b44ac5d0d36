"""A process dies while it captures a PostgreSQL database: nothing is lost, nothing is doubled, nobody sees half of it.

Killed after every effect in the lake, in the catalog and in the database: while mirrors are refreshed, while a database
goes from triggers to its log and back, and at random while eight connections write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from freshlake.lake import Freshlake
from freshlake.sources.postgres.capture import Mode
from tests.faults.captures import SETTINGS, tidied, under_load
from tests.faults.processes import Order, consistent, kill, lake_for_victims, points
from tests.integration.capture_database import Database, new_database
from tests.integration.capture_load import MIRRORS, QUERIES, SCRIPT, SOURCE, refresh_to_one_moment, stream_tables
from tests.integration.postgres_server import LOGICAL, binaries, server

pytestmark = pytest.mark.timeout(3600)

FOLLOWED = {"DIFFERENTIAL", "NO_DATA"}
WRITES = (
    "BEGIN; UPDATE accounts SET balance = balance + 1 WHERE id < 5; INSERT INTO events VALUES ({n}, 'n', {n});"
    "DELETE FROM events WHERE account = 3; INSERT INTO archive VALUES ({n}, 1), ({n}, 1); COMMIT"
)


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with server(binaries(), LOGICAL) as running, new_database(running) as made:
        made.run(SCRIPT)
        yield made


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, database: Database) -> Iterator[Freshlake]:
    for lake in lake_for_victims(spark, tmp_path_factory.mktemp("lake"), SETTINGS):
        stream_tables(lake, database, "trigger")
        yield lake


def go_to(fl: Freshlake, mode: Mode) -> None:
    """Be captured this way, and no longer on the way to it."""
    fl.alter_source(SOURCE, cdc_mode=str(mode))
    fl.refresh_all()
    fl._upkeep.run(fl._engine.clock.now())
    assert fl.list_sources()[0].captured_by == mode


def as_before(fl: Freshlake, database: Database) -> None:
    """After a death: everybody goes on from where he stood, by changes alone."""
    assert set(refresh_to_one_moment(fl, database).values()) <= FOLLOWED
    for name in (*MIRRORS, *QUERIES):
        consistent(fl, name)


REFRESH = Order("refresh_all", settings=SETTINGS)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("at", ["pin_position", "appended", "publish"])
def test_a_refresh(fl: Freshlake, database: Database, mode: Mode, at: str) -> None:
    go_to(fl, mode)
    database.run(WRITES.format(n=1))
    assert kill(fl, replace(REFRESH, at=at)) == at
    database.run(WRITES.format(n=2))
    as_before(fl, database)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(Mode))
def test_every_point_of_a_refresh(fl: Freshlake, database: Database, mode: Mode) -> None:
    go_to(fl, mode)
    for _ in points(fl, lambda at: database.run(WRITES.format(n=at)), lambda at: replace(REFRESH, at=at)):
        as_before(fl, database)


def transition(mode: Mode, at: int | str) -> Order:
    return Order("alter_source", (SOURCE,), {"cdc_mode": str(mode)}, at=at, settings=SETTINGS)


@pytest.mark.parametrize("at", ["begin", "publish", "created", "_store"])
def test_a_way_to_the_log(fl: Freshlake, database: Database, at: str) -> None:
    go_to(fl, Mode.TRIGGER)
    database.run(WRITES.format(n=3))
    assert kill(fl, transition(Mode.WAL, at)) == at
    assert fl.list_sources()[0].captured_by == "transitioning"
    database.run(WRITES.format(n=4))
    as_before(fl, database)
    tidied(fl)
    database.run(WRITES.format(n=5))
    as_before(fl, database)
    tidied(fl)
    assert fl.list_sources()[0].captured_by == (Mode.WAL if at == "_store" else Mode.TRIGGER)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(Mode))
def test_every_point_of_a_transition(fl: Freshlake, database: Database, mode: Mode) -> None:
    def prepare(at: int) -> None:
        go_to(fl, Mode.WAL if mode is Mode.TRIGGER else Mode.TRIGGER)
        database.run(WRITES.format(n=at))

    for _ in points(fl, prepare, lambda at: transition(mode, at)):
        as_before(fl, database)
        tidied(fl)
        as_before(fl, database)


def test_deaths_at_random_while_others_write(fl: Freshlake, database: Database) -> None:
    under_load(fl, database, seed=1, transactions=30, deaths=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_deaths_at_random_while_others_write(fl: Freshlake, database: Database, seed: int) -> None:
    under_load(fl, database, seed=seed, transactions=200, deaths=12)
