"""Array literals of PostgreSQL: `{1,NULL,"a \\"b\\""}` to the texts of their elements."""

from __future__ import annotations


class MalformedArray(ValueError):
    """Not a literal, or an array that a list cannot hold: several dimensions, or bounds that do not begin at 1."""


def elements(literal: str, delimiter: str = ",") -> list[str | None]:
    """The text forms of the elements of a one-dimensional array; an unquoted NULL is None."""
    if not (literal.startswith("{") and literal.endswith("}")) or len(literal) < 2:
        raise MalformedArray(literal[:20])
    body = literal[1:-1]
    if not body:
        return []
    if '"' not in body and "\\" not in body:
        if "{" in body:
            raise MalformedArray("several dimensions")
        return [None if part == "NULL" else part for part in body.split(delimiter)]
    return _quoted(body, delimiter)


def _quoted(body: str, delimiter: str) -> list[str | None]:
    found: list[str | None] = []
    at = 0
    while True:
        if body[at : at + 1] == '"':
            text, at = _until_quote(body, at + 1)
            found.append(text)
        else:
            end = body.find(delimiter, at)
            part = body[at:] if end < 0 else body[at:end]
            if "{" in part or '"' in part or "\\" in part:
                raise MalformedArray("several dimensions")
            found.append(None if part == "NULL" else part)
            at += len(part)
        if at == len(body):
            return found
        if body[at] != delimiter:
            raise MalformedArray("no delimiter between elements")
        at += 1


def _until_quote(body: str, at: int) -> tuple[str, int]:
    """The text up to the closing quote, and where it goes on."""
    parts = []
    while True:
        quote, escape = body.find('"', at), body.find("\\", at)
        if quote < 0:
            raise MalformedArray("a quote is not closed")
        if escape < 0 or quote < escape:
            parts.append(body[at:quote])
            return "".join(parts), quote + 1
        parts.append(body[at:escape] + body[escape + 1 : escape + 2])
        at = escape + 2
