"""The mutations fit the code as it is; `python -m tests.property.mutations` shows that each is noticed."""

from __future__ import annotations

import pytest

from freshlake.compiler.rules import JOINS, RULES, STORED
from tests.property.mutation import Mutation
from tests.property.mutations import MUTATIONS
from tests.property.noticing import SCENARIOS, applied


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_mutation_can_be_applied_and_leaves_nothing(mutation: Mutation) -> None:
    rules = [dict(table) for table in (RULES, JOINS, STORED)]
    with applied(mutation):
        pass
    assert rules == [RULES, JOINS, STORED]


def test_every_mutation_has_a_story_and_a_name_of_its_own() -> None:
    assert {mutation.story for mutation in MUTATIONS} <= {file.stem for file in SCENARIOS.glob("*.slt")}
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
