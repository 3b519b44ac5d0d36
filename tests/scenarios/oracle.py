"""What the queries of a file give as their users wrote them: plain Spark over copies of the tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame, Row, SparkSession

from tests.scenarios.story import Story

_WRITTEN = re.compile(
    r"\b(?:INSERT INTO|INSERT OVERWRITE|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE TABLE"
    r"|(?:CREATE|CREATE OR REPLACE) TABLE)\s+(\w+)",
    re.IGNORECASE,
)
_VIEW = re.compile(r"\s*CREATE\s+VIEW\s+(\w+)\s+AS\s+(.+)", re.IGNORECASE | re.DOTALL)
_PLAIN = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
"""Compiling code takes longer than running it over ten rows."""


def written(statements: Iterable[str]) -> set[str]:
    """The tables that statements write."""
    return {name.lower() for sql in statements for name in _WRITTEN.findall(sql)}


@dataclass
class Oracle:
    spark: SparkSession
    queries: dict[str, str]
    """Everything that has a name and is not a plain table: views, and scenarios."""
    reads: dict[str, set[str]] = field(default_factory=dict)
    """Name → the plain tables it reads, directly or through other names."""
    copies: Counter[str] = field(default_factory=Counter)
    """How often each table was copied."""
    _known: dict[str, tuple[object, list[Row]]] = field(default_factory=dict)

    def copy(self, frame: DataFrame, table: str) -> None:
        self.copies[table] += 1
        self.spark.createDataFrame(frame.toArrow(), frame.schema).createOrReplaceTempView(table)

    def rows(self, name: str, now: datetime) -> list[Row]:
        """Run again only after one of its tables was copied, or time has passed."""
        key = (now, {table: self.copies[table] for table in self.reads[name]})
        if name not in self._known or self._known[name][0] != key:
            self._known[name] = (key, self.frame(name, now).collect())
        return self._known[name][1]

    def frame(self, name: str, now: datetime) -> DataFrame:
        """The query by name, other names in it first."""
        for other in self.queries:
            if other != name and mentions(self.queries[name], other):
                self.frame(other, now).createOrReplaceTempView(other)
        return self.spark.sql(_at(self.queries[name], now))


def oracle(spark: SparkSession, story: Story) -> Oracle:
    for key, value in _PLAIN.items():
        spark.conf.set(key, value)
    views = {m[1]: m[2] for s in story.setup if (m := _VIEW.match(s.sql))}
    queries = views | {s.name: s.query for s in story.scenarios}
    made = Oracle(spark, queries)
    for name in queries:
        made.reads[name] = _reads(name, queries, written(s.sql for s in story.setup))
    return made


def _reads(name: str, queries: dict[str, str], tables: set[str]) -> set[str]:
    text = queries[name]
    found = {t for t in tables if mentions(text, t)}
    for other in queries:
        if other != name and mentions(text, other):
            found |= _reads(other, queries, tables)
    return found


def mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text, re.IGNORECASE) is not None


def _at(query: str, now: datetime) -> str:
    """The query with the time written out."""
    moment = f"timestamp_micros({int(now.timestamp() * 1_000_000)}L)"
    query = re.sub(r"\b(now|current_timestamp)\(\)", moment, query)
    return query.replace("current_date()", f"CAST({moment} AS DATE)")
