"""What a round does around the refresh of mirrors, against a real database and without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from freshlake.errors import FuseBlown
from freshlake.refresh.engine import Engine
from freshlake.service.captures import Captures
from freshlake.service.landing import Landing
from freshlake.service.moment import Round
from freshlake.service.transitions import Transitions
from freshlake.sources.captured.positions import place_of
from freshlake.sources.postgres.events import Resync
from freshlake.sources.protocol import Position
from tests.integration.capture_database import Database
from tests.integration.capture_shop import NOW, Shop, opened


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Iterator[Shop]:
    database.run("CREATE TABLE t (id int, a text); CREATE TABLE u (id int)")
    with opened(database, tmp_path / "lake", ("public.t", "public.u")) as made:
        yield made


def landing(shop: Shop) -> Landing:
    engine = SimpleNamespace(catalog=shop.catalog, reached=lambda step: None)
    captures = SimpleNamespace(
        database=lambda name: shop.shop,
        renewed=lambda database, mirror, before: before,
        mirrors=SimpleNamespace(fits=lambda mirror, schema: True),
    )
    transitions = SimpleNamespace(settle=lambda name: None)
    return Landing(cast(Engine, engine), cast(Captures, captures), cast(Transitions, transitions))


def marks(shop: Shop) -> dict[str, str]:
    """Why mirrors are to be copied anew."""
    return {mine.captured.table.name: mine.resync for mine in shop.shop.mirrored() if mine.resync is not None}


def test_a_table_is_copied_only_at_a_point_that_was_made_for_it(shop: Shop) -> None:
    """Nobody is kept from truncating the others, which empties them for the snapshot, too."""
    shop.database.run("INSERT INTO t VALUES (1, 'x'); INSERT INTO u VALUES (1)")
    with shop.shop.copying([shop.captured["t"]]) as at:
        shop.database.run("TRUNCATE u; INSERT INTO u SELECT generate_series(1, 10)")
        assert shop.shop.copy(shop.captured["u"], at) is None
        copied = shop.shop.copy(shop.captured["t"], at)
        assert copied is not None
        assert copied.count == 1


def test_what_others_have_landed_and_given_up_meanwhile_is_not_lost(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.database.run("INSERT INTO t VALUES (1, 'x')")
    end, read = shop.shop.head(), shop.shop.resyncs

    def overtaken(start: Position, upto: Position) -> dict[int, Resync]:
        for name in shop.mirrors:
            shop.moves(name, end)
        shop.shop.release()
        return read(start, upto)

    monkeypatch.setattr(shop.shop, "resyncs", overtaken)
    landing(shop)._notice(shop.shop, end, ())
    assert marks(shop) == {}


def test_of_what_is_given_up_only_who_still_stands_there_is_copied(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.database.run("INSERT INTO t VALUES (1, 'x')")
    end, read = shop.shop.head(), shop.shop.resyncs

    def overtaken(start: Position, upto: Position) -> dict[int, Resync]:
        shop.moves("t", end)
        shop.shop.triggers.confirm(place_of(end))
        return read(start, upto)

    monkeypatch.setattr(shop.shop, "resyncs", overtaken)
    landing(shop)._notice(shop.shop, end, ())
    assert marks(shop).keys() == {"u"}


def fails(shop: Shop, table: str) -> None:
    """A refresh after which a mirror rests until somebody has looked at it."""
    lease = shop.leased(table)
    refresh = shop.catalog.begin_refresh(lease).refresh_id
    shop.catalog.fail_refresh(refresh, FuseBlown("too many rows"), max_consecutive_errors=3, fatal=True)
    shop.catalog.release_lease(lease)


def test_nothing_is_read_or_kept_for_a_mirror_in_error_that_others_have_passed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shop.shop.head()
    shop.database.run("INSERT INTO t VALUES (1, 'x'); INSERT INTO u VALUES (1)")
    fails(shop, "u")
    second = shop.shop.head()
    shop.moves("t", second)
    shop.database.run("INSERT INTO t VALUES (2, 'y')")
    end, read, starts = shop.shop.head(), shop.shop.resyncs, []

    def noted(start: Position, upto: Position) -> dict[int, Resync]:
        starts.append(start)
        return read(start, upto)

    monkeypatch.setattr(shop.shop, "resyncs", noted)
    landing(shop)._notice(shop.shop, end, ())
    assert (starts, marks(shop)) == ([second], {})
    landing(shop)._notice(shop.shop, end, {shop.mirrors["u"].id})
    assert sorted(starts[1:], key=lambda at: at.version) == [first, second], "who asks for it brings it along"
    landing(shop)._release("shop")
    assert marks(shop) == {"u": "history-lost: others have gone on without it"}
    assert (shop.rows("t"), shop.rows("u"), shop.shop.standing()) == (1, 0, [second])


def test_a_mirror_in_error_that_nobody_has_passed_goes_on_from_where_it_stands(shop: Shop) -> None:
    fails(shop, "u")
    landing(shop)._release("shop")
    assert marks(shop) == {}


def test_a_round_looks_where_mirrors_stand_before_it_notes_where_they_go(shop: Shop) -> None:
    start, note = shop.shop.head(), f"SELECT landed FROM {shop.shop.names.released}"
    shop.shop.land(start)
    shop.moves("t", start)
    shop.database.run(f"UPDATE {shop.shop.names.released} SET landed = '3:3:'")
    with ExitStack() as held:
        moment, at, due = landing(shop)._ready(held, "shop", Round({}, NOW), set())
        assert at is not None
        assert moment.pins[shop.shop.key] == at
        assert {mine.captured.table.name for mine in due} == marks(shop).keys() == {"t", "u"}
        assert f"snapshot {shop.database.one(note)}" == at.fingerprint


def test_what_is_landed_without_a_copy_is_noted_first(shop: Shop) -> None:
    shop.database.run("INSERT INTO t VALUES (1, 'x')")
    with ExitStack() as held:
        moment, at, _ = landing(shop)._ready(held, "shop", Round({}, NOW), set())
    assert (at, marks(shop), shop.shop.lost()) == (None, {}, {})
    note = shop.database.one(f"SELECT landed FROM {shop.shop.names.released}")
    assert f"snapshot {note}" == moment.pins[shop.shop.key].fingerprint
