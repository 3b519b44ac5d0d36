"""Every type that Delta stores, and every name: the same row is the same row through log, base and both readers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from freshlake.errors import InvariantViolated
from freshlake.storage.identity import consolidate, expand, identity, prepare, same, violation
from freshlake.storage.relation import WEIGHT
from freshlake.storage.table import FoldForm
from tests.integration.change_logged_model import Modelled, Rows

ATOMIC = (
    "`b o` BOOLEAN, y TINYINT, h SMALLINT, i INT, `count(1)` BIGINT, f FLOAT, x DOUBLE, d DECIMAL(38, 6), s STRING, "
    "v BINARY, `a.b` DATE, t TIMESTAMP, n TIMESTAMP_NTZ, `q``r` STRING, `größe` STRING",
    [
        "true, 1Y, 1S, 1, 1L, 1.0F, 1.0D, 1.5BD, 'a', X'00FF', DATE'2020-01-01', "
        "TIMESTAMP'2020-01-01 01:02:03.000001Z', TIMESTAMP_NTZ'2020-01-01 01:02:03.000001', 'ab', 'xyz'",
        "false, -128Y, -32768S, -2147483648, -9223372036854775808L, -0.0F, -0.0D, -1.000001BD, '', X'', "
        "DATE'0001-01-01', TIMESTAMP'1900-01-01 00:00:00Z', TIMESTAMP_NTZ'9999-12-31 23:59:58.999999', '', ''",
        "false, -128Y, -32768S, -2147483648, -9223372036854775808L, 0.0F, 0.0D, -1.000001BD, '', X'', "
        "DATE'0001-01-01', TIMESTAMP'1900-01-01 00:00:00Z', TIMESTAMP_NTZ'9999-12-31 23:59:58.999999', '', ''",
        "NULL, NULL, NULL, NULL, NULL, float('NaN'), double('NaN'), NULL, 'ü’☃', NULL, DATE'9999-12-31', "
        "TIMESTAMP'9999-12-31 00:00:00Z', NULL, NULL, NULL",
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    ],
)
# What the driver cannot hold: variants, and names inside structs that Delta refuses.
SPARK_ONLY = (
    "k INT, j VARIANT, js ARRAY<VARIANT>, mj MAP<DOUBLE, VARIANT>, t STRUCT<`a b`: DOUBLE, `c;d`: MAP<STRING, FLOAT>>",
    [
        "1, parse_json('[1, \"x\"]'), array(parse_json('1'), NULL), map(1D, parse_json('2')), "
        "named_struct('a b', 0D, 'c;d', map('p', 0.0F))",
        "1, parse_json('[1.0, \"x\"]'), array(parse_json('1'), NULL), map(1D, parse_json('2')), "
        "named_struct('a b', 0D, 'c;d', map('p', 0.0F))",
        "1, parse_json('[1, \"x\"]'), array(parse_json('1'), NULL), map(1D, parse_json('2')), "
        "named_struct('a b', 0D, 'c;d', map('p', -0.0F))",
        "1, NULL, NULL, NULL, NULL",
        "1, parse_json('null'), array(), map(), named_struct('a b', NULL, 'c;d', NULL)",
    ],
    [
        "k",
        "CAST(j AS STRING)",
        "schema_of_variant(j:[0])",
        "transform(js, e -> to_json(e))",
        "t",
        "transform_values(mj, (k, v) -> to_json(v))",
    ],
)


@pytest.mark.parametrize("driver", [True, False], ids=["driver", "spark"])
def test_every_atomic_type_and_every_name_survives(spark: SparkSession, tmp_path: Path, driver: bool) -> None:
    model = Modelled(spark, tmp_path, Rows(spark, *ATOMIC))
    assert model.table.schema.names == model.rows.schema.names
    model.load(dict.fromkeys(range(5), 2))
    model.append({0: -1, 1: -2, 3: 1, 4: -1}, driver=driver)
    model.check(2)
    model.check_changes(1, 2)
    model.fold(form=FoldForm.MERGE if driver else None)
    model.check(2)
    frame = model.table.read(spark, 2, model.points[1], columns=["count(1)", "A.B", "q`r"])
    assert frame.columns == ["count(1)", "a.b", "q`r"]
    assert frame.count() == sum(model.states[2].values())


def test_variants_and_renamed_fields_survive(spark: SparkSession, tmp_path: Path) -> None:
    model = Modelled(spark, tmp_path, Rows(spark, *SPARK_ONLY))
    model.load(dict.fromkeys(range(5), 1))
    model.append({0: -1, 2: -1, 3: 1}, driver=False)
    model.append({0: 2}, driver=False)
    model.check(2)
    model.check(3)
    changes = model.table.changes(spark, 1, 3).dataframe(spark)
    assert [f.dataType for f in changes.drop(WEIGHT).schema] == [f.dataType for f in model.table.schema]
    assert sorted(row[WEIGHT] for row in changes.collect()) == [-1, 1, 1]
    model.fold()
    model.check(3)


DISTINCT = {
    "double": ["0D", "-0D", "NULL", "double('NaN')", "double('Infinity')", "4.9E-324D", "-4.9E-324D"],
    "float": ["0F", "-0F", "NULL", "float('NaN')"],
    "array": ["array(0D)", "array(-0D)", "array(double(NULL))", "array()", "NULL", "array(0D, 0D)"],
    "map": ["map('a', 1)", "map('a', NULL)", "map()", "NULL", "map('b', 1)", "map('a', 1, 'b', 1)"],
    "map keys": ["map(array(1), 1)", "map(array(1, 2), 1)", "map(array(int(NULL)), 1)"],
    "struct": ["named_struct('a', 0D)", "named_struct('a', -0D)", "named_struct('a', double(NULL))", "NULL"],
    "structs": ["array(named_struct('a', 0D))", "array(NULL)", "array(named_struct('a', double(NULL)))"],
    "collated": ["'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE", "'' COLLATE UTF8_LCASE", "NULL"],
    "collated map": ["map('a', 'x' COLLATE UTF8_LCASE)", "map('a', 'X' COLLATE UTF8_LCASE)"],
    "variant": ["parse_json('1')", "parse_json('1.0')", "parse_json('null')", "NULL", "parse_json('\"1\"')"],
    "interval": ["make_interval(0, 1)", "make_interval(0, 0, 0, 30)", "NULL"],
    "binary": ["X''", "NULL", "X'00'"],
}


@pytest.mark.parametrize("kind", DISTINCT)
def test_rows_are_one_exactly_when_their_bits_are(spark: SparkSession, kind: str) -> None:
    values = DISTINCT[kind]
    text = " UNION ALL ".join(f"SELECT {value} AS x, {weight}L AS {WEIGHT}" for value in values for weight in (1, 2))
    frame = spark.sql(text)
    assert [row[WEIGHT] for row in consolidate(frame).select(WEIGHT).collect()] == [3] * len(values)
    rows = frame.filter(f"{WEIGHT} = 1").drop(WEIGHT)
    prepare(spark, rows.schema)
    pairs = rows.alias("l").join(F.broadcast(rows.alias("r")), same("l", "r", rows.schema))
    assert pairs.count() == len(values)


def test_the_row_kept_has_its_original_bits(spark: SparkSession) -> None:
    text = f"SELECT -0D AS x, array(-0.0F) AS a, map('k', -0D) AS m, 2L AS {WEIGHT}"
    row = consolidate(spark.sql(f"{text} UNION ALL {text}")).collect()[0]
    assert (struct.pack(">d", row.x), row[WEIGHT]) == (struct.pack(">d", -0.0), 4)
    assert [str(value) for value in (*row.a, row.m["k"])] == ["-0.0", "-0.0"]


def test_the_order_of_map_entries_does_not_matter(spark: SparkSession) -> None:
    frame = spark.sql(f"SELECT map('a', 1, 'b', 2) AS m, 1L AS {WEIGHT} UNION ALL SELECT map('b', 2, 'a', 1), -1L")
    assert consolidate(frame).isEmpty()


def test_names_may_be_anything(spark: SparkSession) -> None:
    names = ["a", "A", "a.b", "q`r", "é ü", WEIGHT]
    frame = spark.createDataFrame(
        [(1, 2, 3.0, 4, 5, 2), (1, 2, 3.0, 4, 5, 1)], schema="a INT, b INT, c DOUBLE, d INT, e INT, w BIGINT"
    )
    frame = frame.toDF(*names)
    summed = consolidate(frame)
    assert summed.columns == names
    assert [tuple(row) for row in summed.collect()] == [(1, 2, 3.0, 4, 5, 3)]
    assert [tuple(row) for row in expand(frame).collect()] == [(1, 2, 3.0, 4, 5)] * 3
    assert identity(frame.select("`a.b`").schema)[0] == "`a.b`"


def test_copies_follow_the_weight(spark: SparkSession) -> None:
    frame = spark.sql(f"SELECT id AS n, id AS {WEIGHT} FROM range(3)")
    assert [row.n for row in expand(frame).orderBy("n").collect()] == [1, 2, 2]
    with pytest.raises(Exception, match="negative number") as raised:
        expand(frame.withColumn(WEIGHT, -F.col(WEIGHT))).collect()
    assert isinstance(violation(raised.value), InvariantViolated)
    assert violation(ValueError("something else")) is None
