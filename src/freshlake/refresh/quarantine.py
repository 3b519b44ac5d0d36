"""Quarantine: rows that are known to be wrong are neither built upon nor passed on."""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.catalog.records import Dependency, StreamTable
from freshlake.catalog.store import Catalog
from freshlake.refresh.terms import DEFAULT_TERMS, Terms


def held_back(
    catalog: Catalog, table: StreamTable, edges: Sequence[Dependency], terms: Terms = DEFAULT_TERMS
) -> tuple[str, str] | None:
    """Why a table must not be refreshed now, and which tables are wrong."""
    if table.is_quarantined and not terms.repairs:
        return "quarantined", table.full_name.short
    reads = [i for edge in edges if (i := edge.stream_table_id) is not None]
    upstreams = catalog.stream_tables_by_id(reads) if reads else {}
    wrong = sorted(upstream.full_name.short for upstream in upstreams.values() if upstream.is_quarantined)
    return ("upstream-quarantined", ", ".join(wrong)) if wrong else None
