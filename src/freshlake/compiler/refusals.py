"""Every construct that a stream table cannot have, as data: bind raises from it, its page and its tests are made of it.

`RUNS_FULL` are the constructs without a differential rule, which support.py finds.
"""

from __future__ import annotations

from dataclasses import dataclass

from freshlake.errors import (
    FreshlakeError,
    NonDeterministic,
    SourceNotDelta,
    TimeTravelUnsupported,
    TooManyGroupingBranches,
    Unsupported,
    UnsupportedLateralJoin,
    UnsupportedLimit,
    UnsupportedQuery,
    UnsupportedTablesample,
    ViewDepthExceeded,
)

Position = tuple[int, int]
"""Line and column in the text of a query, from 1."""

Refused = (
    type[UnsupportedQuery]
    | type[NonDeterministic]
    | type[SourceNotDelta]
    | type[TimeTravelUnsupported]
    | type[ViewDepthExceeded]
    | type[Unsupported]
)

GROUPING_BRANCHES = 64
VIEW_DEPTH = 10

_AFTER = "move this part into a query over the stream table"
_STORE = "store it as a Delta table (USING delta), then name that table in the query"


@dataclass(frozen=True)
class Refusal:
    """`example` has the construct, over a Delta table orders (id, region, amount); `word` is where it begins."""

    construct: str
    error: Refused
    reason: str
    rewrite: str
    example: str | None = None
    word: str | None = None

    def raised(
        self, position: Position | None = None, shown: str | None = None, message: str | None = None
    ) -> FreshlakeError:
        """The error, to be raised; `shown` names the table, function or operator."""
        named = f": {shown}" if shown else ""
        return self.error(
            message or f"{self.construct} is not supported in a stream table{named}",
            detail=self.reason,
            hint=self.rewrite,
            construct=self.construct,
            position=position,
        )


TABLESAMPLE = Refusal(
    "TABLESAMPLE",
    UnsupportedTablesample,
    "a random sample has no stable rows to maintain",
    "materialise all rows, and sample in the reading query: WHERE rand() < fraction",
    "SELECT id FROM orders TABLESAMPLE (50 PERCENT)",
    "TABLESAMPLE",
)
UNORDERED_LIMIT = Refusal(
    "LIMIT or OFFSET without ORDER BY",
    UnsupportedLimit,
    "without an order it keeps other rows each time",
    "apply the limit when reading the stream table, or add ORDER BY to the query that has it",
    "SELECT id FROM orders LIMIT 3",
    "LIMIT",
)
RANDOM = Refusal(
    "a random or volatile function",
    NonDeterministic,
    "the same rows would give another result each time",
    "remove the random function, or compute it when reading the stream table",
    "SELECT id, rand() AS r FROM orders",
    "rand",
)
RANDOM_VECTOR = Refusal(
    "aes_encrypt with a random initialization vector",
    NonDeterministic,
    "every call draws another vector, so the same rows would give another result each time",
    "give a constant initialization vector as the fifth argument, use the mode 'ECB', or encrypt when reading the"
    " stream table",
    "SELECT id, aes_encrypt(region, '0000111122223333') AS e FROM orders",
    "aes_encrypt",
)
SESSION_VALUE = Refusal(
    "a function of the session",
    UnsupportedQuery,
    "its value belongs to a session, not to the data",
    "write the value as a literal; for the time of day use localtimestamp()",
    "SELECT id, current_user() AS u FROM orders",
    "current_user",
)
TRANSFORM = Refusal(
    "TRANSFORM",
    UnsupportedQuery,
    "an external script cannot be reproduced",
    "use SQL or a PySpark function",
    "SELECT TRANSFORM(id) USING 'cat' AS (x) FROM orders",
    "SELECT",
)
TIME_TRAVEL = Refusal(
    "VERSION AS OF or TIMESTAMP AS OF",
    TimeTravelUnsupported,
    "a fixed version of a table never changes",
    "remove VERSION/TIMESTAMP AS OF from the query",
    "SELECT id FROM orders VERSION AS OF 0",
    "VERSION",
)
NOT_DELTA = Refusal(
    "a source that is not a Delta table",
    SourceNotDelta,
    "its changes cannot be told from a log",
    _STORE,
    "SELECT id FROM parquet_orders",
    "parquet_orders",
)
SESSION_ROWS = Refusal(
    "rows of this Spark session",
    UnsupportedQuery,
    "they are gone when the session ends",
    "write them to a Delta table first",
)
FILE_COLUMN = Refusal(
    "a column that says where a row is stored",
    UnsupportedQuery,
    "it changes whenever files are rewritten, without any change of the row",
    "leave out _metadata, or store what it says in a column of the table",
    "SELECT id, _metadata.file_name AS f FROM orders",
    "_metadata",
)
RESULT_TYPE = Refusal(
    "a result column of a type that Delta tables lack",
    Unsupported,
    "a stream table is a Delta table",
    "cast the column to a type that Delta tables have",
)
TEMPORARY = Refusal(
    "a temporary view or function",
    UnsupportedQuery,
    "it exists only in this Spark session, so no other process could refresh the table",
    "make it a view or function of the lake (CREATE VIEW, CREATE FUNCTION); for a Python function, define the stream"
    " table by an importable PySpark function that uses it",
)
GROUPING = Refusal(
    f"more than {GROUPING_BRANCHES} grouping sets",
    TooManyGroupingBranches,
    "every row would be counted in each of them",
    "write the GROUPING SETS that are needed one by one",
    "SELECT count(*) AS n FROM (SELECT id AS a, id AS b, id AS c, id AS d, id AS e, id AS f, id AS g FROM orders)"
    " GROUP BY CUBE (a, b, c, d, e, f, g)",
    "GROUP",
)
LATERAL_JOIN = Refusal(
    "LATERAL with RIGHT or FULL JOIN",
    UnsupportedLateralJoin,
    "rows of the right side would exist without the left side that they are computed from",
    "use JOIN LATERAL or LEFT JOIN LATERAL",
    "SELECT o.id FROM orders o RIGHT JOIN LATERAL (SELECT o.amount AS a) x ON true",
    "RIGHT",
)
NESTED_VIEWS = Refusal(
    f"views in more than {VIEW_DEPTH} levels",
    ViewDepthExceeded,
    "what such a query means is hard to follow, and each level is analyzed again",
    "make a stream table of one of the views in the middle",
)
SUBQUERY_PLACE = Refusal(
    "a subquery in this place",
    UnsupportedQuery,
    "it cannot be turned into a join",
    "write it as a join",
)
TIME_PLACE = Refusal(
    "the current time in this place",
    UnsupportedQuery,
    "this operator cannot be computed over a time that every refresh pins",
    "compute it in a subquery",
)
UNKNOWN_OPERATOR = Refusal(
    "an unknown operator",
    UnsupportedQuery,
    "Freshlake does not know this operator",
    _AFTER,
)

