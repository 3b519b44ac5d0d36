"""The one place where sqlglot is imported: PostgreSQL text to a tree, and a tree to Spark SQL text."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError
from sqlglot.parsers.postgres import PostgresParser

from freshlake.errors import InvalidQuery

_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_OWN_SYNTAX = ("CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")


class _Reading(Postgres):
    """PostgreSQL with every function call kept as it is written: what a name means is decided in this package."""

    class Parser(PostgresParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar = {word: PostgresParser.FUNCTION_PARSERS[word] for word in _OWN_SYNTAX}
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            word: PostgresParser.NO_PAREN_FUNCTION_PARSERS[word] for word in ("ANY", "CASE", "VARIADIC")
        }

        def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> exp.Interval:
            """The string as it is written: sqlglot takes its first unit and loses what follows ('1 day ago')."""
            unit: exp.Expr | None = None
            if self._curr and self._curr.text.upper() in _UNITS:
                unit = self._parse_var(any_token=True, upper=True)
                plain = this.is_string and re.fullmatch(r"\s*[+-]?\d+\s*", this.name)
                if self._match_text_seq("TO") or not plain:
                    unit = exp.IntervalSpan(this=unit, expression=self._parse_var(any_token=True, upper=True))
            return exp.Interval(this=this, unit=unit)


def parse(text: str) -> exp.Expr:
    """The single query in a text; raises InvalidQuery with the position."""
    try:
        found = [tree for tree in _Reading().parse(text, error_level=ErrorLevel.IMMEDIATE) if tree is not None]
    except ParseError as error:
        raise _syntax_error(error) from None
    except (SqlglotError, TokenError) as error:
        raise InvalidQuery(f"syntax error: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise InvalidQuery("the query is nested too deeply") from None
    if len(found) != 1 or not isinstance(found[0], exp.Query | exp.Values):
        raise InvalidQuery("a stream table is defined by one query", hint="write a single SELECT")
    return found[0]


def _syntax_error(error: ParseError) -> InvalidQuery:
    first: dict[str, Any] = error.errors[0] if error.errors else {}
    highlight = str(first.get("highlight") or "")
    line, end = int(first.get("line") or 0), int(first.get("col") or 0)
    near = f" at or near '{highlight}'" if highlight else ""
    place = (line, max(end - len(highlight) + 1, 1)) if line else None
    said = str(first.get("description", error)).splitlines()[0]
    said = "something is missing here" if "<class" in said else said
    return InvalidQuery(f"syntax error{near}: {said}", position=place)


def render(tree: exp.Expr) -> str:
    """The tree as Spark SQL text; what the printer does not know is an error, never left out."""
    return tree.sql(
        dialect="spark",
        pretty=True,
        comments=False,
        normalize_functions=False,
        unsupported_level=ErrorLevel.RAISE,
        max_text_width=100,
    )


def place(node: exp.Expr, text: str, keyword: str | None = None) -> tuple[int, int] | None:
    """Line and column where a node begins, counted from 1; None when no part of it has a place.

    With a keyword: where that stands, from the node's place on.
    """
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    if not starts:
        return None
    start = min(starts)
    if keyword and (found := re.search(keyword, text[start:], re.IGNORECASE)):
        start += found.start()
    return text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1) + 1


# Building ------------------------------------------------------------------------------------------------------------

_ATOMS = (
    exp.Anonymous,
    exp.Boolean,
    exp.Case,
    exp.Cast,
    exp.Column,
    exp.Filter,
    exp.Identifier,
    exp.Literal,
    exp.Null,
    exp.Paren,
    exp.Star,
    exp.Subquery,
    exp.Var,
    exp.Window,
    exp.WithinGroup,
)


def atom(node: exp.Expr) -> exp.Expr:
    """In parentheses, unless it stands by itself: the printer adds none, and precedence differs between dialects."""
    return node if isinstance(node, _ATOMS) else exp.Paren(this=node)


def call(function: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of a Spark function, printed exactly so."""
    return exp.Anonymous(this=function, expressions=[a.copy() for a in arguments])


def number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def string(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def name(text: str) -> exp.Identifier:
    """An identifier, in backticks where Spark could read it otherwise."""
    plain = text.isascii() and text.isidentifier() and text.lower() not in _KEYWORDS
    return exp.Identifier(this=text, quoted=not plain)


def column(label: str, table: str | None = None) -> exp.Column:
    return exp.Column(this=name(label), table=name(table) if table else None)


def cast(node: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build(kind, dialect="spark"))


def case(*branches: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Expr:
    ifs = [exp.If(this=condition.copy(), true=value.copy()) for condition, value in branches]
    return exp.Case(ifs=ifs, default=default.copy() if default is not None else None)


def function(parameters: str, body: exp.Expr) -> exp.Expr:
    """A lambda over parameters such as 'l, r'."""
    return exp.Lambda(this=body, expressions=[name(p.strip()) for p in parameters.split(",")])


def is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=atom(node.copy()), expression=exp.Null())


def is_not_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=atom(node.copy()), expression=exp.Null(), negate=True)


def binary(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return kind(this=atom(left.copy()), expression=atom(right.copy()))


# Words that Spark does not take as a plain alias, or reads as something else.
_KEYWORDS = frozenset(
    """all and anti any array as between both by case cast check collate column constraint create cross cube
    current_date current_time current_timestamp current_user distinct div drop else end escape except exists false
    fetch filter for foreign from full grant group grouping having in inner intersect interval into is join lateral
    leading left like limit minus natural not null of offset on only or order outer overlaps percent pivot primary
    qualify references right rlike rollup select semi session_user set setminus sets some sort struct table
    tablesample then time to trailing true union unique unknown unpivot user using values when where window with
    within""".split()  # noqa: SIM905
)

__all__ = [
    "atom",
    "binary",
    "call",
    "case",
    "cast",
    "column",
    "exp",
    "function",
    "is_not_null",
    "is_null",
    "name",
    "number",
    "parse",
    "place",
    "render",
    "string",
]
