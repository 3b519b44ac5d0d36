"""Rename the relations of a query: `schema.table` in FROM and JOIN, and columns that are qualified with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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


def renamed(text: str, names: Mapping[tuple[str, str], str]) -> str:
    """The text with `schema.table` replaced by the given name; columns are still qualified with `table`."""
    tokens, out, at = words(text), [], 0
    for start, is_relation in _names(tokens):
        parts = [p.lower() for p in name_at(tokens, start)]
        catalog = 1 if parts[:1] == ["spark_catalog"] else 0
        table = tuple(parts[catalog : catalog + 2])
        new = names.get(table) if len(table) == 2 else None
        if new is None or is_relation != (len(parts) == catalog + 2):
            continue
        last = start + 2 * (catalog + 1)
        alias = "" if _has_alias(tokens, last + 1) or new == table[1] else f" AS `{table[1]}`"
        out += [text[at : tokens[start].start], f"`{new}`{alias}" if is_relation else f"`{table[1]}`"]
        at = tokens[last].end
    return "".join([*out, text[at:]])


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
