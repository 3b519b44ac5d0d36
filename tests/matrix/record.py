"""What was executed and found right, as a value: the only thing the page of the matrix is made from."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshlake.lake import Freshlake
from freshlake.refresh.result import RefreshResult
from tests.matrix.operators import OPERATORS, changes, name, places, query, story
from tests.scenarios.player import Player

FILE = Path(__file__).parents[2] / "docs" / "reference" / "support-matrix.json"
_EVERYWHERE = {"scan", "project", "stored_node"}

Record = dict[str, dict[str, dict[str, Any]]]
"""Operator → composition → query, strategy and cells: change → rows that came and went."""


@dataclass
class Played:
    player: Player
    strategies: dict[str, str] = field(default_factory=dict)

    def note(self, fl: Freshlake, stream_table: str) -> None:
        rules = dict.fromkeys(rule["rule"] for rule in fl.explain(stream_table).rules)
        own = [rule for rule in rules if rule not in _EVERYWHERE]
        self.strategies[stream_table] = ", ".join(own or rules)


def play(folder: Path, only: Collection[str] | None = None) -> Played:
    """Execute the stream tables of the matrix, or some of them by name."""
    played = Played(Player(story(), folder, only))
    played.player.on_created = played.note
    played.player.play()
    return played


def cell(played: Played, stream_table: str, change: str) -> str | None:
    """Rows that came and went, if the refresh was differential and the table equals its query; None if not.

    A change that leaves the rows as they were proves nothing: doing nothing would have passed.
    """
    result: RefreshResult | None = played.player.results.get((stream_table, change))
    if result is None or (stream_table, change) not in played.player.passed or str(result.action) != "DIFFERENTIAL":
        return None
    added, removed = played.player.changed[stream_table, change]
    return f"+{added} -{removed}" if added or removed else None


def record(played: Played) -> Record:
    """Only what passed."""
    made: Record = {operator.name: {} for operator in OPERATORS}
    for operator, composition in places():
        table = name(operator, composition)
        cells = {change: cell(played, table, change) for change in changes(operator, composition)}
        proven = {change: found for change, found in cells.items() if found is not None}
        if proven:
            made[operator.name][composition] = {
                "query": query(operator, composition),
                "strategy": played.strategies[table],
                "cells": proven,
            }
    return made


def read() -> Record:
    found: Record = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def write(made: Record) -> None:
    FILE.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
