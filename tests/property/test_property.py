"""The law: after every refresh a stream table equals its query, for random tables, queries and changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.property import query as q
from tests.property.case import Script
from tests.property.generate import MAX_DEPTH, generate
from tests.property.play import Play

SEEDS = (176, 247)
"""Few, because every refresh costs a Spark job; together they use every operator. `make fuzz` plays more."""

EXAMPLES = sorted((Path(__file__).parent / "examples").glob("*.json"))


def check(script: Script, folder: Path) -> None:
    played = Play(script, folder, random=True)
    failures = played.run()
    assert not failures, f"{failures[0]}\n\n{script.to_json()}"
    assert played.oracle is not None
    assert not played.oracle.invalid, "Spark itself can run what is played here"
    assert played.oracle.second.checked, "DuckDB has checked some results"


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories(spark: SparkSession, lake_dir: Path, seed: int) -> None:
    check(generate(seed).script(), lake_dir)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_histories_that_failed_once(spark: SparkSession, lake_dir: Path, example: Path) -> None:
    check(Script.from_json(example.read_text(encoding="utf-8")), lake_dir)


def test_the_seeds_use_every_operator() -> None:
    trees = [node for seed in SEEDS for query in generate(seed).queries.values() for node in q.walk(query)]
    kinds = {type(node) for node in trees}
    assert kinds == {
        *(q.Table, q.Filter, q.Project, q.Distinct, q.Aggregate, q.Join, q.Union, q.Shared),
        *(q.Match, q.Scalar, q.Windowed, q.Top, q.Exploded, q.Counted, q.Recursive, q.Pivoted, q.Unpivoted),
    }
    text = " ".join(query.sql() for seed in SEEDS for query in generate(seed).queries.values())
    for word in (
        "UNION ALL",
        "UNION (",
        "CROSS JOIN",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "WHERE EXISTS",
        "NOT EXISTS",
        "CASE WHEN EXISTS",
        " IN (SELECT",
        " NOT IN (SELECT",
        "<=>",
        "HAVING",
        "FILTER",
        "count(DISTINCT",
        "stddev",
        "max(",
        "sum(",
        "PARTITION BY",
        "row_number()",
        "LIMIT",
        "OFFSET",
        "ROLLUP",
        "CUBE",
        "INTERSECT ALL",
        "EXCEPT ALL",
        "EXCEPT (",
        "explode(",
    ):
        assert word in text, f"no query has {word}"


def test_the_seeds_use_every_kind_of_change() -> None:
    changes = " ".join(c for seed in SEEDS for r in generate(seed).script().rounds for c in r.changes)
    for word in ("INSERT INTO", "UPDATE", "DELETE FROM", "MERGE INTO", "INSERT OVERWRITE", "OPTIMIZE"):
        assert word in changes, f"no round has {word}"
    options = " ".join(t.options for seed in SEEDS for t in generate(seed).tables)
    for word in ("enableChangeDataFeed", "enableDeletionVectors", "PARTITIONED BY"):
        assert word in options, f"no table has {word}"


def test_a_seed_means_the_same_history_in_every_process() -> None:
    first, second = (generate(7).script() for _ in range(2))
    assert first == second
    assert Script.from_json(first.to_json()) == first


def test_queries_are_as_deep_as_promised() -> None:
    depths = [q.depth(query) for seed in range(40) for query in generate(seed).queries.values()]
    assert max(depths) == MAX_DEPTH
    assert min(depths) >= 1
