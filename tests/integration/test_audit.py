"""Audits of tables that were really damaged: found, quarantined, put right exactly, and told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from freshlake.refresh.audit import Stopped
from freshlake.refresh.edges import graph
from freshlake.service.auditing import SCHEDULER
from tests.integration.damage import append_to_log, change_base
from tests.integration.lakes import ANY_SHARE, orders, rows

QUERIES = {
    # keyless, with duplicates and NULLs
    "copy": "SELECT region, amount FROM orders",
    # a group whose key is NULL
    "per_region": "SELECT region, sum(amount) AS total, max(amount) AS most FROM orders GROUP BY region",
    # a global aggregate
    "total": "SELECT count(*) AS n, sum(amount) AS total FROM orders",
    # an internal node
    "spread": "SELECT total, count(*) AS regions FROM "
    "(SELECT region, sum(amount) AS total FROM orders GROUP BY region) GROUP BY total",
    # readers: of an aggregate, and of a reader
    "large": "SELECT region, total FROM per_region WHERE total > 1",
    "summary": "SELECT count(*) AS regions, sum(total) AS total FROM large",
}
Damage = Callable[[Freshlake], None]


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        for name, query in QUERIES.items():
            lake.create_stream_table(name, query)
        lake.sql("INSERT INTO orders VALUES (5, 'east', 3), (5, 'east', 3), (6, NULL, 2)")
        lake.refresh_all()
        yield lake


@pytest.fixture
def by_hand(fl: Freshlake) -> Iterator[None]:
    """Nothing is repaired unless a person asks for it."""
    before = fl._engine.settings
    fl._engine.settings = before.model_copy(update={"audit_repair": False})
    yield
    fl._engine.settings = before


def sound(fl: Freshlake) -> None:
    """Every table equals its query, as readers see it and as the catalog counts it."""
    for name, query in QUERIES.items():
        assert rows(fl, name) == rows(fl, query), name
    counts = {s.name: s.rows for s in fl.status()}
    assert counts == {name: rows(fl, query).total() for name, query in QUERIES.items()}


def versions(fl: Freshlake) -> dict[str, int]:
    return {s.name: s.version for s in fl.status()}


def told(fl: Freshlake, name: str, count: int) -> list[str]:
    return [str(alert.event) for alert in fl.alerts(count, table=name)]


def kinds(missing: int, unexpected: int) -> str:
    return {(True, False): "missing", (False, True): "unexpected"}.get((missing > 0, unexpected > 0), "both")


ROUNDS: list[dict[str, tuple[Damage, str]]] = [
    {
        # duplicates and NULLs, in a table without key
        "copy": (lambda fl: change_base(fl, "copy", "region IS NULL"), "missing"),
        # the group whose key is NULL
        "per_region": (lambda fl: change_base(fl, "per_region", "region IS NULL", total="total + 1"), "both"),
        "total": (lambda fl: append_to_log(fl, "total", "true", n="n + 1"), "unexpected"),
        # a wrong node below a right table
        "spread": (lambda fl: change_base(fl, "spread", "c0 = 'north'", node="n1", c1="c1 + 100"), "both"),
    },
    {
        "copy": (lambda fl: append_to_log(fl, "copy", "amount = 5", 2), "unexpected"),
        "per_region": (
            lambda fl: append_to_log(fl, "per_region", "region = 'south'", region="'nowhere'"),
            "unexpected",
        ),
        "total": (lambda fl: change_base(fl, "total", "true"), "missing"),
        "spread": (lambda fl: append_to_log(fl, "spread", "c0 IS NULL", node="n1"), "unexpected"),
    },
    {
        "copy": (lambda fl: append_to_log(fl, "copy", "region IS NULL", -1), "missing"),
        # state that nobody sees, and that the next refresh would build upon
        "per_region": (lambda fl: change_base(fl, "per_region", "region = 'north'", __fl_n="__fl_n + 1"), "both"),
        "total": (lambda fl: change_base(fl, "total", "true", total="NULL"), "both"),
        "spread": (lambda fl: change_base(fl, "spread", "true"), "missing"),
    },
]


@pytest.mark.parametrize(
    "number", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_damage_is_found_recorded_and_put_right_exactly(fl: Freshlake, number: int) -> None:
    for damage, _ in ROUNDS[number].values():
        damage(fl)
    for name, (_, kind) in ROUNDS[number].items():
        before = versions(fl)
        audit = fl.audit(name)
        assert (str(audit.outcome), kinds(audit.missing, audit.unexpected)) == ("REPAIRED", kind), name
        assert audit.evidence is not None
        assert {"frontier", "fingerprint", "nodes", "rows"} == set(audit.evidence)
        weights = [row["__fl_weight"] for rows in audit.evidence["rows"].values() for row in rows]
        assert {w > 0 for w in weights} == {"missing": {True}, "unexpected": {False}, "both": {True, False}}[kind]
        record = fl.history(name, limit=1)[0]
        assert (record.action, record.reason, record.refresh_id) == ("REPAIR", "audit-mismatch", audit.refresh_id)
        assert told(fl, name, 3) == ["repaired", "refresh_completed", "quarantined"]
        assert versions(fl) == {**before, name: before[name] + 1}
    fl.sql("INSERT INTO orders VALUES (7, 'north', 1), (7, NULL, 1)")
    fl.refresh_all()
    sound(fl)


def test_tables_without_damage_are_never_touched(fl: Freshlake) -> None:
    fl.refresh_all()
    before = (versions(fl), fl.alerts(1), [fl._engine.catalog.get(f"default.{n}").updated_at for n in QUERIES])
    for name in QUERIES:
        audit = fl.audit(name)
        assert (str(audit.outcome), audit.missing, audit.unexpected, audit.evidence) == ("EQUAL", 0, 0, None)
        assert {check["method"] for check in audit.checks} == {"whole"}
    after = (versions(fl), fl.alerts(1), [fl._engine.catalog.get(f"default.{n}").updated_at for n in QUERIES])
    assert after == before
    assert [a.table for a in fl.audits(limit=len(QUERIES))] == list(reversed(QUERIES))
    assert {a.table for a in fl.audits("spread")} == {"spread"}
    nodes = [check["subject"] for check in fl.audits("spread")[0].checks]
    assert nodes == ["n1", "root", "query"]


@pytest.mark.usefixtures("by_hand")
def test_in_quarantine_a_table_is_read_but_neither_refreshed_nor_followed(fl: Freshlake) -> None:
    append_to_log(fl, "per_region", "region = 'south'", region="'nowhere'", total="50")
    fl.refresh("large")  # takes the wrong row over
    assert ("nowhere",) in {(r.region,) for r in fl.table("large").collect()}
    audit = fl.audit("per_region")
    assert (str(audit.outcome), audit.refresh_id) == ("MISMATCH", None)
    alert = fl.alerts(1, table="per_region")[0]
    assert (alert.event, alert.payload["readers"]) == ("quarantined", ["large"])
    assert {s.name: str(s.status) for s in fl.status()}["per_region"] == "QUARANTINED"
    assert [f.code for f in fl.health() if f.name == "per_region"] == ["stream-table-quarantined"]
    assert fl.table("per_region").where("region = 'nowhere'").count() == 1

    fl.sql("INSERT INTO orders VALUES (8, 'west', 4)")
    before = rows(fl, "large")
    with pytest.raises(e.StreamTableQuarantined, match="per_region"):
        fl.refresh("per_region")
    held = fl.refresh("large")
    assert (str(held.action), held.reason, held.detail) == ("SKIPPED", "upstream-quarantined", "per_region")
    done = fl.refresh_all()
    assert not [r.table for r in done if r.error]
    results = {r.table: (str(r.action), r.reason) for r in done}
    assert results["default.per_region"] == ("SKIPPED", "quarantined")
    assert results["default.large"] == ("SKIPPED", "upstream-quarantined")
    assert results["default.copy"] == ("DIFFERENTIAL", None)
    assert rows(fl, "large") == before
    with pytest.raises(e.StreamTableQuarantined, match="per_region"):
        fl.create_stream_table("late", "SELECT region FROM per_region")
    assert fl.explain_choice("per_region").error == "stream-table-quarantined"

    repaired = fl.repair("per_region")
    assert (str(repaired.outcome), repaired.audit_id) == ("REPAIRED", audit.audit_id)
    assert {s.name: str(s.status) for s in fl.status()}["per_region"] == "ACTIVE"
    assert [(r.table, str(r.action)) for r in fl.refresh_all() if r.table == "default.large"] == [
        ("default.large", "DIFFERENTIAL")
    ]
    sound(fl)


def test_a_reader_that_had_read_the_right_rows_is_rebuilt_and_not_given_them_twice(fl: Freshlake) -> None:
    """The log never said that the rows went, so adding them again would double them in the reader."""
    fl.refresh_all()
    change_base(fl, "per_region", "region = 'north'")
    assert str(fl.audit("per_region").outcome) == "REPAIRED"
    alert = fl.alerts(1, event="repaired", table="per_region")[0]
    assert alert.payload["rebuilt_readers"] == ["large"]
    actions = {r.table: str(r.action) for r in fl.refresh_all()}
    assert (actions["default.large"], actions["default.summary"]) == ("REINITIALIZE", "FULL")
    sound(fl)


@pytest.mark.slow
def test_what_a_reader_shows_is_looked_for_above_it_first(fl: Freshlake) -> None:
    fl.refresh_all()
    change_base(fl, "per_region", "region = 'south'", total="total + 5")
    audit = fl.audit("large")
    assert str(audit.outcome) == "NOT_VERIFIED"
    assert "per_region" in (audit.detail or "")
    assert str(fl.audits("per_region", limit=1)[0].outcome) == "REPAIRED"
    fl.refresh_all()
    sound(fl)


@pytest.mark.slow
def test_some_keys_can_be_chosen(fl: Freshlake) -> None:
    change_base(fl, "per_region", "region = 'north'", most="most + 1")
    other = fl.audit("per_region", keys={"region": ["south", None]})
    assert (str(other.outcome), other.checks[0]["keys"]) == ("EQUAL", 2)
    assert str(fl.audit("per_region", keys={"Region": ["north"]}).outcome) == "REPAIRED"
    fl.refresh_all()
    sound(fl)
    for wrong in ({}, {"nothing": [1]}, {"total": ["x"]}, {"region": "north"}, {"region": ["a"], "total": [1]}):
        with pytest.raises(e.InvalidArgument):
            fl.audit("per_region", keys=wrong)


@pytest.mark.slow
def test_a_person_can_let_a_wrong_table_go_on(fl: Freshlake, by_hand: None) -> None:
    append_to_log(fl, "copy", "amount = 7")
    fl.audit("copy")
    fl.resume("copy")
    assert fl.alerts(1, table="copy")[0].payload["previous_status"] == "QUARANTINED"
    assert str(fl.refresh("copy").action) in ("NO_DATA", "DIFFERENTIAL")
    assert not fl.verify("copy").equal
    assert str(fl.repair("copy").outcome) == "REPAIRED"
    assert str(fl.repair("copy").outcome) == "EQUAL"
    sound(fl)


@pytest.mark.slow
def test_storage_that_cannot_be_read_is_rebuilt(fl: Freshlake) -> None:
    """A base without a row that the log removes: every read of it fails."""
    fl.fold("total")
    fl.sql("INSERT INTO orders VALUES (9, 'south', 1)")
    fl.refresh("total")
    change_base(fl, "total", "true", folded=False)
    with pytest.raises(Exception, match="negative number of copies"):
        fl.table("total").collect()
    audit = fl.audit("total")
    assert str(audit.outcome) == "REPAIRED"
    fl.refresh_all()
    sound(fl)


class Died(BaseException):
    """A process that ends."""


def test_a_repair_that_dies_after_its_commit_point_is_finished_by_the_next_one(fl: Freshlake) -> None:
    fl.refresh_all()
    append_to_log(fl, "copy", "amount = 5")
    before = versions(fl)["copy"]

    def die(step: str) -> None:
        if step == "appended":
            raise Died

    fl._engine.observer = die
    with pytest.raises(Died):
        fl.audit("copy")
    fl._engine.observer = None
    assert {s.name: str(s.status) for s in fl.status()}["copy"] == "QUARANTINED"
    chosen = fl._scheduler._sampler.choose(graph(fl._engine.catalog), fl._engine.clock.now())
    assert chosen is not None
    assert (chosen.name, chosen.is_unrepaired) == ("default.copy", True)
    assert str(fl.repair("copy").outcome) == "REPAIRED"
    assert versions(fl)["copy"] == before + 1
    sound(fl)


def test_an_audit_that_is_stopped_ends_before_its_next_comparison(fl: Freshlake) -> None:
    known, steps = fl.audits(), iter([False, True])
    auditing = replace(fl._audits.auditing, stopped=lambda: next(steps))
    with pytest.raises(Stopped):
        auditing.audit(fl._engine.catalog.get("spread"), SCHEDULER)
    assert next(steps, None) is None, "one comparison was made"
    assert fl.audits() == known


def test_the_statements_and_records_agree(fl: Freshlake) -> None:
    fl.sql("AUDIT STREAM TABLE copy")
    shown = fl.sql("SHOW STREAM TABLE AUDITS copy")
    newest = fl.audits("copy", limit=1)[0]
    first = shown.first()
    assert first is not None
    assert (first["audit_id"], first["outcome"]) == (newest.audit_id, "EQUAL")
    assert fl.sql("SHOW STREAM TABLE AUDITS").count() == len(fl.audits())
    repaired: Any = fl.sql("REPAIR STREAM TABLE copy").first()
    assert repaired["outcome"] == "EQUAL"
