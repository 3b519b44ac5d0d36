"""The faces of choosing: what is recorded, explained and replayed, what is refused, and what a person lets pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from freshlake.refresh.cost import Sample, Volume, Way
from freshlake.refresh.learned import _Experience
from tests.integration.lakes import NO_RULE, orders, refused, rows

PER_REGION = "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region"


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings={"cost_model_min_history": 5}) as lake:
        orders(lake)
        lake.sql("INSERT INTO orders SELECT id, concat('r', id % 7), 1 FROM range(100, 1100)")
        yield lake


def record(fl: Freshlake, name: str) -> Any:
    return fl._engine.catalog.get(f"default.{name}")


def jobs(fl: Freshlake) -> int:
    return int(fl.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def teach(fl: Freshlake, name: str, differential: float, full: float) -> None:
    """As if refreshes of all sizes had taken so many milliseconds."""
    learned, table = fl._engine.learned, record(fl, name)
    known = learned._experience(table, fl._engine.compiled(table))
    shape = tuple(f"{key}:INSERT_ONLY" for key in table.frontier["sources"])
    sizes = [Volume(n, 1_000, table.row_count, shape) for n in (1, 10, 100, 1_000) * 3]
    samples = [Sample(way, ms, v) for v in sizes for way, ms in ((Way.DIFFERENTIAL, differential), (Way.FULL, full))]
    learned._known[table.id] = _Experience(known.stamp, tuple(samples), len(samples))


def test_every_refresh_records_what_it_took_and_what_it_was_chosen_from(fl: Freshlake) -> None:
    fl.create_stream_table("t", PER_REGION)
    fl.sql("INSERT INTO orders VALUES (9, 'north', 1), (9, NULL, 1)")
    before = jobs(fl)
    choice = fl.explain_choice("t")
    assert jobs(fl) == before
    assert (choice.action, choice.by, choice.error, choice.changed_rows) == ("DIFFERENTIAL", "ratio", None, 2)
    assert choice.inputs["costs"]["full"]["basis"] == "derived"
    assert str(fl.refresh("t").action) == choice.action
    fl.sql("INSERT INTO orders VALUES (9, 'north', 1)")
    fl.refresh("t")
    fl.refresh("t", mode="FULL")
    fl.refresh("t")
    measured = [r.decision["measured"] for r in reversed(fl.history("t")) if r.decision]
    assert [(m["way"], m["changed_rows"], m.get("cold", False)) for m in measured] == [
        ("load", 0, True),
        ("differential", 2, True),
        ("differential", 1, False),
        ("full", 0, True),
    ]
    assert {m["complexity"] for m in measured} == {"aggregate"}
    assert all(
        0 < m["ms"] <= r.duration_ms + 1 for m, r in zip(measured, list(reversed(fl.history("t"))), strict=False)
    )
    assert [m["source_rows"] for m in measured] == [1_005, 1_007, 1_008, 1_008]
    assert fl.verify("t").equal


def test_the_cheaper_way_is_taken_and_every_decision_replays_to_itself(fl: Freshlake) -> None:
    fl.create_stream_table("learning", PER_REGION)
    for differential, full, action, reason in (
        (1_000, 100, "FULL", "cost-model"),
        (100, 1_000, "DIFFERENTIAL", None),
    ):
        fl.sql("INSERT INTO orders VALUES (10, 'north', 1)")
        teach(fl, "learning", differential, full)
        choice = fl.explain_choice("learning")
        assert (choice.action, choice.reason, choice.by) == (action, reason, "cost")
        assert (choice.differential_ms, choice.full_ms) == pytest.approx((differential, full), rel=0.01)
        result = fl.refresh("learning")
        assert (str(result.action), result.reason) == (action, reason)
        assert rows(fl, "learning") == rows(fl, PER_REGION)
    fl.alter_stream_table("learning", query=PER_REGION.replace("sum", "max"))
    past = [fl.replay_choices(name) for name in ("t", "learning")]
    assert [len(each) for each in past] == [4, 3]
    assert all(choice.same for each in past for choice in each)
    assert [c.reason for c in past[1]] == [None, "cost-model", "first-load"]


def test_what_is_learned_is_found_again_by_another_process(fl: Freshlake) -> None:
    table = record(fl, "t")
    compiled = fl._engine.compiled(table)
    known = fl._engine.learned._experience(table, compiled)
    with freshlake.connect(fl.path) as other:
        again = other._engine.learned._experience(record(other, "t"), compiled)
    assert (set(again.samples), again.refreshes) == (set(known.samples), known.refreshes)
    assert again.refreshes == 4


def test_a_recompute_that_is_forbidden_is_an_error_and_changes_nothing(fl: Freshlake) -> None:
    orders(fl, "source")
    query = "SELECT region, sum(100 DIV amount) AS parts FROM source GROUP BY region"
    fl.create_stream_table("bound", query, never_full=True)
    assert record(fl, "bound").never_full
    fl.sql("INSERT INTO source SELECT id, 'many', 1 FROM range(50)")
    result = fl.refresh("bound")
    assert (str(result.action), result.reason) == ("DIFFERENTIAL", "full-forbidden")
    assert "change-ratio-exceeded" in str(result.detail)
    fl.sql("INSERT INTO source VALUES (9, 'zero', 0)")
    with refused(fl, e.FullRefused, "never_full", "data-error"):
        fl.refresh("bound")
    fl.sql("CREATE OR REPLACE TABLE source (id BIGINT, region STRING, amount INT) USING delta")
    fl.sql("INSERT INTO source VALUES (1, 'new', 10)")
    fl.sql("DROP TABLE source")
    orders(fl, "source")
    choice = fl.explain_choice("bound")
    assert (choice.error, choice.action) == ("full-refused", "FULL")
    with refused(fl, e.FullRefused, "never_full", "source-replaced"):
        fl.refresh("bound")
    assert fl.history("bound")[0].error_code == "full-refused"
    fl.sql("ALTER STREAM TABLE bound SET (never_full = false, max_full_rows = 4)")
    with refused(fl, e.FullRefused, "max_full_rows is 4", "5", status="bound"):
        fl.refresh("bound")
    assert all(c.same for c in fl.replay_choices("bound"))
    assert str(fl.refresh("bound", mode="FULL").action) == "FULL"
    assert rows(fl, "bound") == rows(fl, query)


def test_a_fuse_stops_a_table_until_a_person_lets_one_refresh_pass(fl: Freshlake) -> None:
    orders(fl, "wild")
    fl.create_stream_table("fused", "SELECT id, amount FROM wild", fuse_rows=3)
    fl.create_stream_table("above", "SELECT count(*) AS n FROM fused")

    def insert(count: int) -> None:
        fl.sql(f"INSERT INTO wild SELECT id, 'x', 1 FROM range({count})")

    insert(3)
    assert str(fl.refresh("fused").action) == "FULL"
    insert(4)
    with refused(fl, e.FuseBlown, "4 rows changed", "fl.resume", status="fused"):
        fl.refresh("fused")
    assert (str(record(fl, "fused").status), record(fl, "fused").fuse_state) == ("ERROR", "blown")
    assert (fl.history("fused")[0].error_code, str(fl.history("fused")[0].status)) == ("fuse-blown", "FAILED")
    assert "fuse-blown" in {f.code for f in fl.health()}
    results = fl.refresh_all()
    assert {(r.table, r.error["code"]) for r in results if r.error} >= {
        ("default.fused", "fuse-blown"),
        ("default.above", "fuse-blown"),
    }
    skipped = {r.table: r.reason for r in results if str(r.action) == "SKIPPED"}
    assert skipped["default.fused"] == "fuse-blown"
    assert skipped["default.above"] == "upstream-failed"
    assert fl.explain_choice("fused").error == "fuse-blown"
    resumed = fl.resume("fused")
    assert (str(resumed.status), resumed.fuse_state) == ("ACTIVE", "passing")
    assert str(fl.refresh("above").action) == "FULL"
    assert (record(fl, "fused").fuse_state, rows(fl, "above")) == (None, rows(fl, "SELECT count(*) FROM wild"))
    insert(9)
    with refused(fl, e.FuseBlown, "9 rows changed", status="fused"):
        fl.refresh("fused")
    assert str(fl.refresh("fused", mode="DIFFERENTIAL").action) == "DIFFERENTIAL"
    assert (str(record(fl, "fused").status), record(fl, "fused").fuse_state) == ("ACTIVE", None)
    assert all(c.same for c in fl.replay_choices("fused"))
    insert(9)
    with refused(fl, e.FuseBlown, status="fused"):
        fl.refresh("fused")
    assert fl.alter_stream_table("fused", fuse_rows=0).fuse_state is None
    fl.refresh("above")
    assert fl.verify("above").equal


class Died(BaseException):
    """A process that ends."""


def test_a_refresh_that_dies_after_its_commit_point_has_used_up_what_was_let_pass(fl: Freshlake) -> None:
    orders(fl, "calm")
    fl.create_stream_table("passed", "SELECT id, amount FROM calm", fuse_rows=3, append_only=True)
    fl.sql("UPDATE calm SET amount = amount + 1")
    with refused(fl, e.FuseBlown, status="passed"):
        fl.refresh("passed")
    fl.resume("passed")

    def die(step: str) -> None:
        if step == "appended":
            raise Died

    fl._engine.observer = die
    with pytest.raises(Died):
        fl.refresh("passed")
    fl._engine.observer = None
    assert str(fl.refresh("passed").action) == "NO_DATA"
    assert (record(fl, "passed").fuse_state, record(fl, "passed").append_only) == (None, False)
    adopted = fl.history("passed")[1]
    assert (str(adopted.status), adopted.decision["fuse_state"]) == ("COMPLETED", "passing")
    assert all(c.same for c in fl.replay_choices("passed"))
    fl.sql("UPDATE calm SET amount = amount + 1")
    with refused(fl, e.FuseBlown, status="passed"):
        fl.refresh("passed")


def test_bounds_are_options_like_others(fl: Freshlake) -> None:
    fl.create_stream_table("bounds", PER_REGION)
    generation = record(fl, "bounds").generation
    for call in (
        lambda: fl.create_or_replace_stream_table(
            "bounds", PER_REGION, never_full=True, max_full_rows=10, fuse_rows=20
        ),
        lambda: fl.sql("ALTER STREAM TABLE bounds SET (never_full = true, max_full_rows = 10, fuse_rows = 20)"),
        lambda: fl.sql(
            "CREATE OR REPLACE STREAM TABLE bounds WITH (never_full = true, max_full_rows = 10, fuse_rows = 20) AS "
            + PER_REGION
        ),
    ):
        call()
        found = record(fl, "bounds")
        assert (found.never_full, found.max_full_rows, found.fuse_rows) == (True, 10, 20)
        fl.create_or_replace_stream_table("bounds", PER_REGION)
        found = record(fl, "bounds")
        assert (found.never_full, found.max_full_rows, found.fuse_rows) == (False, None, None)
    assert record(fl, "bounds").generation == generation
    for options in ({"max_full_rows": -1}, {"fuse_rows": "many"}, {"never_full": "perhaps"}, {"fuse_rows": True}):
        with pytest.raises(e.InvalidArgument, match=next(iter(options))):
            fl.alter_stream_table("bounds", **options)
    for call, subject in ((fl.alter_stream_table, {}), (fl.create_stream_table, {"query": PER_REGION})):
        with pytest.raises(e.InvalidArgument, match="never_full does not go together"):
            call("bounds" if not subject else "broken", **subject, never_full=True, refresh_mode="FULL")
    assert not record(fl, "bounds").never_full
    with refused(fl, e.NotDifferentiable):
        fl.create_stream_table("broken", NO_RULE, never_full=True)
    fl.alter_stream_table("bounds", status="SUSPENDED")
    assert fl.explain_choice("bounds").error == "stream-table-suspended"
