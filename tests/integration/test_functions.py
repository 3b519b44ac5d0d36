"""Views, SQL functions and Python functions in the query of a stream table: maintained, noticed when they change, and
refused where another process could not find them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.catalog.names import TableName
from freshlake.compiler.refusals import TEMPORARY
from freshlake.errors import InvalidQuery, NotDifferentiable, SourceSchemaChanged, UnsupportedQuery
from freshlake.lake import Freshlake
from tests.bags import assert_same_bag
from tests.integration.lakes import refused
from tests.property.play import SETTINGS

SETUP = (
    "CREATE TABLE s (id INT, g STRING, x INT) USING delta",
    "CREATE TABLE rates (g STRING, rate INT) USING delta",
    "INSERT INTO s VALUES (1, 'a', 10), (2, 'a', 20), (2, 'a', 20), (3, 'b', NULL), (4, NULL, 5)",
    "INSERT INTO rates VALUES ('a', 2), ('b', 3)",
    "CREATE FUNCTION taxed(x INT) RETURNS INT RETURN x + 1",
    "CREATE FUNCTION rate_of(k STRING) RETURNS INT RETURN (SELECT max(rate) FROM rates WHERE rates.g = k)",
    "CREATE FUNCTION of_group(k STRING) RETURNS TABLE(id INT, y INT) RETURN SELECT id, taxed(x) FROM s WHERE g = k",
    "CREATE VIEW priced AS SELECT id, g, taxed(x) AS y FROM s WHERE x IS NOT NULL",
    "CREATE VIEW totals AS SELECT g, sum(y) AS t FROM priced GROUP BY g",
    'CREATE VIEW metrics WITH METRICS LANGUAGE YAML AS $$\nversion: "0.1"\nsource: s\n'
    "dimensions:\n  - name: g\n    expr: g\n"
    "measures:\n  - name: total\n    expr: SUM(x)\n  - name: top\n    expr: MAX(x)\n$$",
)
QUERIES = {
    "scalar": "SELECT id, taxed(x) AS y FROM s WHERE taxed(id) > 2",
    "nested": "SELECT g, sum(taxed(taxed(x))) AS t, count(*) AS n FROM s GROUP BY g",
    "looked_up": "SELECT id, rate_of(g) AS r FROM s",
    "of_table": "SELECT * FROM of_group('a')",
    "lateral": "SELECT r.g, f.id, f.y FROM rates AS r, LATERAL of_group(r.g) AS f",
    "of_view": "SELECT g, t FROM totals WHERE t > 5",
    "of_metrics": "SELECT g, measure(total) AS total, measure(top) AS top FROM metrics GROUP BY g",
}
CHANGES = (
    "INSERT INTO s VALUES (5, 'b', 7), (6, 'a', 1)",
    "UPDATE s SET g = 'b', x = x * 2 WHERE id IN (2, 4)",
    "UPDATE rates SET rate = 9 WHERE g = 'a'",
    "DELETE FROM rates WHERE g = 'b'",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("functions")


@pytest.fixture(scope="module")
def played(spark: SparkSession, folder: Path) -> Freshlake:
    """All queries through all changes, after the lake was opened again."""
    fl = freshlake.connect(folder, settings=SETTINGS)
    for statement in SETUP:
        fl.sql(statement)
    for name, query in QUERIES.items():
        fl.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    fl.close()
    fl = freshlake.connect(folder, settings=SETTINGS)
    for statement in CHANGES:
        fl.sql(statement)
    for name in QUERIES:
        assert str(fl.refresh(name, mode="DIFFERENTIAL").action) == "DIFFERENTIAL", name
        assert_same_bag(fl.table(name), fl.sql(QUERIES[name]))
    return fl


@pytest.fixture
def fl(played: Freshlake) -> Freshlake:
    return played


def check(fl: Freshlake, name: str, query: str) -> None:
    assert_same_bag(fl.table(name), fl.sql(query))


def test_sql_functions_and_views_are_maintained_and_found_again(fl: Freshlake) -> None:
    assert [row[0] for row in fl.sql("SELECT taxed(1)").collect()] == [2]
    for name in QUERIES:
        assert str(fl.refresh(name).action) == "NO_DATA", name
        assert fl.verify(name).equal


def test_a_replaced_function_rebuilds_what_uses_it_and_is_named(fl: Freshlake) -> None:
    fl.sql("CREATE OR REPLACE FUNCTION taxed(x INT) RETURNS INT RETURN x + 100")
    for name in ("scalar", "lateral", "of_view"):
        result = fl.refresh(name)
        assert (str(result.action), result.reason) == ("REINITIALIZE", "definition-changed"), name
        assert "function taxed was changed" in (result.detail or ""), (name, result.detail)
        check(fl, name, QUERIES[name])
    assert str(fl.refresh("looked_up").action) == "NO_DATA"
    assert str(fl.refresh("scalar").action) == "NO_DATA"


def test_a_function_replaced_by_the_same_changes_nothing(fl: Freshlake) -> None:
    fl.sql("CREATE FUNCTION IF NOT EXISTS rate_of(k STRING) RETURNS INT RETURN 0")
    fl.sql(
        "CREATE OR REPLACE FUNCTION rate_of(k STRING) RETURNS INT "
        "RETURN (SELECT max(rate) FROM rates WHERE rates.g = k)"
    )
    assert str(fl.refresh("looked_up").action) == "NO_DATA"


def test_a_replaced_view_rebuilds_what_reads_it_and_is_named(fl: Freshlake) -> None:
    fl.sql("CREATE OR REPLACE VIEW priced AS SELECT id, g, x AS y FROM s")
    result = fl.refresh("of_view")
    assert (str(result.action), result.reason) == ("REINITIALIZE", "definition-changed")
    assert "view priced was changed" in (result.detail or "")
    check(fl, "of_view", QUERIES["of_view"])


def test_a_dropped_function_is_an_error_until_it_is_there_again(fl: Freshlake) -> None:
    fl.sql("DROP FUNCTION rate_of")
    fl.sql("INSERT INTO s VALUES (30, 'a', 3)")
    with pytest.raises(SourceSchemaChanged, match="rate_of"):
        fl.refresh("looked_up")
    fl.sql("CREATE FUNCTION rate_of(k STRING) RETURNS INT RETURN (SELECT min(rate) FROM rates WHERE rates.g = k)")
    assert str(fl.refresh("looked_up").action) == "REINITIALIZE"
    check(fl, "looked_up", QUERIES["looked_up"])


def test_a_function_and_a_table_may_have_the_same_name(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE taxed (a INT) USING delta")
    fl.sql("INSERT INTO taxed VALUES (1)")
    assert [tuple(r) for r in fl.sql("SELECT a, taxed(a) FROM taxed").collect()] == [(1, 101)]
    fl.sql("DROP TABLE taxed")
    assert [row[0] for row in fl.sql("SELECT taxed(1)").collect()] == [101]


def test_temporary_functions_and_views_are_refused_by_name(fl: Freshlake, module: ModuleType) -> None:
    fl.sql("CREATE TEMPORARY FUNCTION brief(x INT) RETURNS INT RETURN x")
    fl.sql("CREATE TEMPORARY VIEW passing AS SELECT id FROM s")
    fl.spark.udf.register("by_python", lambda x: x, "int")
    fl.create_stream_table("uses_shout", "own_functions:by_name")
    for name, query in {
        "function brief": "SELECT brief(x) AS y FROM s",
        "function by_python": "SELECT by_python(x) AS y FROM s",
        "view passing": "SELECT id FROM passing",
    }.items():
        with pytest.raises(UnsupportedQuery, match=f"temporary {name}") as caught:
            fl.create_stream_table("never", query)
        assert (caught.value.construct, caught.value.detail) == (TEMPORARY.construct, TEMPORARY.reason)
    with refused(fl, InvalidQuery, "shout"):  # what another definition registered for itself
        fl.create_stream_table("never", "SELECT shout(g) AS g FROM s")


# Python functions ----------------------------------------------------------------------------------------------------

MODULE = """
from pyspark.sql import functions as F
from pyspark.sql.functions import ArrowUDFType, PandasUDFType, arrow_udf, pandas_udf, udf, udtf

