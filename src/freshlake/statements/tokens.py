"""Tokens of SQL text: just enough to find words, names, strings and where a statement ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What a token is; UNFINISHED is a string, name or comment without its end."""

    WORD = auto()
    STRING = auto()
    QUOTED = auto()
    NUMBER = auto()
    SYMBOL = auto()
    UNFINISHED = auto()
    END = auto()


@dataclass(frozen=True)
class Token:
    """A piece of the text, from `start` to before `end`."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in upper case, or '' when the token is something else."""
        return self.text.upper() if self.kind is Kind.WORD else ""


# A raw string ends at the first quote; otherwise a backslash hides the next character and a doubled quote is a quote.
_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*)
    | (?P<comment>/\*)
    | (?P<raw>[rR]'[^']*'|[rR]"[^"]*")
    | (?P<string>'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")
    | (?P<quoted>`(?:[^`]++|``)*+`)
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<unfinished>['"`].*)
    | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_KINDS = {
    "raw": Kind.STRING,
    "string": Kind.STRING,
    "quoted": Kind.QUOTED,
    "number": Kind.NUMBER,
    "word": Kind.WORD,
    "unfinished": Kind.UNFINISHED,
    "symbol": Kind.SYMBOL,
}


def tokenize(text: str) -> Iterator[Token]:
    """The tokens of a text without spaces and comments, then END for ever."""
    position = 0
    while match := _TOKEN.match(text, position):
        position = match.end()
        if match.lastgroup == "space":
            continue
        if match.lastgroup == "comment":
            closed = _after_comment(text, position)
            if closed is None:
                yield Token(Kind.UNFINISHED, text[match.start() :], match.start(), len(text))
                position = len(text)
            else:
                position = closed
            continue
        yield Token(_KINDS[match.lastgroup or "symbol"], match.group(), match.start(), match.end())
    while True:
        yield Token(Kind.END, "", len(text), len(text))


def value_of(token: Token) -> str:
    """What a string or a quoted name stands for."""
    text = token.text
    if text[0] in "rR":
        return text[2:-1]
    quote, inner = text[0], text[1:-1].replace(text[0] * 2, text[0])
    return inner if quote == "`" else re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)


def _after_comment(text: str, position: int) -> int | None:
    """The position after a comment, which may contain others; None when it has no end."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, position):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return None
