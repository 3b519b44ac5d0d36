"""Whether what readers see is right: states at one point in time against the queries over the sources at that point."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row

import freshlake
from freshlake.sources.protocol import Position
from tests.soak.dag import SOURCES, Defined

Bag = Counter[tuple[Any, ...]]


def differences(fl: freshlake.Freshlake, defined: Sequence[Defined], chance: random.Random, count: int) -> list[str]:
    """A snapshot of some tables, each compared with its query computed from the sources alone."""
    wanted = chance.sample([d.name for d in defined], count)
    snapshot = fl.snapshot(*wanted)
    expected = at(fl, defined, snapshot.roots)
    found = []
    for name in wanted:
        left, right = bag(snapshot[name].collect()), bag(expected[name].collect())
        if left != right:
            found.append(f"{name}: {sum((right - left).values())} missing, {sum((left - right).values())} unexpected")
    return found


def at(
    fl: freshlake.Freshlake, defined: Sequence[Defined], roots: Mapping[str, Mapping[str, Any]]
) -> dict[str, DataFrame]:
    """All queries over the sources at these positions, in a session that knows nothing of stream tables."""
    session = fl.spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    edges = {e.source_name: e for es in fl._engine.catalog.all_dependencies().values() for e in es}
    for source in SOURCES:
        edge = edges[f"default.{source}"]
        known = roots.get(edge.source_key)
        position = Position.from_json(known) if known else fl._engine.source(edge).head()
        fl._engine.source(edge).snapshot(session, position).createOrReplaceTempView(source)
    frames = {}
    for table in defined:
        frames[table.name] = session.sql(table.query)
        frames[table.name].createOrReplaceTempView(table.name)
    return frames


def bag(rows: Sequence[Row]) -> Bag:
    return Counter(tuple(row) for row in rows)
