"""The mutations that every rule has: its change without the rows that come, and without those that go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from freshlake.compiler import plan as p
from freshlake.compiler.rules import JOINS, RULES, STORED
from freshlake.compiler.rules.rule import NodeRule, Rule
from tests.property.mutation import POSITIVE, Mutation, Patch

_NEGATIVE = p.text(f"{p.WEIGHT} < 0", p.WEIGHT)

_STORIES = {
    "left": "outer_joins",
    "full": "outer_joins",
    "inner": "inner_joins",
    "semi": "subqueries",
    "anti": "subqueries",
    "existence": "subqueries",
    "single": "subqueries",
    "aggregate": "aggregates",
    "expand": "aggregates",
    "stored": "aggregates",
    "window": "windows_and_top_k",
    "top": "windows_and_top_k",
    "set": "set_operations",
    "union": "set_operations",
    "recursion": "recursion",
    "generate": "generators",
}


def _keeps(table: dict[Any, Any], key: Any, rule: Rule | NodeRule, rows: p.Expr) -> list[Patch]:
    def delta(node: Any, view: Any) -> p.Plan | None:
        found = rule.delta(node, view)
        return found and p.Filter(found.columns, found, (rows,))

    return [mock.patch.dict(table, {key: replace(rule, delta=delta)})]


def _mutations() -> Iterator[Mutation]:
    tables: tuple[dict[Any, Any], ...] = (RULES, JOINS, STORED)
    for table in tables:
        for key, rule in table.items():
            story = _STORIES.get(rule.name.partition("_")[0], "filters_and_projections")
            for what, rows in (("rows that go", POSITIVE), ("rows that come", _NEGATIVE)):
                yield Mutation(f"{rule.name} loses {what}", partial(_keeps, table, key, rule, rows), story)


MUTATIONS_OF_EVERY_RULE = tuple(_mutations())
