"""Where a Catalyst plan or expression stands in the text of the query; asked only when something is refused."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from freshlake.compiler.refusals import Position
from freshlake.errors import UserError


def place_of(node: Any, word: str | None = None) -> Position | None:
    """Line and column from 1; None for what is not written in the query itself: a view's text, a DataFrame.

    What stands in a view is then placed by the node around it, at the view's name.

    Spark often knows the clause, not the word: a `word` that comes once from there on is more exact.
    """
    origin = node.origin()
    if origin.line().isEmpty() or origin.startPosition().isEmpty() or origin.objectType().isDefined():
        return None
    line, column = origin.line().get(), origin.startPosition().get()
    if word and origin.sqlText().isDefined() and origin.startIndex().isDefined():
        text, start = origin.sqlText().get(), origin.startIndex().get()
        found = [m.start() for m in re.finditer(rf"\b{word}\b", text[start:], re.IGNORECASE)]
        if len(found) == 1:
            at = start + found[0]
            return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return int(line), int(column) + 1


def text_of(node: Any) -> str | None:
    """What a node was parsed from, also in the text of a view; None for what was not written as text."""
    origin = node.origin()
    parts = (origin.sqlText(), origin.startIndex(), origin.stopIndex())
    if any(part.isEmpty() for part in parts):
        return None
    text, start, stop = (part.get() for part in parts)
    return str(text)[start : stop + 1]


@contextlib.contextmanager
def located(node: Any) -> Iterator[None]:
    """A refusal inside the block says where, if it does not yet: the innermost node knows best."""
    try:
        yield
    except UserError as error:
        if error.position is None:
            error.position = place_of(node)
        raise
