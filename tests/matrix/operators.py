"""The table the support matrix is made of: operators, as queries over two inputs, and the places they can stand in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.scenarios.story import Scenario, Story, parse

_INPUT = "l"
_GROUPED = "(SELECT k, min(g) AS g, sum(v) AS v FROM l GROUP BY k, id % 2)"


@dataclass(frozen=True)
class Operator:
    """`query` gives columns k and v, from the input {l} and, if it is binary, the input r."""

    name: str
    page: str
    """Its page in docs/operators."""
    query: str

    @property
    def is_binary(self) -> bool:
        return re.search(r"\b(FROM|JOIN) r\b", self.query) is not None


OPERATORS = (
    Operator("scan", "scan", "SELECT k, v, g FROM {l} AS l"),
    Operator("filter", "filter", "SELECT k, v FROM {l} AS l WHERE v > 3 OR g IS NULL"),
    Operator("project", "project", "SELECT k + 1 AS k, v * 2 AS v FROM {l} AS l"),
    Operator("union_all", "union_all", "SELECT k, v FROM {l} AS l UNION ALL SELECT k, v FROM r"),
    Operator("explode", "generate", "SELECT k, explode(array(v, v + 1)) AS v FROM {l} AS l"),
    Operator("rollup", "expand", "SELECT k, sum(v) AS v FROM {l} AS l GROUP BY ROLLUP (k, g)"),
    Operator(
        "pivot",
        "aggregate",
        "SELECT k, a AS v FROM (SELECT k, g, v FROM {l} AS l) PIVOT (sum(v) FOR g IN ('a' AS a, 'b' AS b))",
    ),
    Operator("inner_join", "inner_join", "SELECT l.k, r.v FROM {l} AS l JOIN r ON l.k = r.k"),
    Operator("join_on_an_inequality", "inner_join", "SELECT l.k, r.v FROM {l} AS l JOIN r ON l.v < r.v"),
    Operator("left_join", "left_join", "SELECT l.k, r.v FROM {l} AS l LEFT JOIN r ON l.k = r.k"),
    Operator("left_join_on_an_inequality", "left_join", "SELECT l.k, r.v FROM {l} AS l LEFT JOIN r ON l.v < r.v"),
    Operator("right_join", "right_join", "SELECT r.k, l.v FROM {l} AS l RIGHT JOIN r ON l.k = r.k"),
    Operator("full_join", "full_join", "SELECT coalesce(l.k, r.k) AS k, r.v FROM {l} AS l FULL JOIN r ON l.k = r.k"),
    Operator("exists", "semi_join", "SELECT k, v FROM {l} AS l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k)"),
    Operator("not_exists", "anti_join", "SELECT k, v FROM {l} AS l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)"),
    Operator(
        "not_in", "anti_join", "SELECT k, v FROM {l} AS l WHERE k NOT IN (SELECT k FROM r WHERE v > 2 AND v <> 7)"
    ),
    Operator(
        "exists_under_or",
        "existence_join",
        "SELECT k, v FROM {l} AS l WHERE v > 8 OR EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    ),
    Operator("scalar_subquery", "left_join", "SELECT k, (SELECT count(*) FROM r WHERE r.k = l.k) AS v FROM {l} AS l"),
    Operator("scalar_subquery_uncorrelated", "left_join", "SELECT k, v - (SELECT max(v) FROM r) AS v FROM {l} AS l"),
    Operator(
        "scalar_subquery_of_one_row", "single_join", "SELECT k, v - (SELECT v FROM r WHERE k = 9) AS v FROM {l} AS l"
    ),
    Operator("sum", "aggregate", "SELECT k, sum(v) AS v FROM {l} AS l GROUP BY k"),
    Operator("max", "aggregate", "SELECT k, max(v) AS v FROM {l} AS l GROUP BY k"),
    Operator("count_distinct", "aggregate", "SELECT k, count(DISTINCT v) AS v FROM {l} AS l GROUP BY k"),
    Operator("aggregate_without_groups", "aggregate", "SELECT max(k) AS k, sum(v) AS v FROM {l} AS l"),
    Operator("having", "having", "SELECT k, sum(v) AS v FROM {l} AS l GROUP BY k HAVING count(*) > 1"),
    Operator("distinct", "distinct", "SELECT DISTINCT k, v FROM {l} AS l"),
    Operator("union", "distinct", "SELECT k, v FROM {l} AS l UNION SELECT k, v FROM r"),
    Operator("intersect", "semi_join", "SELECT k FROM {l} AS l INTERSECT SELECT k FROM r"),
    Operator("except", "anti_join", "SELECT k FROM {l} AS l EXCEPT SELECT k FROM r"),
    Operator("intersect_all", "set_operation", "SELECT k FROM {l} AS l INTERSECT ALL SELECT k FROM r"),
    Operator("except_all", "set_operation", "SELECT k FROM {l} AS l EXCEPT ALL SELECT k FROM r"),
    Operator("rank", "window", "SELECT k, rank() OVER (PARTITION BY k ORDER BY v) AS v FROM {l} AS l"),
    Operator(
        "latest_per_key",
        "window",
        "SELECT k, v FROM {l} AS l QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC) = 1",
    ),
    Operator("top_k", "top_k", "SELECT k, v FROM {l} AS l ORDER BY v DESC, k LIMIT 4"),
    Operator("top_k_with_offset", "top_k", "SELECT k, v FROM {l} AS l ORDER BY v DESC, k LIMIT 3 OFFSET 1"),
    Operator(
        "recursion",
        "recursion",
        "WITH RECURSIVE t(k, v) AS (SELECT k, 1 FROM {l} AS l WHERE v > 4 UNION ALL "
        "SELECT r.v % 4, t.v + 1 FROM t JOIN r ON r.k = t.k WHERE t.v < 3) SELECT k, v FROM t",
    ),
    Operator(
        "current_time", "current_time", "SELECT k, v FROM {l} AS l WHERE timestamp_seconds(1767225595 + v) <= now()"
    ),
)

COMPOSITIONS = ("alone", "under_a_join", "under_an_aggregate", "over_an_aggregate")

LAKE = """
statement
CREATE TABLE l (id INT, k INT, g STRING, v INT) USING delta

