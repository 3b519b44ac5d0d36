"""Partitions of a base: a layout of its files that changes no row.

Delta keeps partition values as text, in which the empty string is NULL and one name is reserved. Rows with such values
are refused before they are committed: stored, they would be other rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from freshlake.errors import DataError, InvalidArgument, Unsupported
from freshlake.storage.relation import WEIGHT, Relation
from freshlake.storage.scan import DataFile
from freshlake.storage.scan.columns import quoted

# Their text is the same whoever writes it.
_TYPES = BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | StringType
_NULLS = ("", "__HIVE_DEFAULT_PARTITION__")
_HINT = "leave the value out of the query's result, as with nullif(column, ''), or partition by another column"


def check_partitions(stored: StructType, columns: Sequence[str]) -> None:
    """Raises where a base cannot be partitioned by these columns."""
    if columns and len(set(columns)) == len(stored):
        raise InvalidArgument(
            "a table cannot be partitioned by all of its columns", hint="leave out at least one of them"
        )
    for name in columns:
        kind: DataType = stored[name].dataType
        if not isinstance(kind, _TYPES):
            raise Unsupported(
                f"column {name} of type {kind.simpleString()} cannot be a partition column",
                hint="partition by a string, a date, a boolean or a whole number, such as CAST(column AS DATE)",
            )


def storable_rows(rows: DataFrame | pa.Table, stored: StructType, columns: Sequence[str]) -> DataFrame | pa.Table:
    """Plain rows in the order of the stored columns; those that partitions cannot hold are refused."""
    positions = [(i, field.name) for i, field in enumerate(stored) if field.name in _texts(stored, columns)]
    if isinstance(rows, pa.Table):
        for i, name in positions:
            _check(rows.column(i), name)
        return rows
    for i, name in positions:
        given = rows.columns[i]
        rows = rows.withColumn(given, _checked(F.col(quoted(given)), name, F.lit(True)))
    return rows


def storable_delta(delta: Relation, stored: StructType, columns: Sequence[str]) -> Relation:
    """Weighted rows under their stored names; those that add what partitions cannot hold are refused."""
    names = _texts(stored, columns)
    if not names:
        return delta
    if delta.arrow is not None:
        added = delta.arrow.filter(pc.greater(delta.arrow.column(WEIGHT), 0))
        for name in names:
            _check(added.column(name), name)
        return delta
    assert delta.frame is not None
    frame = delta.frame
    for name in names:
        frame = frame.withColumn(name, _checked(F.col(quoted(name)), name, F.col(WEIGHT) > 0))
    return Relation.of_frame(frame, delta.schema, insert_only=delta.insert_only)


def excess_files(files: Iterable[DataFile], size: int) -> int:
    """How many files smaller than `size` there are beyond one for each partition."""
    small = Counter(tuple(sorted(file.partition.items())) for file in files if file.size < size)
    return sum(small.values()) - len(small)


def _texts(stored: StructType, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if isinstance(stored[name].dataType, StringType)]


def _check(values: pa.ChunkedArray, name: str) -> None:
    for text in _NULLS:
        if pc.any(pc.equal(values, text)).as_py():
            raise DataError(_message(name, text), hint=_HINT)


def _checked(value: Column, name: str, added: Column) -> Column:
    result = value
    for text in _NULLS:
        result = F.when(added & (value == text), F.raise_error(F.lit(_message(name, text)))).otherwise(result)
    return result


def _message(name: str, text: str) -> str:
    return f"partition column {name} has the value '{text}', which Delta would store as NULL"
