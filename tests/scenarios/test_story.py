"""The format of scenario files: what is read from them, and that a mistake is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row

from tests.scenarios.shown import shown
from tests.scenarios.story import Expected, Facts, FormatError, Statement, parse, read

FILES = sorted(Path(__file__).parent.glob("*.slt"))
STORY = """# a comment

setting reader_min_age_seconds 5

statement
CREATE TABLE t (x INT)
USING delta

round grow fold clock +2h

statement
INSERT INTO t VALUES (1)

round shrink reopen

scenario all_rows
SELECT x
FROM t
---- created
(no rows)
---- grow: DIFFERENTIAL, +1 -0
1  'a b'  NULL  [x,'y z']
---- shrink: error data-error

scenario by_mode mode AUTO partitioned x always FULL not-differentiable
SELECT x FROM t

slow

refused a_limit unsupported-limit
SELECT x FROM t LIMIT 1
----
ORDER BY
"""


def test_a_file_is_read_into_values() -> None:
    story = parse(STORY, Path("one.slt"))
    assert [s.slow for s in story.scenarios] == [False, False, True]
    assert story.settings == {"reader_min_age_seconds": "5"}
    assert story.setup == (Statement("CREATE TABLE t (x INT)\nUSING delta", 5),)
    grow, shrink = story.rounds
    assert (grow.name, grow.fold, grow.reopen, grow.seconds) == ("grow", True, False, 7200)
    assert grow.changes == (Statement("INSERT INTO t VALUES (1)", 11),)
    assert (shrink.reopen, shrink.changes) == (True, ())
    rows, mode, refused = story.scenarios
    assert (rows.name, rows.query, rows.mode) == ("all_rows", "SELECT x\nFROM t", "DIFFERENTIAL")
    assert rows.expected == {
        "created": Expected("created", 19, Facts(), ()),
        "grow": Expected("grow", 21, Facts("DIFFERENTIAL", changed=(1, 0)), (("1", "'a b'", "NULL", "[x,'y z']"),)),
        "shrink": Expected("shrink", 23, Facts(error="data-error"), None),
    }
    assert (mode.mode, mode.partition, mode.always) == ("AUTO", "x", Facts("FULL", "not-differentiable"))
    assert (refused.refused, refused.says) == ("unsupported-limit", ("ORDER BY",))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("nonsense x", 1, "'nonsense' is none of"),
        ("\nstatement", 2, "SQL in the lines below"),
        ("statement ok\nSELECT 1", 1, "stands alone"),
        ("round", 1, "a round is one line"),
        ("round a\nDELETE FROM t", 1, "a round is one line"),
        ("round a slowly", 1, "'slowly' is not one of"),
        ("round a clock 5", 1, "'clock' is not one of"),
        ("round A", 1, "'A' is not a name"),
        ("scenario", 1, "a scenario has a name"),
        ("scenario a\n---- created\n1", 1, "has no query"),
        ("scenario a mode SLOW\nSELECT 1", 1, "'mode SLOW' is not"),
        ("scenario a always\nSELECT 1", 1, "'always' is not"),
        ("scenario a sometimes\nSELECT 1", 1, "'sometimes' is not"),
        ("scenario a\nSELECT 1\n---- later\n1", 3, "there is no round later"),
        ("scenario a\nSELECT 1\n---- created: SOMETHING", 3, "'SOMETHING' is none of"),
        ("scenario a\nSELECT 1\n---- created\n1\n---- created\n1", 5, "described in line 3 already"),
        ("scenario a\nSELECT 1\n\nscenario a\nSELECT 2", 4, "used in line 1 already"),
        ("scenario a\nSELECT 1\n---- created: +1 -0", 3, "only rows can be expected"),
        ("scenario a always +1 -0\nSELECT 1", 1, "'always' is followed by an action"),
        ("scenario a\nSELECT 1\n---- created", 3, "nothing is said about created"),
        ("refused a\nSELECT 1", 1, "expected 1 word here, found 0"),
        ("setting a", 1, "expected 2 words here, found 1"),
    ],
)
def test_a_mistake_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse(text, Path("bad.slt"))
    assert str(caught.value).startswith(f"bad.slt:{line}: ")
    assert message in str(caught.value)


def test_values_that_could_be_mistaken_are_quoted() -> None:
    row = ("a", "", "NULL", None, True, "true", "it's", 1, 1.5, [1, None], Row(a="x y", b=2), {"k": None})
    assert shown(row) == (
        *("a", "''", "'NULL'", "NULL", "true", "'true'", "'it''s'", "1", "1.5", "[1,NULL]"),
        *("{'x y',2}", "{k:NULL}"),
    )


def test_the_folder_has_scenarios_in_every_file_and_enough_of_them() -> None:
    stories = [read(path) for path in FILES]
    scenarios = [s for story in stories for s in story.scenarios]
    told = [s for s in scenarios if s.refused or any(e.rows is not None for e in s.expected.values())]
    assert all(story.scenarios for story in stories)
    assert len({s.name for s in scenarios}) == len(scenarios) >= 150
    assert len(told) >= len(scenarios) / 3