statement
INSERT INTO l VALUES (1, 1, 'a', 5), (2, 1, 'b', 9), (3, 2, 'a', 5), (4, NULL, NULL, 7), (5, 3, 'b', 2), (6, 3, 'b', 2),
  (14, 4, 'a', 6), (15, 6, 'a', 4)

statement
CREATE TABLE r (k INT, g STRING, v INT) USING delta

statement
INSERT INTO r VALUES (1, 'a', 5), (2, 'b', 8), (2, 'b', 8), (NULL, NULL, 7), (9, 'a', 1)

statement
CREATE TABLE names (k INT, name STRING) USING delta

statement
INSERT INTO names VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four'), (5, 'five'), (6, 'six'),
  (9, 'nine'), (9, 'neun')

round insert

statement
INSERT INTO l VALUES (7, 2, 'a', 9), (8, 9, 'b', 1), (9, NULL, 'a', 7), (9, NULL, 'a', 7), (10, 2, 'a', 11),
  (11, 5, 'b', 6), (16, 11, 'b', 3)

round delete

statement
DELETE FROM l WHERE id IN (1, 2, 4, 10, 14, 16)

round update

statement
UPDATE l SET k = if(id = 8, 4, 1), v = v + 4 WHERE id IN (3, 5, 8)

round both_sides

statement
INSERT INTO l VALUES (12, 4, 'a', 6), (13, 1, 'a', 20)

statement
DELETE FROM l WHERE id IN (6, 7)

statement
UPDATE r SET k = if(k = 9, 9, 4), v = 3 WHERE k = 2 OR k = 9 OR k IS NULL

statement
UPDATE names SET k = 4 WHERE name IN ('one', 'neun')
"""

CHANGES = ("insert", "delete", "update", "both_sides")


def query(operator: Operator, composition: str) -> str:
    own = operator.query.format(l=_GROUPED if composition == "over_an_aggregate" else _INPUT)
    if composition == "under_a_join":
        return f"SELECT q.*, n.name FROM ({own}) AS q JOIN names AS n ON q.k = n.k"
    if composition == "under_an_aggregate":
        return f"SELECT k % 2 AS odd, count(*) AS n, sum(k) AS total, max(k) AS top FROM ({own}) AS q GROUP BY k % 2"
    return own


def changes(operator: Operator, composition: str) -> tuple[str, ...]:
    """An operator with one input has no second side to change, unless it is joined."""
    return CHANGES if operator.is_binary or composition == "under_a_join" else CHANGES[:-1]


def name(operator: Operator, composition: str) -> str:
    return f"{operator.name}_{composition}"


def proof(operator: Operator, composition: str, change: str) -> str:
    """The id of the test of one cell."""
    return f"{operator.name}-{composition}-{change}"


def places() -> Iterator[tuple[Operator, str]]:
    for operator in OPERATORS:
        for composition in COMPOSITIONS:
            yield operator, composition


def story() -> Story:
    """One lake with a stream table per operator and composition."""
    lake = parse(LAKE, Path(__file__))
    made = tuple(Scenario(name(o, c), 0, query(o, c)) for o, c in places())
    return replace(lake, scenarios=made)
