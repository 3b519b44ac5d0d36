"""What a definition is accepted with, and its author should know."""

from __future__ import annotations

import logging

from freshlake.catalog.enums import RefreshMode
from freshlake.catalog.names import TableName
from freshlake.catalog.records import StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.refresh.definition import Definition
from freshlake.refresh.shape import output_schema
from freshlake.statements.relations import has_star

_log = logging.getLogger("freshlake")


def warn(target: TableName, definition: Definition, compiled: CompiledQuery, mode: RefreshMode) -> None:
    if definition.reference is None and has_star(definition.text):
        _log.warning("%s selects *: a new column in a source rebuilds the table", target.short)
    if mode is RefreshMode.AUTO:
        for reason in compiled.reasons:
            _log.warning("every refresh of %s will be FULL: %s", target.short, reason.told)


def warn_of_types(table: StreamTable, compiled: CompiledQuery) -> None:
    before = {field["name"]: field["type"] for field in (table.output_schema or {}).get("fields", ())}
    for field in output_schema(compiled.root)["fields"]:
        if before.get(field["name"], field["type"]) != field["type"]:
            _log.warning("%s: column %s changes its type", table.full_name.short, field["name"])
