"""What to measure: `--quick`, `--full`, or any part of the grid."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cases import CASES, Case

_UNITS = {"k": 1_000, "m": 1_000_000}


@dataclass(frozen=True)
class Amount:
    """Changed rows: a number, or a share of the table."""

    text: str

    def of(self, rows: int) -> int:
        if self.text.endswith("%"):
            return int(rows * float(self.text[:-1]) / 100)
        return count(self.text)

    @property
    def label(self) -> str:
        return self.text if self.text.endswith("%") else f"{count(self.text):,}"


@dataclass(frozen=True)
class Options:
    rows: tuple[int, ...]
    changes: tuple[Amount, ...]
    cases: tuple[Case, ...]
    rounds: int
    """How often a refresh and an append are measured per cell."""
    heavy_rounds: int
    """How often a recompute and a MERGE are; they are slow, and steadier for it."""
    quiet_sources: tuple[int, ...]
    """Sources of one stream table that is refreshed when nothing changed."""
    quiet_tables: tuple[int, ...]
    """Stream tables that are refreshed together when nothing changed."""
    json: Path | None
    folder: Path | None


_QUICK = {"rows": "100k,1m", "changes": "1000", "rounds": 5, "heavy": 2, "tables": "1,10"}
_FULL = {"rows": "100k,1m,10m", "changes": "100,1000,1%,10%,50%", "rounds": 5, "heavy": 3, "tables": "1,10,100"}


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; an unknown case or number is reported with what is allowed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure refreshes against their alternatives."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a few cells, in under ten minutes (default)")
    size.add_argument("--full", action="store_true", help="the whole grid; takes hours with 10 million rows")
    parser.add_argument("--rows", type=_counts, help="source rows, for example 100k,1m,10m")
    parser.add_argument("--changes", type=amounts, help="changed rows, for example 100,1000,1%%,10%%,50%%")
    parser.add_argument("--only", type=cases, help=f"cases among {', '.join(c.name for c in CASES)}, or no_data")
    parser.add_argument("--rounds", type=int, help="measured rounds per cell")
    parser.add_argument("--heavy-rounds", type=int, help="measured rounds with recompute and MERGE")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    parser.add_argument("--folder", type=Path, help="where the lake is made and left; a temporary folder otherwise")
    given = parser.parse_args(arguments)
    default = _FULL if given.full else _QUICK
    rounds = given.rounds or int(str(default["rounds"]))
    return Options(
        rows=given.rows or _counts(str(default["rows"])),
        changes=given.changes or amounts(str(default["changes"])),
        cases=CASES if given.only is None else given.only,
        rounds=rounds,
        heavy_rounds=min(rounds, given.heavy_rounds or int(str(default["heavy"]))),
        quiet_sources=(1, 10, 100),
        quiet_tables=_counts(str(default["tables"])),
        json=given.json,
        folder=given.folder,
    )


def count(text: str) -> int:
    """A number such as 1000, 100k or 10m."""
    plain = text.strip().lower().replace("_", "").replace(",", "")
    if plain and plain[-1] in _UNITS:
        return int(float(plain[:-1]) * _UNITS[plain[-1]])
    return int(plain)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({count(part) for part in text.split(",")}))


def amounts(text: str) -> tuple[Amount, ...]:
    """Sizes of a change, smallest first."""
    found = (Amount(part.strip()) for part in text.split(","))
    return tuple(sorted(found, key=lambda amount: amount.of(1_000_000)))


def cases(text: str) -> tuple[Case, ...]:
    """Cases by their names."""
    names = [name.strip() for name in text.split(",")]
    known = {case.name: case for case in CASES}
    unknown = [name for name in names if name not in known and name != "no_data"]
    if unknown:
        raise argparse.ArgumentTypeError(f"no case {', '.join(unknown)}; there are {', '.join(known)} and no_data")
    return tuple(known[name] for name in names if name in known)
