"""Run the Python and SQL blocks of a page in order, each with what it printed."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freshlake.cli.script import statements
from tests.docs.markdown import Block, blocks


@dataclass(frozen=True)
class Ran:
    """A block, what it printed, and the `text` block that follows it, which says what it should print."""

    block: Block
    printed: str
    expected: Block | None


def run(text: str, names: dict[str, Any], folder: Path) -> Iterator[Ran]:
    """Blocks share `names`, in which SQL finds `fl`; a Python block that begins with `# file: x` is written to x."""
    found = blocks(text)
    for block, following in zip(found, [*found[1:], None], strict=True):
        adjacent = following is not None and not text[block.end : following.start].strip()
        expected = following if following and adjacent and following.info == "text" else None
        if block.info == "python":
            yield Ran(block, _python(block.text, names, folder), expected)
        elif block.info == "sql":
            for statement in statements(block.text):
                names["fl"].sql(statement)
            yield Ran(block, "", None)


def _python(code: str, names: dict[str, Any], folder: Path) -> str:
    first, _, rest = code.partition("\n")
    if first.startswith("# file: "):
        (folder / first.removeprefix("# file: ")).write_text(rest, encoding="utf-8")
        return ""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<page>", "exec"), names)
    return printed.getvalue()
