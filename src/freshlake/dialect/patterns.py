"""PostgreSQL's regular expressions and SIMILAR TO patterns as Java's, which Spark uses.

Only constructs that mean the same in both are passed on; whether a text matches never depends on how greedy a part is.
"""

from __future__ import annotations

_CLASSES = {"d": "0-9", "w": r"\p{IsAlphabetic}\p{IsDigit}_", "s": r" \t\n\x0B\f\r"}
_LITERAL = frozenset("!\"#%&',-/:;<=>@_`~ ")
_META = frozenset(".^$*+?()[]{}|\\")


class UnknownPattern(Exception):
    """The pattern has a part without a proven counterpart."""


def of_regex(pattern: str, ignore_case: bool) -> str:
    """`.` matches a line end, and `$` only the very end, as in PostgreSQL."""
    if pattern.startswith(("***", "(?")) and not pattern.startswith("(?:"):
        raise UnknownPattern("an embedded option")
    body = "".join(_regex_parts(pattern))
    return f"(?s{'iu' if ignore_case else ''}){body}"


def _regex_parts(pattern: str) -> list[str]:
    parts: list[str] = []
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            part, i = _escape(pattern, i)
        elif c == "[":
            part, i = _bracket(pattern, i)
        elif c == "{":
            part, i = _bound(pattern, i)
        elif c == "(" and pattern.startswith("(?", i) and not pattern.startswith("(?:", i):
            raise UnknownPattern("a look-around")
        elif c == "$":
            part, i = r"\z", i + 1
        elif c == "+" and parts and i and pattern[i - 1] in "*+?}":
            raise UnknownPattern("a possessive quantifier")
        else:
            part, i = c, i + 1
        parts.append(part)
    return parts


def _escape(pattern: str, at: int) -> tuple[str, int]:
    if at + 1 >= len(pattern):
        raise UnknownPattern("a trailing backslash")
    c = pattern[at + 1]
    if c in _CLASSES:
        return f"[{_CLASSES[c]}]", at + 2
    if c.lower() in _CLASSES:
        return f"[^{_CLASSES[c.lower()]}]", at + 2
    if c in _META or c in _LITERAL:
        return f"\\{c}", at + 2
    if c in "tnrf":
        return f"\\{c}", at + 2
    raise UnknownPattern(f"the escape \\{c}")


def _bracket(pattern: str, at: int) -> tuple[str, int]:
    i = at + 1
    negated = pattern.startswith("^", i)
    i += negated
    items: list[str] = []
    first = True
    while True:
        if i >= len(pattern):
            raise UnknownPattern("an unclosed bracket")
        c = pattern[i]
        if c == "]" and not first:
            return f"[{'^' if negated else ''}{''.join(items)}]", i + 1
        first = False
        if c == "[" and pattern[i + 1 : i + 2] in (":", ".", "="):
            raise UnknownPattern("a character class such as [:alpha:]")
        if c == "\\":
            escape = pattern[i + 1 : i + 2]
            if escape in _CLASSES:
                items.append(_CLASSES[escape])
            elif escape in _META or escape in _LITERAL or escape in "tnrf":
                items.append(f"\\{escape}")
            else:
                raise UnknownPattern(f"the escape \\{escape} in brackets")
            i += 2
            continue
        items.append(f"\\{c}" if c in "[]&^~" else c)
        i += 1


def _bound(pattern: str, at: int) -> tuple[str, int]:
    end = pattern.find("}", at)
    inner = pattern[at + 1 : end] if end > 0 else ""
    low, _, high = inner.partition(",")
    if not low.isdigit() or (high and not high.isdigit()):
        raise UnknownPattern("a brace that is no repetition")
    return pattern[at : end + 1], end + 1


def of_similar(pattern: str) -> str:
    """SQL's own patterns match the whole text; % and _ are the wildcards, and a point is a point."""
    parts: list[str] = []
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            if i + 1 >= len(pattern):
                raise UnknownPattern("a trailing backslash")
            parts.append(_quoted(pattern[i + 1]))
            i += 2
            continue
        if c == "[":
            part, i = _bracket(pattern, i)
            parts.append(part)
            continue
        if c == "{":
            part, i = _bound(pattern, i)
            parts.append(part)
            continue
        wild = {"%": ".*", "_": "."}
        parts.append(wild.get(c) or (c if c in "|*+?()" else _quoted(c)))
        i += 1
    body = "".join(parts)
    if "(?" in body or "++" in body or "*+" in body or "?+" in body:
        raise UnknownPattern("two quantifiers in a row")
    return rf"(?s)\A(?:{body})\z"


def _quoted(c: str) -> str:
    return f"\\{c}" if c in _META else c
