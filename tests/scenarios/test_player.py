"""The runner fails when it should: with the file, the line, the scenario, what was expected and what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from freshlake.lake import Freshlake
from tests.scenarios.player import Player
from tests.scenarios.story import parse

STORY = """
statement
CREATE TABLE t (x INT) USING delta

statement
INSERT INTO t VALUES (1), (2), (2)

round grow

statement
INSERT INTO t VALUES (3)

scenario right
SELECT x FROM t
---- created
2
1
2
---- grow: DIFFERENTIAL, +1 -0

scenario a_row_too_few
SELECT x FROM t
---- created
1
2

scenario a_wrong_value_later
SELECT x FROM t
---- grow
1
2
2
4

scenario a_wrong_number_of_rows
SELECT x FROM t
---- grow: +2 -0

scenario something_is_written
SELECT x % 2 = 2 AS never, count(*) AS n FROM t GROUP BY x % 2 = 2
---- grow: nothing written

scenario something_hidden_is_written
SELECT DISTINCT x < 9 AS small FROM t
---- grow: nothing written

scenario a_wrong_action
SELECT x FROM t
---- grow: FULL

scenario a_wrong_reason mode FULL always FULL requested
SELECT x FROM t

scenario an_error_that_does_not_come
SELECT x FROM t
---- grow: error data-error

scenario a_query_without_sense
SELECT y FROM t

refused one_that_is_created unsupported-limit
SELECT x FROM t

refused another_error unsupported-limit
SELECT x, rand() AS r FROM t

refused another_text unsupported-limit
SELECT x FROM t LIMIT 1
----
no such words

scenario a_table_that_drifts
SELECT x FROM t
"""

WRONG = {
    "a_row_too_few": ("a_row_too_few, created", r"expected: 1; 2\n\s+found: +1; 2; 2\n\s+unexpected +2$"),
    "a_wrong_value_later": ("a_wrong_value_later, grow", r"missing +4\n\s+unexpected +3$"),
    "a_wrong_number_of_rows": ("a_wrong_number_of_rows, grow", r"expected \+2 -0 rows to change, found \+1 -0"),
    "something_is_written": ("something_is_written, grow", r"expected \+0 -0 rows to change, found \+1 -1"),
    "something_hidden_is_written": ("hidden_is_written, grow", r"expected nothing to be written, found \+1 -1"),
    "a_wrong_action": ("a_wrong_action, grow", r"expected the action FULL, found DIFFERENTIAL"),
    "a_wrong_reason": ("a_wrong_reason, grow", r"expected the reason requested, found mode-full"),
    "an_error_that_does_not_come": ("come, grow", r"expected the error data-error, but the refresh was DIFFERENTIAL"),
    "a_query_without_sense": ("a_query_without_sense, created", r"error invalid-query"),
    "one_that_is_created": ("created, created", r"expected the error unsupported-limit, but the table was created"),
    "another_error": ("another_error, created", r"expected the error unsupported-limit, found non-deterministic"),
    "another_text": ("another_text, created", r"expected the error to say \['no such words'\], found"),
    "a_table_that_drifts": ("a_table_that_drifts, grow", r"left is the stream table, right its query\n.*only on the"),
}


def line_of(text: str) -> int:
    return STORY.splitlines().index(text) + 1


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """One lake; the last table loses a row behind the engine's back after the round."""
    patch = pytest.MonkeyPatch()
    honest = Freshlake.table

    def table(self: Freshlake, name: str) -> DataFrame:
        frame = honest(self, name)
        return frame.where("x < 3") if name == "a_table_that_drifts" else frame

    patch.setattr(Freshlake, "table", table)
    player = Player(parse(STORY, Path("wrong.slt")), tmp_path_factory.mktemp("wrong"))
    player.play()
    yield player
    patch.undo()


def test_what_is_right_passes(played: Player) -> None:
    assert set(played.failures) == set(WRONG)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_fails_and_says_where(played: Player, name: str) -> None:
    where, why = WRONG[name]
    message = played.failures[name]
    assert re.match(r"wrong\.slt:\d+: ", message)
    assert where in message.splitlines()[0]
    assert re.search(why, message, re.DOTALL), message


def test_the_line_is_that_of_the_expectation(played: Player) -> None:
    assert played.failures["a_wrong_action"].startswith(f"wrong.slt:{line_of('---- grow: FULL')}: ")
    assert played.failures["a_wrong_reason"].startswith(
        f"wrong.slt:{line_of('scenario a_wrong_reason mode FULL always FULL requested')}: "
    )


def test_a_statement_that_fails_fails_the_file(spark: SparkSession, tmp_path: Path) -> None:
    text = "statement\nINSERT INTO nowhere VALUES (1)\n\nscenario a\nSELECT 1 AS x\n\nscenario b\nSELECT 2 AS x"
    player = Player(parse(text, Path("wrong.slt")), tmp_path)
    player.play()
    assert set(player.failures) == {"a", "b"}
    assert player.failures["a"].startswith("wrong.slt:1: the statement failed: ")


def test_only_what_is_selected_is_played_with_what_it_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = []
    honest = Freshlake.create_stream_table

    def create(self: Freshlake, name: str, *rest: Any, **options: Any) -> Any:
        created.append(name)
        return honest(self, name, *rest, **options)

    monkeypatch.setattr(Freshlake, "create_stream_table", create)
    text = (
        "statement\nCREATE TABLE t (x INT) USING delta\n\nscenario below\nSELECT x FROM t\n\n"
        "scenario beside\nSELECT x FROM t\n\nscenario above\nSELECT x FROM below"
    )
    player = Player(parse(text, Path("some.slt")), tmp_path, {"above"})
    player.play()
    assert (created, player.failures) == (["below", "above"], {})
