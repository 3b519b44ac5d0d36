"""Several processes, each with its own Spark, on one lake: they see each other's tables and never refresh one twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.processes import Process

pytestmark = pytest.mark.slow

CLI = (sys.executable, "-c", "from freshlake.cli import main; main()")
ORDERS = "CREATE TABLE orders (id BIGINT, region STRING, amount INT) USING delta"
TOTALS = "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    (folder / "freshlake.toml").write_text("immediate_wait_seconds = 0\n")  # who is late hears so at once
    return folder


@pytest.fixture(scope="module")
def two(lake: Path) -> Iterator[tuple[Process, Process]]:
    started = (Process(lake), Process(lake))
    try:
        assert [p.hear() for p in started] == ["ready", "ready"]
        first, _ = started
        first.ask(f"fl.sql({ORDERS!r}).count()")
        first.ask("fl.sql(\"INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 5), (2, 'south', 5)\").count()")
        first.ask(f"fl.create_stream_table('totals', {TOTALS!r}).version")
        yield started
    finally:
        for process in started:
            process.end()


def insert(process: Process, *rows: str) -> None:
    process.ask(f'fl.sql("INSERT INTO orders VALUES {", ".join(rows)}").count()')


def test_what_one_makes_the_other_sees(two: tuple[Process, Process]) -> None:
    first, second = two
    assert second.rows("SELECT * FROM totals") == first.rows("SELECT * FROM totals") != []
    second.ask("fl.create_stream_table('big', 'SELECT region FROM totals WHERE total > 5').version")
    insert(second, "(3, 'north', 1)")
    # `totals` has a new row for north; for `big`, it is the same row as before
    refreshed = first.ask("[str((r := fl.refresh('big')).action), r.rows_inserted, r.rows_deleted]")
    assert refreshed == ["DIFFERENTIAL", 0, 0]
    assert second.rows("SELECT total FROM totals WHERE region = 'north'") == [[11]]
    assert second.refresh("totals") == "NO_DATA"
    assert first.ask("[s.name for s in fl.status()]") == ["big", "totals"]


def test_a_table_is_refreshed_by_one_process_at_a_time(two: tuple[Process, Process]) -> None:
    first, second = two
    insert(first, "(4, 'east', 1)")
    first.tell("pause compute")
    first.tell("str(fl.refresh('totals').action)")
    assert first.hear() == "at compute"
    assert second.ask("str(fl.refresh('totals').action)") == {"error": "refresh-in-progress"}
    assert second.ask("fl.drop_stream_table('big')") is None
    assert second.ask("fl.fold('totals').folded_versions") == {"error": "refresh-in-progress"}
    assert second.rows("SELECT * FROM totals WHERE region = 'east'") == []  # readers go on, and see what is published
    first.tell("continue")
    assert first.hear() == "DIFFERENTIAL"
    first.tell("pause nothing")
    assert second.refresh("totals") == "NO_DATA"
    assert second.rows("SELECT n FROM totals WHERE region = 'east'") == [[1]]
    assert second.ask("fl.verify('totals').equal") is True


def test_both_at_once_apply_every_change_once(two: tuple[Process, Process]) -> None:
    first, second = two
    for number in range(4):
        insert(first, f"({10 + number}, 'west', 1)")
        for process in two:
            process.tell("str(fl.refresh('totals').action)")
        outcomes = [process.hear() for process in two]
        won = [o for o in outcomes if o == "DIFFERENTIAL"]
        assert len(won) == 1, outcomes
        assert all(o in ("NO_DATA", "DIFFERENTIAL", {"error": "refresh-in-progress"}) for o in outcomes)
    assert first.rows("SELECT n FROM totals WHERE region = 'west'") == [[4]]
    assert second.ask("fl.verify('totals').equal") is True
    runs = first.ask("[[r.action, r.version] for r in fl.history('totals', 100) if r.rows_inserted]")
    assert len({version for _, version in runs}) == len(runs)


def test_a_reader_in_another_process_is_not_disturbed(two: tuple[Process, Process]) -> None:
    first, second = two
    seen = second.ask("(held := fl.table('totals')).count()")
    insert(first, "(90, 'reader', 1)")
    assert first.refresh("totals") == "DIFFERENTIAL"
    first.ask("fl.fold('totals').folded_versions")
    assert second.ask("held.count()") == seen
    assert second.ask("fl.table('totals').count()") == seen + 1
    assert second.ask("fl.verify('totals').equal") is True


def test_the_command_sees_and_changes_the_same_lake(two: tuple[Process, Process], lake: Path) -> None:
    first, _ = two
    words = ["--lake", str(lake), "--json", "create", "by_command", "SELECT region FROM totals WHERE n > 0"]
    done = subprocess.run([*CLI, *words], cwd=lake, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (made,) = json.loads(done.stdout)
    assert (made["name"], made["depends_on"]) == ("by_command", ["default.totals"])
    assert first.ask("[s.name for s in fl.status()]") == ["by_command", "totals"]
    insert(first, "(99, 'command', 1)")
    assert first.refresh("by_command") == "DIFFERENTIAL"
    assert first.ask("fl.verify('by_command').equal") is True
