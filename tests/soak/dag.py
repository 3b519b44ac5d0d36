"""The stream tables of the soak, read from `dag.txt`: a name and its schedule, then the query, indented.

A name with `{region}` stands for one table per region.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCES = ("orders", "customers", "products", "returns")
REGIONS = ("north", "south", "east", "west")


@dataclass(frozen=True)
class Defined:
    """A stream table of the soak."""

    name: str
    query: str
    schedule: str


def tables() -> list[Defined]:
    """Upstreams first."""
    text = (Path(__file__).parent / "dag.txt").read_text(encoding="utf-8")
    found: list[Defined] = []
    for block in text.strip().split("\n\n"):
        head, *query = block.splitlines()
        name, schedule = head.split(maxsplit=1)
        whole = " ".join(line.strip() for line in query)
        regions = REGIONS if "{region}" in name else ("",)
        found += [Defined(name.format(region=r), whole.replace("{region}", r), schedule) for r in regions]
    return found
