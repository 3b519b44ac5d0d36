"""Every type that the driver reader takes is read as Spark reads it, bit for bit, at its extremes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructType, TimestampType

from freshlake.storage.relation import Relation
from freshlake.storage.scan import NotDriverReadable, Snapshot, driver_readable, open_snapshot, read, read_arrow

MOMENTS = (
    "-0100-01-01 00:00:00",
    "0001-01-01 00:00:00",
    "1582-10-10 12:00:00.000001",
    "1899-12-31 23:59:59.999999",
    "1969-12-31 23:59:59.999999",
    "2020-02-29 12:34:56.789012",
    "2262-04-12 00:00:00",
    "9999-12-31 23:59:59.999999",
    "+20000-01-01 00:00:00",
)
DAYS = ("-0100-01-01", "0001-01-01", "1582-10-10", "9999-12-31", "+20000-01-01")

# Column type → values, as SQL; every column has a NULL too.
VALUES: dict[str, tuple[str, ...]] = {
    "TINYINT": ("-128", "127"),
    "SMALLINT": ("-32768", "32767"),
    "INT": ("-2147483648", "2147483647"),
    "BIGINT": ("-9223372036854775808L", "9223372036854775807L"),
    "FLOAT": ("float('NaN')", "float('-0.0')", "float('Infinity')", "float('1.4E-45')"),
    "DOUBLE": ("double('NaN')", "double('-0.0')", "double('-Infinity')", "double('4.9E-324')", "0.1D"),
    "DECIMAL(9,2)": ("9999999.99", "-9999999.99"),
    "DECIMAL(18,4)": ("99999999999999.9999", "-0.0001"),
    "DECIMAL(38,0)": ("9" * 38, "-" + "9" * 38),
    "DECIMAL(38,38)": ("0." + "9" * 38,),
    "STRING": ("''", "'é😀'", "'a\\u0000b'", "cast(X'ff41' AS STRING)"),
    "VARCHAR(5)": ("'ab'", "'ab   '"),
    "BINARY": ("X''", "X'00ff'"),
    "BOOLEAN": ("true", "false"),
    "DATE": tuple(f"date'{day}'" for day in DAYS),
    "TIMESTAMP": tuple(f"timestamp'{moment}'" for moment in MOMENTS),
    "TIMESTAMP_NTZ": tuple(f"timestamp_ntz'{moment}'" for moment in MOMENTS),
    "ARRAY<INT>": ("array()", "array(1, NULL)"),
    "ARRAY<ARRAY<STRING>>": ("array(array(), NULL, array('x', NULL))",),
    "ARRAY<STRUCT<x: INT, y: TIMESTAMP>>": (
        "array(NULL, named_struct('x', NULL, 'y', NULL))",
        "array(named_struct('x', 1, 'y', timestamp'9999-01-01 00:00:00'))",
    ),
    "STRUCT<x: INT, y: STRUCT<z: STRING, w: ARRAY<DOUBLE>>>": (
        "named_struct('x', NULL, 'y', NULL)",
        "named_struct('x', 1, 'y', named_struct('z', NULL, 'w', array(double('NaN'), double('-0.0'))))",
    ),
    "MAP<STRING, INT>": ("map()", "map('a', 1, 'b', NULL)"),
    "MAP<INT, STRUCT<q: DECIMAL(20,3)>>": ("map(1, named_struct('q', 1.5), 2, NULL)",),
}
COLUMNS = {f"c{i}": kind for i, kind in enumerate(VALUES)}


def _insert(spark: SparkSession, path: str) -> None:
    """One row per position of the lists above, NULL where a list is shorter."""
    rows = []
    for position in range(max(map(len, VALUES.values())) + 1):
        values = {kind: options[position] if position < len(options) else "NULL" for kind, options in VALUES.items()}
        texts = (f"cast({value} AS {kind.replace('VARCHAR(5)', 'STRING')})" for kind, value in values.items())
        rows.append("SELECT " + ", ".join(texts))
    spark.sql(f"INSERT INTO delta.`{path}` {' UNION ALL '.join(rows)}")


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of all types, its timestamps once as INT96 and once as INT64."""
    path = str(tmp_path_factory.mktemp("types") / "t")
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
    for stored in ("INT96", "TIMESTAMP_MICROS"):
        session.conf.set("spark.sql.parquet.outputTimestampType", stored)
        _insert(session, path)
    return path


def _exact(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows with every value in a form that keeps its bits and that Python can hold."""
    rows = frame.select(*(_form(frame, name) for name in frame.columns)).collect()
    return sorted((tuple(row) for row in rows), key=str)


def _form(frame: DataFrame, name: str) -> Column:
    kind = frame.schema[name].dataType
    if isinstance(kind, TimestampType):
        return F.unix_micros(F.col(name))
    if isinstance(kind, DateType):
        return F.unix_date(F.col(name))
    if isinstance(kind, StringType):
        return F.hex(F.col(name))
    return F.col(name).cast("string")


def _by_driver(spark: SparkSession, snapshot: Snapshot, columns: list[str]) -> DataFrame:
    table = read_arrow(snapshot.files, snapshot.schema, columns)
    schema = StructType([snapshot.schema[name] for name in columns])
    return Relation.of_arrow(table, schema, insert_only=True).dataframe(spark)


def test_all_types_are_driver_readable(table: str) -> None:
    assert driver_readable(open_snapshot(table).schema)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_three_readers_agree_on_every_type(spark: SparkSession, table: str, zone: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    snapshot = open_snapshot(table)
    expected = _exact(session.read.format("delta").load(table))
    assert len(expected) == 2 * (len(MOMENTS) + 1)
    assert _exact(read(session, snapshot)) == expected
    assert _exact(_by_driver(session, snapshot, snapshot.schema.names)) == expected


def test_the_old_calendar_is_left_to_spark(spark: SparkSession, lake_dir: Path) -> None:
    session, path = spark.newSession(), str(lake_dir / "t")
    session.conf.set("spark.sql.parquet.int96RebaseModeInWrite", "LEGACY")
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    session.sql("SELECT date'1500-01-01' AS d, timestamp'1500-01-01 00:00:00' AS t").write.format("delta").save(path)
    snapshot = open_snapshot(path)
    assert _exact(read(spark, snapshot)) == _exact(spark.read.format("delta").load(path))
    with pytest.raises(NotDriverReadable):
        read_arrow(snapshot.files, snapshot.schema)


def test_variants_and_padded_text_are_left_to_spark(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (v VARIANT, c CHAR(4), s STRUCT<c: CHAR(3)>, t VARCHAR(9), p CHAR(3)) "
        "USING delta PARTITIONED BY (p)"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT parse_json('[1, null]'), 'a', named_struct('c', 'b'), 'x', 'p'")
    snapshot = open_snapshot(path)
    assert [name for name in snapshot.schema.names if driver_readable(snapshot.schema, [name])] == ["t"]
    texts = ["cast(v AS STRING)", "c", "s", "t", "p"]
    assert read(spark, snapshot).selectExpr(*texts).collect() == [("[1,null]", "a   ", ("b  ",), "x", "p  ")]
    assert snapshot.needs_delta_reader == "partition column p of type CHAR"
