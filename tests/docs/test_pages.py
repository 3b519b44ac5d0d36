"""The tutorial and the guides are run as they stand, and print what they say they print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from tests.docs.markdown import DOCS
from tests.docs.running import run

GUIDES = (
    "alerts",
    "audit",
    "choose-a-mode",
    "postgres-dialect",
    "reading-the-base-from-other-engines",
    "recover",
    "vacuum-and-fold",
    "views-and-functions",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_tutorial_prints_what_it_shows(spark: SparkSession, folder: Path) -> None:
    _check(DOCS / "tutorial.md", {}, folder)


@pytest.mark.parametrize("guide", GUIDES)
def test_the_examples_of_a_guide_run(guide: str, shop: dict[str, Any], folder: Path) -> None:
    _check(DOCS / "howto" / f"{guide}.md", shop, folder)


@pytest.fixture
def shop(spark: SparkSession, folder: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """A lake with the tables that the guides talk about."""
    fl = freshlake.connect(folder / "lake")
    fl.sql("CREATE TABLE orders USING delta AS SELECT id, 'ann' AS customer, id AS amount FROM range(10)")
    fl.sql("CREATE TABLE customers USING delta AS SELECT 'ann' AS name, 'rome' AS city")
    text = (DOCS / "howto" / f"{request.node.callspec.params['guide']}.md").read_text(encoding="utf-8")
    if "CREATE STREAM TABLE revenue" not in text:
        fl.create_stream_table("revenue", "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer")
    yield {"fl": fl}
    fl.close()


def _check(page: Path, names: dict[str, Any], folder: Path) -> None:
    for ran in run(page.read_text(encoding="utf-8"), names, folder):
        if ran.expected is not None:
            assert ran.printed.strip() == ran.expected.text.strip(), ran.block.text
