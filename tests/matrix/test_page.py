"""The page of the support matrix claims what was executed and passed, and nothing else."""

from __future__ import annotations

import copy
from pathlib import Path

from freshlake.catalog.enums import Action
from freshlake.compiler.rules import JOINS, RULES, STORED
from freshlake.refresh.result import RefreshResult
from tests.matrix import operators, page, record
from tests.matrix.operators import COMPOSITIONS, OPERATORS, changes, places, proof, query
from tests.matrix.test_matrix import cells
from tests.scenarios.player import Player

TESTS = {str(case.id) for case in cells()}  # type: ignore[attr-defined]


def shown() -> str:
    return page.FILE.read_text(encoding="utf-8")


def test_the_page_is_made_from_the_record() -> None:
    assert shown() == page.render(record.read()), "run `make matrix`"


def test_every_claim_names_a_test_and_every_cell_is_proven() -> None:
    assert set(page.claims(shown())) == TESTS
    assert len(page.claims(shown())) == len(TESTS)
    assert "not proven" not in shown().partition("## ")[2]


def test_the_record_is_of_the_queries_as_they_are_now() -> None:
    recorded = record.read()
    assert list(recorded) == [operator.name for operator in OPERATORS]
    for operator, composition in places():
        place = recorded[operator.name][composition]
        assert place["query"] == query(operator, composition), "run `make matrix`"
        assert list(place["cells"]) == list(changes(operator, composition)), "run `make matrix`"


def test_every_rule_is_in_the_matrix() -> None:
    rules = {rule.name for rule in (*RULES.values(), *JOINS.values(), *STORED.values())} - {"stored_node"}
    assert rules <= {operator.page for operator in OPERATORS}
    strategies = " ".join(p["strategy"] for found in record.read().values() for p in found.values())
    assert sorted(rule for rule in rules - {"scan", "project"} if rule not in strategies) == []


def test_a_refresh_that_failed_or_was_full_proves_nothing() -> None:
    player = Player(operators.story(), Path("unused"))
    played = record.Played(player, {"filter_alone": "filter"})
    for change, action in (("insert", Action.DIFFERENTIAL), ("delete", Action.FULL), ("update", Action.DIFFERENTIAL)):
        player.results["filter_alone", change] = RefreshResult("filter_alone", action, None, 1, 2, 0.0, {}, 1)
        player.changed["filter_alone", change] = (1, 2)
    player.passed |= {("filter_alone", "insert"), ("filter_alone", "delete")}
    assert record.record(played)["filter"]["alone"]["cells"] == {"insert": "+1 -2"}


def test_a_refresh_that_changed_no_row_proves_nothing() -> None:
    player = Player(operators.story(), Path("unused"))
    played = record.Played(player, {"filter_alone": "filter"})
    player.results["filter_alone", "insert"] = RefreshResult(
        "filter_alone", Action.DIFFERENTIAL, None, 0, 0, 0.0, {}, 1
    )
    player.changed["filter_alone", "insert"] = (0, 0)
    player.passed.add(("filter_alone", "insert"))
    assert record.record(played)["filter"] == {}


def test_a_cell_that_did_not_pass_is_not_claimed() -> None:
    recorded = record.read()
    for operator in OPERATORS:
        for composition in COMPOSITIONS:
            missing = copy.deepcopy(recorded)
            del missing[operator.name][composition]["cells"]["delete"]
            without = page.render(missing)
            assert proof(operator, composition, "delete") not in page.claims(without)
            assert "| not proven |" in without
