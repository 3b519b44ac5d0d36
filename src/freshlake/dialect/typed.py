"""A translated expression with its PostgreSQL type, and how to refuse what cannot be translated."""

from __future__ import annotations

from typing import Any, NamedTuple

from freshlake.dialect.intervals import Interval
from freshlake.dialect.tree import exp, place
from freshlake.dialect.types import Type
from freshlake.errors import UnsupportedQuery, UnsupportedTranslation

CAST = "give it a type that is known with a cast (::)"
AFTER = "leave it out here and apply it in the query that reads the stream table, or write the query in Spark SQL"


# Names that no column of a query has: inside a lambda or a subquery they would hide it.
ELEMENT, QUERY, VALUE = "__fl_element", "__fl_query", "__fl_value"


class Typed(NamedTuple):
    """`interval` is set for interval literals: their parts are added one after the other."""

    node: exp.Expr
    type: Type
    interval: Interval | None = None


class Refusing:
    """Knows the text, so that a refusal can say where."""

    text: str

    def refuse(
        self,
        construct: str,
        reason: str,
        rewrite: str,
        node: exp.Expr | None = None,
        kind: type[UnsupportedQuery] = UnsupportedTranslation,
        keyword: str | None = None,
    ) -> UnsupportedQuery:
        """An error to raise; `keyword` is a pattern for the words that begin the construct, after the node's place."""
        none = "has no translation from PostgreSQL to Spark SQL"
        return kind(
            f"{construct} {none if kind is UnsupportedTranslation else 'is not supported in a stream table'}",
            detail=reason,
            hint=rewrite,
            construct=construct,
            position=place(node, self.text, keyword) if node is not None else None,
        )

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node that says more than what is translated: a part left out would change the meaning."""
        for key, value in node.args.items():
            if value not in (None, False, []) and key not in known:
                word = key.rstrip("_").upper()
                reason = "this part of the syntax has no proven translation"
                raise self.refuse(f"{title(node)} with {word}", reason, AFTER, node)


_TITLES = {
    "all": "ALL in this place",
    "any": "ANY in this place",
    "attimezone": "AT TIME ZONE",
    "bitwiseleftshift": "the operator <<",
    "bitwisenot": "the operator ~ before a number",
    "bitwiserightshift": "the operator >>",
    "collate": "COLLATE",
    "dot": "a function of a schema",
    "jsonextract": "the operator ->",
    "jsonextractscalar": "the operator ->>",
    "matchagainst": "the operator @@",
    "operator": "OPERATOR(…)",
    "overlaps": "OVERLAPS",
    "parameter": "a parameter",
    "placeholder": "a parameter",
    "tuple": "a row as a value",
    "unicodestring": "U&'…'",
    "windowspec": "a window frame",
}


def title(node: exp.Expr) -> str:
    """What a kind of node is called in SQL."""
    key = str(node.key)
    return _TITLES.get(key, key.upper())


def is_literal(node: Any, *, text: bool) -> bool:
    """A plain string, or number, of the query's text."""
    return isinstance(node, exp.Literal) and bool(node.is_string) is text


def whole(node: Any) -> int | None:
    """The value of an integer literal, also a negative one."""
    if isinstance(node, exp.Neg) and (value := whole(node.this)) is not None:
        return -value
    if isinstance(node, exp.Paren):
        return whole(node.this)
    if is_literal(node, text=False) and str(node.this).isdigit():
        return int(node.this)
    return None
