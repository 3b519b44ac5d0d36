"""A lake over a PostgreSQL database that others write to all the time, compared with the database at one position."""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.lake import Freshlake
from freshlake.refresh.result import RefreshResult
from freshlake.service.moment import Round
from freshlake.sources.postgres.connection import connect, transaction
from tests.integration.capture_database import Bag, Database
from tests.integration.capture_mirror import NAMES, TABLES
from tests.integration.lakes import bag

SOURCE = "shop"
SCRIPT = f"{TABLES}; ALTER TABLE events REPLICA IDENTITY FULL; ALTER TABLE archive REPLICA IDENTITY FULL"
QUERIES = {
    "moved": "SELECT a.owner, count(*) AS events, sum(e.amount) AS amount, sum(a.balance) AS balance "
    "FROM {schema}accounts a JOIN {schema}events e ON a.id = e.account GROUP BY a.owner",
    "kept": "SELECT r.amount, count(*) AS n, max(a.note) AS note "
    "FROM {schema}archive r LEFT JOIN {schema}accounts a ON a.id = r.id GROUP BY r.amount",
}
MIRRORS = tuple(f"{SOURCE}.{name}" for name in NAMES)


def stream_tables(fl: Freshlake, database: Database, cdc_mode: str) -> None:
    """A source, and stream tables over several of its tables."""
    fl.add_postgres(SOURCE, str(database.reference), cdc_mode=cdc_mode)
    for name, query in QUERIES.items():
        fl.create_stream_table(name, query.format(schema=f"{SOURCE}.public."), fold_policy="manual")


def refresh_to_one_moment(fl: Freshlake, database: Database) -> dict[str, str]:
    """Refresh everything to a position at which the database can be looked at; both must be the same there.

    What the database held is read under an exported snapshot, without any capture.
    """
    shop = fl._captures.database(SOURCE)
    with shop.copying([mine.captured for mine in shop.mirrored()]) as at:
        moment = Round({shop.key: at}, fl._engine.clock.now())
        done = [*_refreshed(fl, moment, MIRRORS), *(r for name in QUERIES for r in _refreshed(fl, moment, [name]))]
        theirs = _theirs(fl, database, shop._held[at].point.snapshot)
    for name in (*MIRRORS, *QUERIES):
        frontier = fl._engine.catalog.get(name).frontier or {}
        assert frontier["roots"][shop.key] == at.to_json()
    assert {name: _ours(fl, name) for name in theirs} == theirs
    return {result.table: str(result.action) for result in done}


def _refreshed(fl: Freshlake, moment: Round, names: Sequence[str]) -> list[RefreshResult]:
    outcome = fl._rounds.run([fl._engine.catalog.get(name) for name in names], moment)
    assert not outcome.failed, outcome.failed
    return outcome.results


def _ours(fl: Freshlake, name: str) -> Bag:
    return bag(tuple(row) for row in fl.table(name).collect())


def _theirs(fl: Freshlake, database: Database, snapshot: str) -> dict[str, Bag]:
    columns = {name: ", ".join(fl.table(f"{SOURCE}.{name}").columns) for name in NAMES}
    queries = {f"{SOURCE}.{name}": f"SELECT {columns[name]} FROM {name}" for name in NAMES}
    queries |= {name: query.format(schema="public.") for name, query in QUERIES.items()}
    with connect(database.reference) as own, transaction(own, read_only=True, snapshot=snapshot) as cursor:
        return {name: bag(cursor.execute(query.encode()).fetchall()) for name, query in queries.items()}
