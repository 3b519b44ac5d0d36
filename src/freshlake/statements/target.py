"""The tables a statement writes, told from its words, so that stream tables are protected before Spark sees it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from freshlake.statements.tokens import Kind, Token, tokenize, value_of

_OPENERS = {
    "INSERT": {"INTO", "OVERWRITE", "TABLE"},
    "UPDATE": set(),
    "DELETE": {"FROM"},
    "MERGE": {"WITH", "SCHEMA", "EVOLUTION", "INTO"},
    "TRUNCATE": {"TABLE"},
    "ALTER": {"TABLE", "VIEW", "MATERIALIZED"},
    "DROP": {"TABLE", "VIEW", "IF", "EXISTS", "TEMPORARY"},
    "CREATE": {"OR", "REPLACE", "TEMP", "TEMPORARY", "GLOBAL", "EXTERNAL", "TABLE", "VIEW", "IF", "NOT", "EXISTS"},
    "REPLACE": {"TABLE"},
    "COPY": {"INTO"},
    "OPTIMIZE": set(),
    "REORG": {"TABLE"},
    "RESTORE": {"TABLE", "TO"},
    "VACUUM": set(),
}
_WRITES_TABLE = {"ALTER", "DROP", "CREATE", "REPLACE", "TRUNCATE"}

# A path in quotes is a place to write to after these.
_BEFORE_PATH = {"LOCATION", "DIRECTORY", "PATH", "VACUUM", "OPTIMIZE"}

DDL = frozenset({"CREATE", "DROP", "ALTER", "REPLACE"})


def words(text: str) -> list[Token]:
    tokens: list[Token] = []
    for token in tokenize(text):
        if token.kind is Kind.END:
            return tokens
        tokens.append(token)
    return tokens


def first_word(text: str) -> str:
    tokens = words(text)
    return tokens[0].word if tokens else ""


def written(text: str) -> tuple[tuple[str, ...], ...]:
    """Name parts of every table that the statement inserts into, changes, creates or drops."""
    tokens, found, depth = words(text), [], 0
    for i, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth or token.word not in _OPENERS or not _starts_clause(tokens, i):
            continue
        at = i + 1
        skipped = set()
        while at < len(tokens) and tokens[at].word in _OPENERS[token.word]:
            skipped.add(tokens[at].word)
            at += 1
        if token.word in _WRITES_TABLE and not skipped & {"TABLE", "VIEW"}:
            continue
        name = name_at(tokens, at)
        if name:
            found.append(name)
    return tuple(found)


def written_paths(text: str) -> tuple[str, ...]:
    """Folders, given as strings, that the statement makes a table of or writes to."""
    tokens = words(text)
    pairs = pairwise(tokens)
    return tuple(value_of(t) for before, t in pairs if t.kind is Kind.STRING and before.word in _BEFORE_PATH)


def dropped_schema(text: str) -> str | None:
    """The schema that the statement drops."""
    tokens = words(text)
    if len(tokens) < 2 or tokens[0].word != "DROP" or tokens[1].word not in ("SCHEMA", "DATABASE", "NAMESPACE"):
        return None
    at = 4 if [t.word for t in tokens[2:4]] == ["IF", "EXISTS"] else 2
    parts = name_at(tokens, at)
    return parts[-1].lower() if parts else None


def defines_view(text: str) -> str | None:
    """PERMANENT or TEMPORARY when the statement makes or changes a view, otherwise None."""
    start = [t.word for t in words(text)[:6]]
    if start[:2] == ["ALTER", "VIEW"]:
        return "PERMANENT"
    if start[:1] != ["CREATE"] or "VIEW" not in start:
        return None
    return "TEMPORARY" if {"TEMP", "TEMPORARY"} & set(start[: start.index("VIEW")]) else "PERMANENT"


@dataclass(frozen=True)
class FunctionStatement:
    """A statement that makes or drops a function; `body` is all of it from the name on."""

    verb: str
    name: tuple[str, ...]
    body: str
    temporary: bool
    if_missing: bool


def of_function(text: str) -> FunctionStatement | None:
    """What a statement does to a function, or None."""
    tokens = words(text)
    start = [t.word for t in tokens[:6]]
    if not start or start[0] not in ("CREATE", "DROP") or "FUNCTION" not in start:
        return None
    at = start.index("FUNCTION")
    temporary = "TEMPORARY" in start[:at]
    if not set(start[1:at]) <= {"OR", "REPLACE", "TEMPORARY"}:
        return None
    first = at = at + 1
    while at < len(tokens) and tokens[at].word in ("IF", "NOT", "EXISTS"):
        at += 1
    name = name_at(tokens, at)
    return FunctionStatement(start[0], name, text[tokens[at].start :], temporary, at > first) if name else None


def _starts_clause(tokens: list[Token], i: int) -> bool:
    """A verb opens a statement, or follows the WITH clause or the FROM of a multi-insert."""
    if i == 0:
        return True
    return tokens[i].word == "INSERT" or (tokens[0].word == "WITH" and tokens[i - 1].text == ")")


def name_at(tokens: list[Token], at: int) -> tuple[str, ...]:
    """A possibly qualified name that begins at a token."""
    parts: list[str] = []
    while at < len(tokens) and tokens[at].kind in (Kind.WORD, Kind.QUOTED):
        parts.append(plain(tokens[at]))
        if at + 1 < len(tokens) and tokens[at + 1].text == ".":
            at += 2
            continue
        break
    return tuple(parts)


def plain(token: Token) -> str:
    return value_of(token) if token.kind is Kind.QUOTED else token.text


def mentioned(text: str) -> frozenset[str]:
    """Every identifier in a text, in lower case."""
    return frozenset(plain(t).lower() for t in words(text) if t.kind in (Kind.WORD, Kind.QUOTED))
