"""The real command: what it writes and how it ends in processes of its own, and what it shows of the lake they made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshlake.cli import main
from freshlake.demo.shop import VIEWS

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-c", "from freshlake.cli import main; main()")
SETUP = """
CREATE TABLE orders (id BIGINT, region STRING, amount DECIMAL(10, 2)) USING delta;
INSERT INTO orders VALUES (1, 'north', 10), (2, 'north', 5.5), (3, NULL, 1), (3, NULL, 1);
INSERT INTO orders SELECT id, 'south', 2 FROM range(100, 200);
CREATE STREAM TABLE revenue SCHEDULE '5m' AS -- one row per region; also for NULL
  SELECT region, count(*) AS orders, sum(amount) AS revenue FROM orders GROUP BY region;
"""
CHANGE = """
INSERT INTO orders VALUES (4, 'north', 4.5);
DELETE FROM orders WHERE id = 3;
REFRESH STREAM TABLE revenue;
SELECT no_such_column FROM orders;
SELECT 1 AS never_run
"""


@dataclass(frozen=True)
class Shop:
    """A lake that two processes made: one filled it, one changed and refreshed it and then made a mistake."""

    lake: Path
    changed: subprocess.CompletedProcess[str]


def freshlake(folder: Path, *words: str, code: int = 0, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process, and so with a Spark, of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")}
    done = subprocess.run(
        [*COMMAND, *words], cwd=folder, input=text, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder = tmp_path_factory.mktemp("shop")
    filled = freshlake(folder, "sql", "-", text=SETUP)
    assert filled.stderr == ""
    return Shop(folder / "lake", freshlake(folder, "--json", "sql", CHANGE, code=1))


class Here:
    """The command in this process, on the Spark that all tests share."""

    def __init__(self, lake: Path, captured: pytest.CaptureFixture[str]) -> None:
        self._lake, self._captured = lake, captured

    def __call__(self, *words: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["--lake", str(self._lake), *words])
        shown = self._captured.readouterr()
        assert ended.value.code == code, shown.err
        return shown.err if code else shown.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def here(shop: Shop, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(shop.lake, capsys)


def test_a_stream_table_follows_its_source_through_separate_processes(shop: Shop, here: Here) -> None:
    *_, (result,) = map(json.loads, shop.changed.stdout.splitlines())
    assert (result["action"], result["rows_inserted"], result["rows_deleted"]) == ("DIFFERENTIAL", 1, 2)
    north, south = here.json("sql", "SELECT * FROM revenue ORDER BY region")
    assert north == {"region": "north", "orders": 3, "revenue": "20.00"}
    assert south == {"region": "south", "orders": 100, "revenue": "200.00"}
    (verified,) = here.json("verify", "--all")
    assert verified["equal"]


def test_a_mistake_is_one_short_message(shop: Shop, here: Here) -> None:
    error = json.loads(shop.changed.stderr)["error"]
    assert error["code"] == "invalid-query"
    assert "`no_such_column` cannot be resolved" in error["message"]
    assert "statement 4 of 5" in error["detail"]
    said = here("create", "broken", "SELECT no_such_column FROM orders", code=1)
    assert said.startswith("invalid-query")
    assert "no_such_column" in said
    assert "at org.apache" not in said
    assert here("refresh", "nothing_here", code=1).startswith("not-found")


def test_the_state_of_the_lake_is_shown(here: Here) -> None:
    (table,) = here.json("status")
    assert (table["name"], table["last_action"], table["rows"]) == ("revenue", "DIFFERENTIAL", 2)
    assert [run["action"] for run in here.json("history", "revenue")] == ["DIFFERENTIAL", "FULL"]
    (source,) = here.json("sources", "revenue")
    assert (source["source"], source["pending"]) == ("default.orders", False)
    assert "revenue" in here("status")


def test_a_query_is_explained_and_validated(here: Here) -> None:
    assert "orders" in here("explain", "revenue")
    assert here.json("validate", "SELECT region FROM orders WHERE amount > 1")["differential"]


def test_the_demo_ends_with_every_table_verified(here: Here, tmp_path: Path) -> None:
    shown = here("demo", "--orders", "5000", "--folder", str(tmp_path / "demo"))
    assert "DIFFERENTIAL" in shown
    assert shown.count("✓") >= 6 + len(VIEWS)
    assert "✗" not in shown
    assert (tmp_path / "demo").is_dir()


def test_the_demo_touches_no_folder_that_is_not_its_own(here: Here, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    assert here("demo", "--folder", str(tmp_path), code=1).startswith("invalid-argument")
    assert [file.name for file in tmp_path.iterdir()] == ["precious"]
