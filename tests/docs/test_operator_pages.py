"""Every operator page's example is run: what it shows before, as the change, and after is what Freshlake does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import freshlake
from freshlake.cli.script import statements
from freshlake.clock import ManualClock
from tests.docs.markdown import DOCS, Table, blocks, sections, tables

PAGES = sorted(page for page in (DOCS / "operators").glob("*.md") if page.name != "README.md")
WEIGHT = "__fl_weight"
CLOCK = ManualClock()
"""A page tells the time with a comment: `-- at 2026-03-01 09:00`."""


@pytest.fixture
def fl(spark: SparkSession, lake_dir: Path) -> Iterator[freshlake.Freshlake]:
    lake = freshlake.connect(lake_dir, clock=CLOCK)
    yield lake
    lake.close()


def _some(page: Path) -> object:
    """The default run takes every eighth page; each shows a rule that has tests of its own."""
    return pytest.param(page, marks=[] if PAGES.index(page) % 8 == 0 else [pytest.mark.slow], id=page.stem)


@pytest.mark.parametrize("page", map(_some, PAGES))
def test_the_example_is_true(page: Path, fl: freshlake.Freshlake) -> None:
    example = sections(page.read_text(encoding="utf-8"))["Example"]
    shown = dict(tables(example))
    setup, change = (block.text for block in blocks(example) if block.info == "sql")
    _play(fl, setup)
    (table,) = fl.status()
    assert _bag(fl.table(table.name)) == _shown(shown["**Before**"])

    starts = {source.source: source.position for source in fl.sources(table.name)}
    _play(fl, change)
    for label, expected in shown.items():
        if source := re.fullmatch(r"\*\*Change of `(\w+)`\*\*", label):
            assert _source_change(fl, source[1], starts, expected) == _shown(expected)
    result = fl.refresh(table.name, mode="DIFFERENTIAL")

    assert str(result.action) == "DIFFERENTIAL"
    assert _bag(fl.changes(table.name, since=1)) == _shown(shown["**Change**"])
    assert _bag(fl.table(table.name)) == _shown(shown["**After**"])
    assert fl.verify(table.name).equal


def _play(fl: freshlake.Freshlake, text: str) -> None:
    if told := re.search(r"^-- at (.+)$", text, re.MULTILINE):
        CLOCK.set(datetime.fromisoformat(told[1]).replace(tzinfo=UTC))
    for statement in statements(text):
        fl.sql(statement)


def _shown(table: Table) -> Counter[tuple[str, ...]]:
    """The rows of a table on a page; a last column `weight` counts."""
    rows: Counter[tuple[str, ...]] = Counter()
    for row in table.rows:
        weighted = table.header[-1] == "weight"
        rows[row[:-1] if weighted else row] += int(row[-1]) if weighted else 1
    return rows


def _bag(frame: DataFrame) -> Counter[tuple[str, ...]]:
    rows: Counter[tuple[str, ...]] = Counter()
    for row in frame.collect():
        values = row.asDict()
        weight = values.pop(WEIGHT, 1)
        rows[tuple("NULL" if value is None else str(value) for value in values.values())] += weight
    return rows


def _source_change(
    fl: freshlake.Freshlake, source: str, starts: dict[str, int | None], expected: Table
) -> Counter[tuple[str, ...]]:
    """By time travel, so that the page is checked against Delta itself."""
    columns = ", ".join(expected.header[:-1])
    old = fl.spark.sql(f"SELECT {columns} FROM {source} VERSION AS OF {starts[f'default.{source}']}")
    rows = _bag(fl.spark.sql(f"SELECT {columns} FROM {source}"))
    rows.subtract(_bag(old))
    return Counter({row: weight for row, weight in rows.items() if weight})
