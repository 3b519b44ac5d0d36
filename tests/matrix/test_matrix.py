"""Every cell of the support matrix is executed by `make slow`; the default run compares its page with the record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.matrix.operators import COMPOSITIONS, OPERATORS, Operator, changes, name, proof, query
from tests.matrix.record import Played, Record, cell, play, read

# All cells are played in one fixture, which is charged to the first of them.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]


def cells() -> Iterator[object]:
    for operator in OPERATORS:
        for composition in COMPOSITIONS:
            for change in changes(operator, composition):
                yield pytest.param(operator, composition, change, id=proof(operator, composition, change))


@pytest.fixture(scope="module")
def recorded() -> Record:
    return read()


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Played:
    """Only the stream tables of the cells that were selected."""
    chosen = [
        i.callspec.params for i in request.session.items if isinstance(i, pytest.Function) and i.path == request.path
    ]
    return play(tmp_path_factory.mktemp("matrix"), {name(p["operator"], p["composition"]) for p in chosen})


@pytest.mark.parametrize(("operator", "composition", "change"), list(cells()))
def test_cell(played: Played, recorded: Record, operator: Operator, composition: str, change: str) -> None:
    """The table equals its query, the refresh was differential, and the page says what happened."""
    table = name(operator, composition)
    found = cell(played, table, change)
    assert found is not None, played.player.failures.get(table) or played.player.results.get((table, change))
    place = recorded[operator.name][composition]
    assert place["query"] == query(operator, composition), "run `make matrix`"
    assert (place["strategy"], place["cells"].get(change)) == (played.strategies[table], found), "run `make matrix`"
