"""The relations of a query, and other names for them: in FROM and JOIN, and for columns qualified with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from freshlake.catalog.names import SESSION_CATALOG
from freshlake.statements.target import name_at, words
from freshlake.statements.tokens import Kind, Token

_ENDS_LIST = frozenset(
    {"CLUSTER", "DISTRIBUTE", "EXCEPT", "GROUP", "HAVING", "INTERSECT", "LIMIT", "MINUS", "OFFSET", "ORDER"}
    | {"QUALIFY", "SELECT", "SET", "SORT", "UNION", "WHEN", "WHERE", "WINDOW"}
)
# What may follow a relation without being its alias.
_NO_ALIAS = _ENDS_LIST | frozenset(
    {"ANTI", "CROSS", "FOR", "FULL", "INNER", "INSERT", "JOIN", "LATERAL", "LEFT", "NATURAL", "ON", "PIVOT"}
    | {"RIGHT", "SEMI", "TABLESAMPLE", "TIMESTAMP", "UNPIVOT", "USING", "VERSION"}
)
# Functions with a FROM of their own.
_FROM_FUNCTIONS = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION"})


@dataclass
class _Level:
    """Inside one pair of parentheses: is a relation expected next, and does a comma expect another?"""

    expected: bool = False
    in_list: bool = False
    function: str = ""


Parts = tuple[str, ...]


def renamed(text: str, names: Mapping[Parts, Parts]) -> str:
    """The text with the relations of these names under others; columns are still qualified with the last part."""
    tokens, out, at = words(text), [], 0
    for start, is_relation in _names(tokens):
        parts, catalog = _parts(tokens, start)
        table = _table(parts, is_relation, names)
        if table is None:
            continue
        new, last = names[table], start + 2 * (catalog + len(table) - 1)
        alias = "" if _has_alias(tokens, last + 1) or new[-1] == table[-1] else f" AS `{table[-1]}`"
        shown = ".".join(f"`{part}`" for part in new)
        out += [text[at : tokens[start].start], f"{shown}{alias}" if is_relation else f"`{table[-1]}`"]
        at = tokens[last].end
    return "".join([*out, text[at:]])


def _table(parts: Parts, is_relation: bool, names: Mapping[Parts, Parts]) -> Parts | None:
    """Which of these relations a name is, or qualifies a column with."""
    lengths = [len(parts)] if is_relation else range(len(parts) - 1, 1, -1)
    return next((parts[:n] for n in lengths if parts[:n] in names), None)


def relations(text: str) -> frozenset[Parts]:
    """The names that stand where a relation is expected, in lower case."""
    tokens = words(text)
    return frozenset(_parts(tokens, start)[0] for start, is_relation in _names(tokens) if is_relation)


def _parts(tokens: list[Token], start: int) -> tuple[Parts, int]:
    """The parts of a name without Spark's own catalog in front of it, and whether (1) that was written."""
    parts = tuple(part.lower() for part in name_at(tokens, start))
    after = start + 2 * len(parts)
    if [token.text for token in tokens[after - 1 : after + 1]] == [".", "*"]:
        parts = (*parts, "*")
    catalog = 1 if parts[:1] == (SESSION_CATALOG,) else 0
    return parts[catalog:], catalog


def _names(tokens: list[Token]) -> Iterator[tuple[int, bool]]:
    """The first token of every name, and whether it stands where a relation is expected."""
    levels = [_Level()]
    for i, token in enumerate(tokens):
        level = levels[-1]
        if token.text == "(":
            before = tokens[i - 1].word if i else ""
            levels.append(_Level(level.expected, level.expected, before))
            level.expected = False
        elif token.text == ")":
            if len(levels) > 1:
                levels.pop()
        elif token.text == ",":
            level.expected = level.in_list
        elif _opens_relation(tokens, i, level):
            level.expected, level.in_list = True, level.in_list or token.word == "FROM"
        elif token.kind in (Kind.WORD, Kind.QUOTED) and not (i and tokens[i - 1].text == "."):
            if token.word in _ENDS_LIST:
                level.expected = level.in_list = False
            elif token.word not in ("LATERAL", "ONLY"):
                yield i, level.expected
                level.expected = False


def _opens_relation(tokens: list[Token], i: int, level: _Level) -> bool:
    word, before = tokens[i].word, tokens[i - 1].word if i else ""
    if word == "FROM":
        return before != "DISTINCT" and level.function not in _FROM_FUNCTIONS
    if word == "TABLE":
        inserted = tokens[0].word == "INSERT" and before not in ("INTO", "OVERWRITE")
        return (inserted or before in ("", "AS")) and len(tokens) > i + 1 and tokens[i + 1].text != "("
    return word == "JOIN" or (word == "USING" and tokens[0].word == "MERGE" and not level.in_list)


def _has_alias(tokens: list[Token], at: int) -> bool:
    if at >= len(tokens) or tokens[at].kind not in (Kind.WORD, Kind.QUOTED):
        return False
    return tokens[at].word not in _NO_ALIAS


def has_star(text: str) -> bool:
    """Whether a query selects all columns of something, whichever there are."""
    return any(
        token.text == "*" and (before.word in ("SELECT", "DISTINCT", "ALL") or before.text in (",", "."))
        for before, token in pairwise(words(text))
    )
