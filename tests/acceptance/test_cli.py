"""The real command in real processes: create, change, refresh, look, verify, fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from freshlake.demo.shop import VIEWS

COMMAND = (sys.executable, "-c", "from freshlake.cli import main; main()")
SETUP = """
CREATE TABLE orders (id BIGINT, region STRING, amount DECIMAL(10, 2)) USING delta;
INSERT INTO orders VALUES (1, 'north', 10), (2, 'north', 5.5), (3, NULL, 1), (3, NULL, 1);
CREATE STREAM TABLE revenue SCHEDULE '5m' AS -- one row per region; also for NULL
  SELECT region, count(*) AS orders, sum(amount) AS revenue FROM orders GROUP BY region;
"""


def freshlake(folder: Path, *words: str, code: int = 0, text: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *words], cwd=folder, input=text, env=dict(os.environ), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def as_json(folder: Path, *words: str) -> Any:
    done = freshlake(folder, *words, "--json")
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    freshlake(folder, "sql", "-", text=SETUP)
    return folder


def test_a_stream_table_follows_its_source_through_separate_processes(shop: Path) -> None:
    freshlake(shop, "sql", "INSERT INTO orders VALUES (4, 'north', 4.5); DELETE FROM orders WHERE id = 3")
    (result,) = as_json(shop, "refresh", "revenue")
    assert (result["action"], result["rows_inserted"], result["rows_deleted"]) == ("DIFFERENTIAL", 1, 2)
    assert as_json(shop, "sql", "SELECT * FROM revenue") == [{"region": "north", "orders": 3, "revenue": "20.00"}]
    (verified,) = as_json(shop, "verify", "--all")
    assert verified["equal"]


def test_the_state_of_the_lake_is_shown(shop: Path) -> None:
    (table,) = as_json(shop, "status")
    assert "revenue" in table["name"]
    assert as_json(shop, "history", "revenue", "--limit", "1")
    assert any("orders" in json.dumps(source) for source in as_json(shop, "sources", "revenue"))
    assert "revenue" in freshlake(shop, "status").stdout


def test_a_mistake_is_one_short_message(shop: Path) -> None:
    failed = freshlake(shop, "create", "broken", "SELECT no_such_column FROM orders", code=1)
    assert failed.stdout == ""
    assert failed.stderr.startswith("invalid-query")
    assert "no_such_column" in failed.stderr
    assert "at org.apache" not in failed.stderr
    assert freshlake(shop, "refresh", "nothing_here", code=1).stderr.startswith("not-found")


def test_a_query_is_explained_and_validated(shop: Path) -> None:
    assert "orders" in freshlake(shop, "explain", "revenue").stdout
    assert as_json(shop, "validate", "SELECT region FROM orders WHERE amount > 1")["differential"]


def test_the_demo_ends_with_every_table_verified(tmp_path: Path) -> None:
    done = freshlake(tmp_path, "demo", "--orders", "20000")
    assert done.stdout.count("✓") >= 6 + len(VIEWS)
    assert "✗" not in done.stdout
    assert (tmp_path / "demo-lake").is_dir()


def test_the_demo_touches_no_folder_that_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").touch()
    assert freshlake(tmp_path, "demo", "--folder", "mine", code=1).stderr.startswith("invalid-argument")
    assert (tmp_path / "mine" / "precious").exists()
