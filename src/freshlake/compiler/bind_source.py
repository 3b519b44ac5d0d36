"""Read the leaves of Spark's plan: which Delta table a relation is, and what is refused because it is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from freshlake.compiler.origin import place_of
from freshlake.compiler.refusals import NOT_DELTA, TEMPORARY, TIME_TRAVEL

_GLOBAL_VIEW = re.compile(r"^[ :+|-]*View \(`?global_temp`?\.`?(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A table that a query reads, as Spark resolved it."""

    key: str
    path: str
    name: str | None
    schema_json: str


def source_of(node: Any) -> Source:
    relation = node.relation()
    # Delta's relation is an anonymous subclass, so it is recognised by its file index
    location: Any = relation.location() if _has(relation, "location") else None
    index = location.getClass().getSimpleName() if location is not None else ""
    table = node.catalogTable()
    name = table.get().identifier().unquotedString() if table.isDefined() else None
    if not index.startswith("Tahoe"):
        raise not_delta(node, name or relation.toString()[:80])
    if location.isTimeTravelQuery():
        raise TIME_TRAVEL.raised(place_of(node), message=f"source {name or ''} is pinned to one version")
    path = _local_path(location.path().toString())
    return Source(path, path, name, relation.schema().json())


def refuse_global(analyzed: Any) -> None:
    """A global temporary view is found by name from every session of this Spark, and by no other process."""
    found = _GLOBAL_VIEW.search(analyzed.toString())
    if found is not None:
        name = f"global_temp.{found[1]}"
        message = f"the temporary view {name} cannot be part of a stream table"
        raise TEMPORARY.raised(place_of(analyzed, name), message=message)


def not_delta(node: Any, name: str) -> Exception:
    return NOT_DELTA.raised(place_of(node), message=f"source {name} is not a Delta table")


def _has(instance: Any, method: str) -> bool:
    return any(m.getName() == method for m in instance.getClass().getMethods())


def _local_path(uri: str) -> str:
    """Local paths lose their scheme, so that one table has one key however it was named."""
    return re.sub(r"^file:/+", "/", uri)
