"""Rows of PostgreSQL and of Spark side by side: the same tables in Spark, and when two answers are the same."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampType

from tests.integration.postgres_queries import COLUMNS, ROWS
from tests.integration.postgres_server import Rows

_ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "DECIMAL(10,2)": pa.decimal128(10, 2),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "ARRAY<INT>": pa.list_(pa.int32()),
    "ARRAY<STRING>": pa.list_(pa.string()),
}


def frame_of(session: SparkSession, table: str) -> DataFrame:
    """The rows that PostgreSQL has in a table."""
    columns = COLUMNS[table]
    values = {name: pa.array([r[i] for r in ROWS[table]], _ARROW[kind]) for i, (name, _, kind) in enumerate(columns)}
    typed = [f"CAST({name} AS {kind}) AS {name}" for name, _, kind in columns]
    return session.createDataFrame(pa.table(values)).selectExpr(*typed)


def answer(frame: DataFrame) -> list[list[Any]]:
    """The rows of a frame; moments as a clock in the session's zone shows them."""
    kinds = [f.dataType for f in frame.schema]
    if any(isinstance(kind, TimestampType) for kind in kinds):
        local = [
            f"CAST(c{i} AS TIMESTAMP_NTZ)" if isinstance(k, TimestampType) else f"c{i}" for i, k in enumerate(kinds)
        ]
        frame = frame.toDF(*(f"c{i}" for i in range(len(kinds)))).selectExpr(*local)
    return [[plain(value) for value in row] for row in frame.collect()]


def plain(value: Any) -> Any:
    """As PostgreSQL writes it in JSON; floating numbers stay what they are."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, dt.datetime) and value.microsecond:
        return value.isoformat().rstrip("0")
    if isinstance(value, dt.date):
        return value.isoformat()
    return [plain(item) for item in value] if isinstance(value, list) else value


def _local(value: Any) -> Any:
    """A timestamptz without its zone."""
    if isinstance(value, str):
        return re.sub(r"^(\d{4}-\d\d-\d\dT[\d:.]+)[+-]\d\d:\d\d$", r"\1", value)
    return [_local(item) for item in value] if isinstance(value, list) else value


def _same(theirs: Any, ours: Any) -> bool:
    """Exactly equal, except where Spark computes with floating numbers."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same, theirs, ours))
    numbers = [v for v in (ours, theirs) if isinstance(v, int | float | Decimal) and not isinstance(v, bool)]
    if len(numbers) < 2:
        return type(ours) is type(theirs) and bool(ours == theirs)
    if isinstance(ours, float):
        return math.isclose(float(theirs), ours, rel_tol=1e-9, abs_tol=1e-12)
    return Decimal(theirs) == Decimal(ours)


def unmatched(expected: Rows, ours: list[list[Any]]) -> tuple[list[Any], list[Any]]:
    """Rows only in PostgreSQL, and only in Spark."""
    theirs, left = [[_local(v) for _, v in row] for row in expected], list(ours)
    missing = []
    for row in theirs:
        partner = next((i for i, other in enumerate(left) if _same(row, other)), None)
        if partner is None:
            missing.append(row)
        else:
            del left[partner]
    return missing, left