BONUS = 1

def plain(spark):
    def grown(x):
        return None if x is None else x * 2 + BONUS

    score = udf(grown, "int")
    return spark.table("s").where(score("id") > 3).select("id", score("x").alias("y"))

def by_name(spark):
    spark.udf.register("shout", lambda g: None if g is None else g.upper(), "string")
    return spark.sql("SELECT shout(g) AS g, count(*) AS n, max(x) AS hi FROM s GROUP BY shout(g)")

def random(spark):
    dice = udf(lambda x: x, "int").asNondeterministic()
    return spark.table("s").select("id", dice("x").alias("y"))

def averaged(spark):
    @arrow_udf("double", ArrowUDFType.GROUPED_AGG)
    def middle(xs):
        values = sorted(x for x in xs.to_pylist() if x is not None)
        return float(values[len(values) // 2]) if values else -1.0

    return spark.table("s").groupBy("g").agg(middle("x").alias("m"))

def zoned(spark):
    @arrow_udf("string", ArrowUDFType.SCALAR)
    def zone(times):
        import pyarrow as pa
        return pa.array([str(times.type.tz)] * len(times), pa.string())

    return spark.table("s").select("id", zone(F.timestamp_seconds("id")).alias("zone"))

def several(spark):
    shared = spark.sparkContext.broadcast({"a": 1, "b": 2})
    large = bytes(1_100_000)  # Spark sends such a function another way
    first = udf(lambda x: x + 1, "int")
    second = udf(lambda x: x * 10, "int")
    known = udf(lambda g: shared.value.get(g), "int")
    length = udf(lambda x: x + len(large), "int")
    return spark.table("s").select(first("id"), second("id"), known("g"), length("id")).toDF("p", "q", "r", "t")

def of_table(spark):
    class Counted:
        def eval(self, x):
            yield (x,)

    spark.udtf.register("counted", udtf(Counted, returnType="n INT").asDeterministic())
    return spark.sql("SELECT s.id, c.n FROM s, LATERAL counted(s.x) AS c")
"""


@pytest.fixture(scope="module")
def module(played: Freshlake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "own_functions.py").write_text(MODULE, encoding="utf-8")
    sys.path.insert(0, str(folder))
    yield importlib.import_module("own_functions")
    sys.path.remove(str(folder))


def rewrite(module: ModuleType, old: str, new: str) -> None:
    """As another process would find the module after an edit."""
    path = Path(module.__file__ or "")
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    importlib.invalidate_caches()
    # not importlib.reload: a file that was written twice within a second looks the same to it
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))


def test_python_functions_are_maintained(fl: Freshlake, module: ModuleType) -> None:
    names = ("plain", "by_name", "averaged")
    for name in names:
        fl.create_stream_table(f"py_{name}", f"own_functions:{name}", refresh_mode="DIFFERENTIAL")
    for change in (
        "INSERT INTO s VALUES (11, 'a', 4), (12, NULL, 9)",
        "UPDATE s SET g = 'z', x = 1 WHERE id = 11",
        "DELETE FROM s WHERE id IN (11, 12)",
    ):
        fl.sql(change)
        for name in names:
            assert str(fl.refresh(f"py_{name}", mode="DIFFERENTIAL").action) == "DIFFERENTIAL", name
            assert_same_bag(fl.table(f"py_{name}"), getattr(module, name)(fl.spark))
    assert all(fl.verify(f"py_{name}").equal for name in names)


def test_a_python_function_sees_times_in_the_zone_of_its_table(fl: Freshlake, module: ModuleType) -> None:
    zone = "spark.sql.session.timeZone"
    before = fl.spark.conf.get(zone)
    fl.spark.conf.set(zone, "Asia/Tokyo")
    try:
        fl.create_stream_table("py_zoned", "own_functions:zoned", refresh_mode="DIFFERENTIAL")
    finally:
        fl.spark.conf.set(zone, str(before))
    fl.sql("INSERT INTO s VALUES (14, 'a', 4)")
    fl.refresh("py_zoned")
    assert {row["zone"] for row in fl.table("py_zoned").collect()} == {"Asia/Tokyo"}
    assert fl.verify("py_zoned").equal
    fl.sql("DELETE FROM s WHERE id = 14")
    fl.drop_stream_table("py_zoned")


def test_a_changed_python_function_rebuilds_and_is_named(fl: Freshlake, module: ModuleType) -> None:
    fl.refresh("py_plain")
    fl.refresh("py_by_name")
    rewrite(module, "from pyspark.sql import functions as F", "# moved\n\nfrom pyspark.sql import functions as F")
    assert str(fl.refresh("py_plain").action) == "NO_DATA"
    for old, new in (("x * 2", "x * 3"), ("BONUS = 1", "BONUS = 5")):
        rewrite(module, old, new)
        result = fl.refresh("py_plain")
        assert (str(result.action), result.reason) == ("REINITIALIZE", "definition-changed")
        assert result.detail == "Python function grown was changed"
        assert_same_bag(fl.table("py_plain"), module.plain(fl.spark))
    assert str(fl.refresh("py_by_name").action) == "NO_DATA"


@pytest.mark.parametrize(
    ("old", "new"),
    [("x + 1", "x + 2"), ("x * 10", "x * 20"), ('"b": 2', '"b": 3'), ("1_100_000", "1_100_001")],
    ids=["the first lambda", "the second lambda", "a broadcast variable", "a large function"],
)
def test_functions_of_one_name_are_told_apart(fl: Freshlake, module: ModuleType, old: str, new: str) -> None:
    if fl._engine.catalog.find(TableName("default", "py_several")) is None:
        fl.create_stream_table("py_several", "own_functions:several", refresh_mode="DIFFERENTIAL")
    assert str(fl.refresh("py_several").action) == "NO_DATA"
    rewrite(module, old, new)
    result = fl.refresh("py_several")
    assert (str(result.action), result.detail) == ("REINITIALIZE", "Python function <lambda> was changed")
    assert_same_bag(fl.table("py_several"), module.several(fl.spark))


def test_a_python_table_function_is_computed_in_full(fl: Freshlake, module: ModuleType) -> None:
    with refused(fl, NotDifferentiable, "counted is not deterministic"):
        fl.create_stream_table("py_table", "own_functions:of_table", refresh_mode="DIFFERENTIAL")
    fl.create_stream_table("py_table", "own_functions:of_table")
    assert_same_bag(fl.table("py_table"), module.of_table(fl.spark))
    rewrite(module, "yield (x,)", "yield (None if x is None else x + 1,)")
    result = fl.refresh("py_table")
    assert (str(result.action), result.detail) == ("REINITIALIZE", "Python function counted was changed")
    assert_same_bag(fl.table("py_table"), module.of_table(fl.spark))


def test_a_function_that_is_not_deterministic_is_computed_in_full(fl: Freshlake, module: ModuleType) -> None:
    with refused(fl, NotDifferentiable, "<lambda> is not deterministic"):
        fl.create_stream_table("py_random", "own_functions:random", refresh_mode="DIFFERENTIAL")
    fl.create_stream_table("py_random", "own_functions:random")
    fl.sql("INSERT INTO s VALUES (13, 'a', 4)")
    result = fl.refresh("py_random")
    assert (str(result.action), result.reason) == ("FULL", "not-differentiable")
    assert "<lambda> is not deterministic" in (result.detail or "")
    assert_same_bag(fl.table("py_random"), fl.sql("SELECT id, x AS y FROM s"))
    assert fl.verify("py_random").not_compared == ("id", "y")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrow_udf", *(["pandas_udf"] if importlib.util.find_spec("pandas") else [])])
def test_aggregate_functions_of_ones_own_recompute_their_groups(fl: Freshlake, module: ModuleType, kind: str) -> None:
    """With the extra `pandas` installed, functions over pandas series are tried as well."""
    if kind == "pandas_udf":
        rewrite(module, '@arrow_udf("double", ArrowUDFType', '@pandas_udf("double", PandasUDFType')
        rewrite(module, "xs.to_pylist()", "xs.dropna().tolist()")
    name = f"own_{kind}"
    fl.create_stream_table(name, "own_functions:averaged", refresh_mode="DIFFERENTIAL")
    assert "recompute" in str(fl.explain(name))
    fl.sql("UPDATE s SET g = 'y' WHERE id = 2")
    assert str(fl.refresh(name, mode="DIFFERENTIAL").action) == "DIFFERENTIAL"
    assert_same_bag(fl.table(name), module.averaged(fl.spark))
    rewrite(module, "else -1.0", "else -2.0")
    result = fl.refresh(name)
    assert (str(result.action), result.detail) == ("REINITIALIZE", "Python function middle was changed")
    rewrite(module, "else -2.0", "else -1.0")
