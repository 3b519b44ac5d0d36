"""The page of the support matrix, from the record of an execution alone: the same record gives the same page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.matrix.operators import CHANGES, COMPOSITIONS, OPERATORS, Operator, changes, proof
from tests.matrix.record import Record

FILE = Path(__file__).parents[2] / "docs" / "reference" / "support-matrix.md"
_PROOF = re.compile(r"`(\w+-\w+-\w+)`")

_HEAD = """# Support matrix

Which changes each operator follows differentially, alone and combined. This page is written by `make matrix` from an
execution of every cell, and is never edited by hand: what did not pass is not on it.

Each cell is one refresh of one stream table, in mode DIFFERENTIAL, after which the table equalled its query as plain
Spark computes it, with duplicates and NULLs. `+2 -1` are the rows that came and went; every cell has some. The name
beside it is the test that proves it:

```
.venv/bin/python -m pytest tests/matrix -k left_join-alone-insert
```

| change | what happens between two refreshes |
|---|---|
| insert | rows come to the left or only input, with new and known keys, NULLs and copies |
| delete | rows go from it, some as the last of their key |
| update | rows of it move to another key and change their value |
| both sides | rows come, go and change in both inputs at once; with one input, only where it is joined |

| composition | the operator … |
|---|---|
| alone | is the whole query |
| under a join | is joined with a table |
| under an aggregate | is grouped and summed |
| over an aggregate | reads groups instead of a table |

The strategy names the [rules](../operators/README.md) that the program of the stream table applies. Edge cases beyond
this grid are in `tests/scenarios`.
"""


def render(record: Record) -> str:
    cells = sum(len(place["cells"]) for places in record.values() for place in places.values())
    lines = [_HEAD, f"{len(record)} operators, {cells} cells.", ""]
    for operator in OPERATORS:
        lines += _operator(operator, record.get(operator.name, {}))
    return "\n".join(lines).rstrip() + "\n"


def claims(page: str) -> list[str]:
    """The tests that a page names."""
    return _PROOF.findall(page)


def _operator(operator: Operator, places: dict[str, dict[str, object]]) -> Iterator[str]:
    yield from (f"## {operator.name}", "", f"[{operator.page}](../operators/{operator.page}.md)", "")
    if "alone" in places:
        yield from ("```sql", str(places["alone"]["query"]), "```", "")
    yield f"| composition | {' | '.join(_words(c) for c in CHANGES)} | strategy |"
    yield "|---" * (len(CHANGES) + 2) + "|"
    for composition in COMPOSITIONS:
        if composition in places:
            place = places[composition]
            shown = " | ".join(_cell(operator, composition, change, place) for change in CHANGES)
            yield f"| {_words(composition)} | {shown} | {place['strategy']} |"
    yield ""


def _cell(operator: Operator, composition: str, change: str, place: dict[str, object]) -> str:
    cells = place["cells"]
    assert isinstance(cells, dict)
    if change in cells:
        return f"{cells[change]} `{proof(operator, composition, change)}`"
    return "not proven" if change in changes(operator, composition) else "one input"


def _words(name: str) -> str:
    return name.replace("_", " ")
