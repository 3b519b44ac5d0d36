"""Views and functions that a query uses: digests of what they are, so that a rebuild can say which of them changed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from freshlake.catalog.records import RegisteredTable


def texts_used(text: str, known: Iterable[RegisteredTable]) -> dict[str, str]:
    """The views and functions of the lake that a text mentions, directly or through others.

    A word may be a column of the same name: then a view is named that the query does not read, and nothing else.
    """
    texts = [entry for entry in known if entry.has_text]
    words, waiting = set(), {text}
    found: dict[str, str] = {}
    while waiting:
        words |= set(re.findall(r"\w+", waiting.pop().lower()))
        for entry in texts:
            name = f"{entry.kind.lower()} {entry.word}"
            if entry.word in words and name not in found:
                found[name] = hashlib.sha256((entry.view_text or "").encode()).hexdigest()[:16]
                waiting.add(entry.view_text or "")
    return found


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """What is in both and is not the same any more, as a person would say it."""
    return tuple(f"{name} was changed" for name, code in after.items() if before.get(name, code) != code)
