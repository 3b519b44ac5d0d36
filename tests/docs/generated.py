"""Tables of the documentation that are made from the code: `python -m tests.docs.generated` writes them anew."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator

from freshlake.alerts import EVENTS
from freshlake.compiler.aggregate_functions import FUNCTIONS, NO_AGGREGATES
from freshlake.sources.postgres.types import table_lines
from tests.docs.markdown import DOCS
from tests.integration.type_cases import KEYS, REFUSED

NOTES = {
    "FLOAT": "NaN equals NaN; as keys -0.0 and 0.0 are equal, as values they are kept apart",
    "DOUBLE": "as FLOAT",
    "DECIMAL": "every precision up to 38 digits; sums are exact",
    "CHAR": "padded with spaces, as Delta stores it",
    "TIMESTAMP": "microseconds",
    "TIMESTAMP_NTZ": "microseconds",
    "STRUCT": "a key if all of its fields can be one",
    "ARRAY": "a key if its elements can be one",
    "MAP": "two maps with the same entries are the same value, in any order",
    "VARIANT": "the same value if its bytes are; take a field out of it as a key: `v:a::int`",
    "INTERVAL": "store it as a number of seconds or months, or as text",
    "TIME": "store it as text",
    "VOID": "give the NULL a type: `CAST(NULL AS STRING)`",
    "STRING COLLATE …": "in the result: `collate(s, 'UTF8_BINARY')`; to group without case: `lower(s)`",
    "GEOMETRY": "store `st_asbinary(g)`",
    "GEOGRAPHY": "store `st_asbinary(g)`",
}


def aggregates() -> Iterator[str]:
    yield "| function | strategy | what SQL leaves open | note |"
    yield "|---|---|---|---|"
    rows = [(name, f.tier, f.open, f.note) for f in FUNCTIONS for name in f.names]
    rows += [(name, "", "", note) for name, note in NO_AGGREGATES.items()]
    for name, *cells in sorted(rows):
        yield f"| `{name}` | {' | '.join(map(str, cells))} |".replace("  ", " ")


def types() -> Iterator[str]:
    yield "| type | as a value | as a key | note |"
    yield "|---|---|---|---|"
    compared = dict.fromkeys(re.split(r"[(<]", kind)[0] for kind, _ in KEYS.values())
    for kind in compared:
        yield f"| `{kind}` | yes | yes | {NOTES.get(kind, '')} |".replace("  ", " ")
    for kind in ("MAP", "VARIANT"):
        yield f"| `{kind}` | yes | no | {NOTES[kind]} |"
    words = dict.fromkeys(re.split(r"[( ]", kind)[0].upper() for kind in REFUSED.values())
    for kind in (f"{word} COLLATE …" if word == "STRING" else word for word in words):
        yield f"| `{kind}` | inside a query | inside a query | {NOTES[kind]} |"


def events() -> Iterator[str]:
    yield "| event | level | sent when | payload |"
    yield "|---|---|---|---|"
    for event, described in EVENTS.items():
        level = logging.getLevelName(described.level)
        lasting = " (once, until it has ended)" if described.condition else ""
        payload = "; ".join(f"`{name}`: {meaning}" for name, meaning in described.payload.items())
        yield f"| `{event}` | {level} | {described.when}{lasting} | {payload} |"


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "reference/aggregates.md": aggregates,
    "reference/alerts.md": events,
    "reference/postgres-types.md": table_lines,
    "reference/types.md": types,
}
"""Page → the lines of its last section, which is a table."""


def with_table(text: str, lines: Iterator[str]) -> str:
    """The text with its last section replaced."""
    head, _, _ = text.rpartition("\n## ")
    title = text[len(head) :].lstrip("\n").partition("\n")[0]
    return f"{head}\n{title}\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    for page, lines in TABLES.items():
        path = DOCS / page
        path.write_text(with_table(path.read_text(encoding="utf-8"), lines()), encoding="utf-8")


if __name__ == "__main__":
    main()
