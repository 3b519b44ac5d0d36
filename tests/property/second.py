"""A second oracle: the same queries over the same rows in DuckDB, where the two dialects mean the same."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

_DIFFERENT = {
    r"LATERAL VIEW OUTER": "rows without elements are lost in translation",
    r"\bPIVOT": "for a value without rows, count is NULL in Spark and 0 in DuckDB",
    r"ROLLUP|CUBE": "over no rows, DuckDB has a grand total and Spark has none",
}
"""What has another meaning after translation, and why."""


@dataclass
class SecondOracle:
    """Answers for the queries it can translate; the others are in `left_out` with the reason."""

    queries: Mapping[str, str]
    left_out: dict[str, str] = field(default_factory=dict)
    checked: int = 0
    database: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """The rows of the tables as they are now; queries that read queries become views on views."""
        for name, rows in tables.items():
            self.database.register(f"{name}_rows", rows)
            self.database.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM {name}_rows")
        for name, text in self.queries.items():
            if name in self.left_out:
                continue
            try:
                self.database.execute(f"CREATE OR REPLACE VIEW {name} AS {translated(text)}")
            except (duckdb.Error, sqlglot.ParseError, Untranslatable) as error:
                self.left_out[name] = str(error).splitlines()[0]

    def difference(self, name: str, rows: Iterable[Sequence[Any]]) -> str | None:
        """How these rows differ from DuckDB's, if it can tell."""
        if name in self.left_out:
            return None
        self.checked += 1
        theirs = Counter(map(_alike, self.database.execute(f"SELECT * FROM {name}").fetchall()))
        ours = Counter(map(_alike, rows))
        if ours == theirs:
            return None
        ours, theirs = ours - theirs, theirs - ours
        return f"only in the stream table: {ours.most_common(10)}\nonly in DuckDB: {theirs.most_common(10)}"


class Untranslatable(Exception):
    pass


def translated(text: str) -> str:
    for pattern, why in _DIFFERENT.items():
        if re.search(pattern, text, re.IGNORECASE):
            raise Untranslatable(why)
    return sqlglot.parse_one(text, read="spark").transform(_as_in_spark).sql(dialect="duckdb")


_OVER_NOTHING = {exp.ArrayAgg: "[]", exp.ArrayUniqueAgg: "[]", exp.CountIf: "0"}
"""What Spark answers over no rows where DuckDB has NULL."""


def _as_in_spark(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.In) and node.args.get("query") and not isinstance(node.parent, exp.Not):
        # Spark has no unknown here: what is not found is false
        return exp.func("COALESCE", node.copy(), exp.false())
    call = node.this if isinstance(node, exp.Filter) else node
    if type(call) in _OVER_NOTHING and not (node is call and isinstance(node.parent, exp.Filter)):
        return exp.func("COALESCE", node.copy(), exp.maybe_parse(_OVER_NOTHING[type(call)], dialect="duckdb"))
    return node


def _alike(value: Any) -> Any:
    """Equal for what both engines mean by the same value; numbers by value, floating ones by ten digits."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, list):
        return tuple(sorted((_alike(v) for v in value), key=str))
    if isinstance(value, tuple):
        return tuple(map(_alike, value))
    if isinstance(value, int | float | Decimal):
        number = float(value)
        return "nan" if math.isnan(number) else f"{number + 0.0:.10g}"
    # a date moved by days is a timestamp in DuckDB
    return value.date() if isinstance(value, datetime) and value.time() == time() else value