REFUSALS = (
    TABLESAMPLE,
    UNORDERED_LIMIT,
    RANDOM,
    RANDOM_VECTOR,
    SESSION_VALUE,
    TRANSFORM,
    TIME_TRAVEL,
    NOT_DELTA,
    SESSION_ROWS,
    FILE_COLUMN,
    RESULT_TYPE,
    TEMPORARY,
    GROUPING,
    LATERAL_JOIN,
    NESTED_VIEWS,
    SUBQUERY_PLACE,
    TIME_PLACE,
    UNKNOWN_OPERATOR,
)


@dataclass(frozen=True)
class WithoutRule:
    """A construct that is recomputed at every refresh, or refused under DIFFERENTIAL, with an example as above.

    `placed` says whether its place in the query's text is known.
    """

    construct: str
    rewrite: str
    example: str | None = None
    word: str | None = None
    placed: bool = True


JOIN_CONDITION = WithoutRule(
    "an outer, semi or anti join whose condition reads a map or variant",
    f"use refresh mode AUTO or FULL, or {_AFTER}",
    "SELECT a.id FROM (SELECT id, map(region, amount) AS m FROM orders) a"
    " LEFT JOIN orders b ON a.m[b.region] > b.amount",
    "LEFT",
)
MAP_KEY = WithoutRule(
    "GROUP BY a map",
    "use refresh mode AUTO or FULL, or group by a part of it, m['a'], or by its text, to_json(m)",
    "SELECT map(region, amount) AS m, count(*) AS n FROM orders GROUP BY ALL",
    "GROUP",
)
OWN_RANDOM = WithoutRule(
    "a function of your own that is not deterministic, or a Python table function",
    "use refresh mode AUTO or FULL; if equal arguments give equal results, leave out asNondeterministic()",
)
RECURSIVE_STEP = WithoutRule(
    "a recursive query with a step that is not linear",
    "use refresh mode AUTO or FULL, or write the step as a join of the reference with other tables",
    "WITH RECURSIVE r AS (SELECT id FROM orders UNION ALL SELECT a.id + 1 FROM r a JOIN r b ON a.id = b.id"
    " WHERE a.id < 3) SELECT id FROM r",
)
TIME_IN_RESULT = WithoutRule(
    "the current time in the result",
    "use it in WHERE, HAVING, QUALIFY or ON only, or compute it when reading the stream table",
    "SELECT id, current_date() AS today FROM orders WHERE current_date() > DATE '2000-01-01'",
    "current_date",
)
UNSTORABLE = WithoutRule(
    "a part that has to be stored, of a type that Delta tables lack",
    "cast it to a type that Delta tables have",
    "SELECT id FROM orders JOIN (SELECT max(make_dt_interval(amount)) AS m FROM orders)"
    " ON make_dt_interval(amount) < m",
    placed=False,
)

RUNS_FULL = (JOIN_CONDITION, MAP_KEY, OWN_RANDOM, RECURSIVE_STEP, TIME_IN_RESULT, UNSTORABLE)
