"""What a definition compiles to and reads, and everything that is refused of it whatever it is to be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from freshlake.catalog.enums import SourceType
from freshlake.catalog.names import TableName
from freshlake.errors import Unsupported
from freshlake.refresh.definition import Definition
from freshlake.refresh.edges import check_acyclic, edges_of
from freshlake.refresh.engine import Engine
from freshlake.refresh.refused import require_differential
from freshlake.service.capturing import Bound
from freshlake.service.options import check_storable


def bound(engine: Engine, definition: Definition, settings: Mapping[str, Any]) -> Bound:
    compiled = engine.compile(definition, settings)
    edges = edges_of(engine.catalog, compiled)
    if any(edge.source_type is SourceType.POSTGRES for edge in edges):
        raise Unsupported(
            "the shape of a captured table has no rows", hint="name the table itself: database.schema.table"
        )
    check_storable(compiled)
    return compiled, edges


def feasible(
    engine: Engine, target: TableName, definition: Definition, settings: Mapping[str, Any], rules: bool
) -> Bound:
    """The same for a table of this name; `rules` says whether its mode needs them."""
    compiled, edges = bound(engine, definition, settings)
    if rules:
        require_differential(compiled, target)
    check_acyclic(engine.catalog, target, edges)
    return compiled, edges
