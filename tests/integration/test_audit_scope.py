"""What an audit compares: samples of large tables, nothing that is open or gone, and all of it pinned."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.clock import ManualClock
from freshlake.lake import Freshlake
from freshlake.refresh.edges import graph
from freshlake.service.auditing import SCHEDULER
from freshlake.service.audits import AuditRecord
from tests.integration.damage import append_to_log, change_base
from tests.integration.lakes import ANY_SHARE, folder_of, rows

LIMIT = 1_000
QUERIES = {
    "per_customer": "SELECT customer, count(*) AS n, sum(amount) AS total FROM events GROUP BY customer",
    "flat": "SELECT id, customer, amount FROM events WHERE amount > 0",
    "grand": "SELECT count(*) AS n FROM events",
    "by_kind": "SELECT kind, max(amount) AS most FROM events GROUP BY kind",
    "sizes": "SELECT n, count(*) AS customers FROM "
    "(SELECT customer, count(*) AS n FROM events GROUP BY customer) GROUP BY n",
    "last": "SELECT customer, amount, rank() OVER (PARTITION BY customer ORDER BY id DESC) AS place FROM events",
}


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    settings = {**ANY_SHARE, "audit_max_rows": LIMIT, "log_retention_hours": 0}
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=settings, clock=ManualClock()) as lake:
        yield lake


@pytest.fixture(scope="module")
def events(fl: Freshlake) -> None:
    """6,000 rows in six files; NULL is a customer too."""
    fl.sql("CREATE TABLE events (id BIGINT, customer BIGINT, kind STRING, amount INT) USING delta")
    for part in range(6):
        fl.sql(
            f"INSERT INTO events SELECT id, if(id % 700 = 0, NULL, id % 700), concat('k', id % 2), int(id % 13) "
            f"FROM range({part * 1000}, {part * 1000 + 1000}, 1, 1)"
        )
    for name, query in QUERIES.items():
        fl.create_stream_table(name, query)


def sampled(fl: Freshlake, name: str) -> AuditRecord:
    """As the scheduler asks for it."""
    fl._audits.auditing.audit(fl._engine.catalog.get(f"default.{name}"), SCHEDULER, fl._engine.settings.audit_max_rows)
    return fl.audits(name, limit=1)[0]


WITHOUT_KEYS = ("grand", "by_kind")
"""Too large to be compared as a whole, and without a key of which some could be."""


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize(
    ("name", "scopes"),
    [
        ("per_customer", [("root", "sample", "customer"), ("query", "sample", "customer")]),
        ("flat", [("root", "sample", "id")]),
        ("grand", [("root", "none", None), ("query", "none", None)]),
        ("by_kind", [("root", "none", None), ("query", "none", None)]),
        ("sizes", [("n1", "sample", "c0"), ("root", "whole", None), ("query", "none", None)]),
        ("last", [("root", "sample", "customer")]),
    ],
)
def test_of_a_large_table_some_keys_are_compared_or_it_is_said_why_not(
    fl: Freshlake, name: str, scopes: list[tuple[str, str, str | None]]
) -> None:
    audit = sampled(fl, name)
    found = [(check["subject"], check["method"], check.get("column")) for check in audit.checks]
    assert found[: len(scopes)] == scopes
    assert str(audit.outcome) == ("NOT_VERIFIED" if {s[1] for s in scopes} == {"none"} else "EQUAL")
    for check in audit.checks:
        if check["method"] == "sample":
            assert 10 <= check["keys"] <= LIMIT
        if check["method"] == "none":
            assert f"audit_max_rows ({LIMIT})" in check["why"]


@pytest.mark.slow
@pytest.mark.usefixtures("events")
def test_a_sample_that_differs_leads_to_all_that_differs(fl: Freshlake) -> None:
    change_base(fl, "per_customer", "customer % 3 = 0", total="total + 1")
    audit = sampled(fl, "per_customer")
    assert (str(audit.outcome), audit.checks[0]["method"]) == ("REPAIRED", "sample")
    assert 0 < audit.missing < 230
    assert fl.history("per_customer", limit=1)[0].rows_inserted > 230
    assert rows(fl, "per_customer") == rows(fl, QUERIES["per_customer"])


@pytest.mark.slow
@pytest.mark.usefixtures("events")
def test_a_table_that_is_never_recomputed_by_itself_stays_in_quarantine_if_more_is_wrong(fl: Freshlake) -> None:
    fl.alter_stream_table("per_customer", never_full=True)
    change_base(fl, "per_customer", "customer % 3 = 1", total="total + 1")
    audit = sampled(fl, "per_customer")
    assert str(audit.outcome) == "UNREPAIRED"
    assert "full-refused" in (audit.detail or "")
    assert {s.name: str(s.status) for s in fl.status()}["per_customer"] == "QUARANTINED"
    assert fl.alerts(1, table="per_customer")[0].event == "repair_failed"
    candidates = fl._scheduler._sampler.choose(graph(fl._engine.catalog), fl._engine.clock.now())
    assert candidates is not None
    assert candidates.name != "default.per_customer", "it waits for a person"
    assert str(fl.repair("per_customer").outcome) == "REPAIRED"
    assert rows(fl, "per_customer") == rows(fl, QUERIES["per_customer"])
    fl.alter_stream_table("per_customer", never_full=False)


def test_rounding_and_open_values_are_no_mismatch_and_stay_when_others_are_put_right(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE measures (k INT, d DOUBLE, s STRING) USING delta")
    fl.sql("INSERT INTO measures SELECT id % 3, 1D / (id + 1), concat('s', id) FROM range(0, 200, 1, 4)")
    query = "SELECT k, sum(d) AS total, first(s) AS some, collect_list(s) AS list FROM measures GROUP BY k"
    fl.create_stream_table("open", query)
    # as another order of the rows would have given it
    change_base(fl, "open", "k < 2", total="total * (1 + 1e-14)", some="concat(some, '!')", list="reverse(list)")
    before = {r.k: r for r in fl.table("open").collect()}
    assert str(fl.audit("open").outcome) == "EQUAL"
    change_base(fl, "open", "k = 2", total="total * (1 + 1e-6)")
    assert str(fl.audit("open").outcome) == "REPAIRED"
    after = {r.k: r for r in fl.table("open").collect()}
    assert [after[k] for k in (0, 1)] == [before[k] for k in (0, 1)]
    assert fl.verify("open").equal


def test_a_source_without_its_history_is_no_mismatch(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE brief (a INT) USING delta")
    fl.sql("INSERT INTO brief VALUES (1), (2)")
    fl.create_stream_table("over_brief", "SELECT a, count(*) AS n FROM brief GROUP BY a")
    append_to_log(fl, "over_brief", "a = 1")
    fl.sql("INSERT OVERWRITE brief VALUES (3)")
    for file in folder_of(fl, "brief").glob("*.parquet"):
        if file.name not in str(fl.spark.table("brief").inputFiles()):
            file.unlink()
    audit = fl.audit("over_brief")
    assert str(audit.outcome) == "NOT_VERIFIED"
    assert (audit.detail or "").startswith("source-history-lost")
    assert str(fl.refresh("over_brief").reason) == "history-lost"
    assert str(fl.audit("over_brief").outcome) == "EQUAL"


@pytest.mark.slow
@pytest.mark.usefixtures("events")
def test_audits_beside_refreshes_and_folds_raise_no_alarm(fl: Freshlake) -> None:
    """What is compared is pinned, whatever others do to the table meanwhile."""
    fl.sql("CREATE TABLE live (k INT, v INT) USING delta")
    fl.sql("INSERT INTO live SELECT id % 5, id FROM range(50)")
    nested = "SELECT total, count(*) AS n FROM (SELECT k, sum(v) AS total FROM live GROUP BY k) GROUP BY total"
    fl.create_stream_table("busy", nested, fold_policy="always")
    stop, found = threading.Event(), []

    def audit() -> None:
        while not stop.is_set():
            found.append(str(fl.audit("busy").outcome))

    thread = threading.Thread(target=audit)
    thread.start()
    try:
        for turn in range(6):
            fl.sql(f"INSERT INTO live VALUES ({turn % 5}, {turn}), (NULL, {turn})")
            fl.sql(f"DELETE FROM live WHERE v = {turn + 7}")
            assert str(fl.refresh("busy").action) == "DIFFERENTIAL"
    finally:
        stop.set()
        thread.join()
    assert "EQUAL" in found
    assert set(found) <= {"EQUAL", "NOT_VERIFIED"}
    assert not fl.alerts(event="quarantined", table="busy")
    assert str(fl.audit("busy").outcome) == "EQUAL"


@pytest.mark.usefixtures("events")
def test_the_sampler_audits_one_table_per_interval_when_nothing_else_runs(fl: Freshlake) -> None:
    sampler, clock = fl._scheduler._sampler, fl._engine.clock
    assert isinstance(clock, ManualClock)
    known, interval = graph(fl._engine.catalog), fl._engine.settings.audit_interval_seconds

    def considered(seconds: float, *, is_idle: bool = True) -> bool:
        clock.advance(seconds)
        begun = sampler.consider(known, clock.now(), is_idle=is_idle)
        if begun:
            assert sampler._running is not None
            sampler._running.result(300)
        return begun

    assert not considered(0), "it was not started"
    sampler.start()
    before = len(fl.audits(limit=1000))
    assert not considered(0), "the first turn comes after the first interval"
    assert not considered(interval - 1)
    assert considered(20)
    assert not considered(interval / 2)
    assert not considered(interval, is_idle=False), "refreshes go first"
    assert considered(3 * interval, is_idle=False), "but not for ever"
    made = fl.audits(limit=1000)[: len(fl.audits(limit=1000)) - before]
    assert [a.asked_by for a in made] == ["scheduler"] * 2
    for audit in made:
        assert str(audit.outcome) == ("NOT_VERIFIED" if audit.table in WITHOUT_KEYS else "EQUAL")
    assert made[0].table != made[1].table
    fl._engine.settings = fl._engine.settings.model_copy(update={"audit_interval_seconds": 0})
    assert not considered(100 * interval), "0 means never"
    fl._engine.settings = fl._engine.settings.model_copy(update={"audit_interval_seconds": interval})
    assert sampler.stop()


def test_a_started_scheduler_finds_and_repairs_damage_by_itself(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = {**ANY_SHARE, "audit_interval_seconds": 1, "scheduler_interval_ms": 100}
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=settings) as fl:
        fl.sql("CREATE TABLE t (a INT) USING delta")
        fl.sql("INSERT INTO t VALUES (1), (1), (2)")
        fl.create_stream_table("copy", "SELECT a FROM t")
        change_base(fl, "copy", "a = 1")
        repaired = threading.Event()
        fl.on_alert(lambda alert: repaired.set(), events=["repaired"])
        fl.start_scheduler()
        assert repaired.wait(timedelta(minutes=5).total_seconds())
        assert fl.stop_scheduler()
        assert rows(fl, "copy") == rows(fl, "SELECT a FROM t")
        assert [str(a.outcome) for a in fl.audits("copy") if a.missing] == ["REPAIRED"]
