"""Whether a stream table's query means what it meant when the table was loaded."""

from __future__ import annotations

from freshlake.catalog.records import StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.errors import FreshlakeError
from freshlake.refresh.definition import Definition, define, definition_of
from freshlake.refresh.uses import differing


def means_the_same(table: StreamTable, compiled: CompiledQuery, definition: Definition | None = None) -> bool:
    """`definition` is what was compiled, if that is not the table's own.

    A table that an earlier version loaded has a fingerprint that queries may share although they differ. It counts as
    long as nothing else says that the query is another one; the next commit stores the new fingerprint.
    """
    if table.fingerprint == compiled.fingerprint:
        return True
    if table.fingerprint != compiled.former or differing(table.uses, compiled.uses):
        return False
    return _text(definition or definition_of(table)) == table.defining_query


def _text(definition: Definition) -> str | None:
    """What the definition says now."""
    if definition.reference is None:
        return definition.text
    try:
        return define(definition.reference).text
    except FreshlakeError:
        return None
