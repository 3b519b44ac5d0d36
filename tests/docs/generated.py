"""Tables of the documentation that are made from the code: `python -m tests.docs.generated` writes them anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from freshlake.compiler.aggregate_functions import FUNCTIONS, NO_AGGREGATES
from tests.docs.markdown import DOCS


def aggregates() -> Iterator[str]:
    yield "| function | strategy | what SQL leaves open | note |"
    yield "|---|---|---|---|"
    rows = [(name, f.tier, f.open, f.note) for f in FUNCTIONS for name in f.names]
    rows += [(name, "", "", note) for name, note in NO_AGGREGATES.items()]
    for name, *cells in sorted(rows):
        yield f"| `{name}` | {' | '.join(map(str, cells))} |".replace("  ", " ")


TABLES: dict[str, Callable[[], Iterator[str]]] = {"reference/aggregates.md": aggregates}
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
