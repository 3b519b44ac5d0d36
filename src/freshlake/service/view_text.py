"""The texts of views: Spark keeps the names of their columns beside them, the lake's catalog keeps one text."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.types import StructType

from freshlake.compiler.plan import quote


def with_column_names(text: str, view: Any) -> str:
    """The text of a view of Spark's catalog, with the names that the view gives to the columns of its query."""
    queried = view.viewQueryColumnNames()
    before = [queried.apply(i) for i in range(queried.size())]
    after = StructType.fromJson(json.loads(view.schema().json())).names
    # without names of its own for them it has those of its query, whatever they are later
    return text if not before or before == after else _renamed(text, before, after)


def _renamed(text: str, before: list[str], after: list[str]) -> str:
    """By name where that is possible: the query may get further columns, which the view goes without."""
    if len({name.lower() for name in before}) < len(before):
        return f"SELECT * FROM (\n{text}\n) AS __fl_view({', '.join(map(quote, after))})"
    columns = (f"{quote(old)} AS {quote(new)}" for old, new in zip(before, after, strict=True))
    return f"SELECT {', '.join(columns)} FROM (\n{text}\n)"
