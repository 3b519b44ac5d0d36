"""Words: one of a fixed set, read as a person writes it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from freshlake.errors import InvalidArgument

Word = TypeVar("Word", bound=StrEnum)


def word(kind: type[Word], text: str, what: str, older: Mapping[str, str] | None = None) -> Word:
    """A word of a set in any case, or an older one for it; raises InvalidArgument, which says what the text is not."""
    given = text.strip().lower()
    given = (older or {}).get(given, given)
    for known in kind:
        if known.lower() == given:
            return known
    raise InvalidArgument(f"'{text}' is not {what}", hint=f"use one of {', '.join(kind)}")
