"""The stream tables of the soak, read from `dag.txt`: a name, its schedule and options, then the query, indented.

A name with `{region}` stands for one table per region. The option `group` names a refresh group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCES = ("orders", "customers", "products", "returns")
REGIONS = ("north", "south", "east", "west")


@dataclass(frozen=True)
class Defined:
    """A stream table of the soak."""

    name: str
    query: str
    options: Mapping[str, str]
    group: str | None = None

    @property
    def kind(self) -> str:
        """What makes it due, in a word, for the figures."""
        schedule = self.options.get("schedule")
        if schedule is None:
            return "immediate"
        if " " in schedule:
            return "cron"
        if schedule.startswith("@"):
            return "alias"
        return schedule if schedule == "calculated" else self.options.get("tier", "duration")


def tables() -> list[Defined]:
    """Upstreams first."""
    text = (Path(__file__).parent / "dag.txt").read_text(encoding="utf-8")
    return [table for block in text.strip().split("\n\n") for table in _defined(*block.splitlines())]


def groups(defined: Iterable[Defined]) -> dict[str, list[str]]:
    """The refresh groups that are declared, with their members."""
    found: dict[str, list[str]] = {}
    for table in defined:
        if table.group is not None:
            found.setdefault(table.group, []).append(table.name)
    return found


def _defined(head: str, *query: str) -> list[Defined]:
    name, _, rest = head.partition(": ")
    words = rest.split(", ")
    options = dict(word.split("=") if "=" in word else ("schedule", word) for word in words)
    group = options.pop("group", None)
    text = " ".join(line.strip() for line in query)
    regions = REGIONS if "{region}" in name else ("",)
    return [Defined(name.format(region=r), text.replace("{region}", r), options, group) for r in regions]
