"""The tables a statement writes, told from its words, so that stream tables are protected before Spark sees it."""

from __future__ import annotations

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
}
_WRITES_TABLE = {"ALTER", "DROP", "CREATE", "REPLACE", "TRUNCATE"}

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
