"""Read our own Markdown: headings, fenced blocks, tables and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#+) (.+?)[ \t]*$", re.MULTILINE)
_TABLE_LINE = re.compile(r"^\|(.+)\|\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its fence, its text, and where it stands."""

    info: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Table:
    """The header and the rows of a table, cells as text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def pages() -> list[Path]:
    """Every page of the repository that people read."""
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def blocks(text: str) -> list[Block]:
    """The fenced blocks in order."""
    return [Block(found[1].strip(), found[2], found.start(), found.end()) for found in _FENCE.finditer(text)]


def prose(text: str) -> str:
    """The text without fenced blocks."""
    return _FENCE.sub("", text)


def links(text: str) -> list[str]:
    """The targets of all links."""
    return _LINK.findall(prose(text))


def anchors(text: str) -> set[str]:
    """What `#…` may point to, in the form that GitHub makes of headings."""
    found = set()
    for _, title in _HEADING.findall(prose(text)):
        slug = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-")
        found.add(slug)
    return found


def sections(text: str) -> dict[str, str]:
    """Heading (without backticks) to its text, down to the next heading of the same or a higher level."""
    marks = [(m.start(), m.end(), len(m[1]), m[2].replace("`", "")) for m in _HEADING.finditer(_blanked(text))]
    result = {}
    for i, (_, end, level, title) in enumerate(marks):
        later = (start for start, _, other, _ in marks[i + 1 :] if other <= level)
        result[title] = text[end : next(later, len(text))]
    return result


def tables(text: str) -> Iterator[tuple[str, Table]]:
    """Every table with the last line of text before it."""
    label, lines = "", []
    for line in [*prose(text).splitlines(), ""]:
        if _TABLE_LINE.match(line):
            lines.append(line)
            continue
        if lines:
            yield label, _table(lines)
            lines = []
        label = line.strip() or label


def _table(lines: list[str]) -> Table:
    cells = [tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in lines]
    return Table(cells[0], tuple(cells[2:]))


def _blanked(text: str) -> str:
    """The text with fenced blocks blanked out, so that positions stay and a comment in code is no heading."""
    return _FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
