"""Which dialects there are, and the way from their text to Spark's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from freshlake.words import word

Fields = Sequence[tuple[str, str]]
"""Columns of a table as (name, Spark type as JSON)."""

ColumnsOf = Callable[[str], Fields]
"""The columns of a table or view, by its name as Spark SQL writes it; raises when there is none."""


class Dialect(StrEnum):
    """The language of a query's text."""

    SPARK = "spark"
    POSTGRES = "postgres"

    @classmethod
    def parse(cls, text: str | None) -> Dialect:
        """The dialect of this name; None is Spark's own."""
        return word(cls, text or cls.SPARK, "a known SQL dialect", {"postgresql": "postgres"})


def to_spark(text: str, dialect: Dialect, columns_of: ColumnsOf) -> str:
    """The query as Spark SQL; raises InvalidQuery, or UnsupportedTranslation naming what has no proven translation."""
    if dialect is Dialect.SPARK:
        return text
    # late, since few lakes have a query in another dialect
    from freshlake.dialect.postgres import translate

    return translate(text, columns_of)
