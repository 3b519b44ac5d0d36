"""Where the nodes of a stream table are stored, and where each of them stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshlake.catalog.records import StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.split import ROOT
from freshlake.refresh.inputs import StoredNode
from freshlake.storage.layout import FoldPoint

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine


def stored_nodes(engine: Engine, table: StreamTable, compiled: CompiledQuery) -> dict[str, StoredNode]:
    """Where every node of a table stands, as the catalog committed it."""
    assert table.fold_base_version is not None
    assert table.folded_version is not None
    stored = {
        ROOT: StoredNode(
            engine.layout.root(table, table.generation),
            table.version,
            FoldPoint(table.fold_base_version, table.folded_version),
        )
    }
    for node in compiled.nodes:
        if node.id != ROOT:
            state = table.nodes[node.id]
            assert state.base_version is not None
            assert state.folded_version is not None
            point = FoldPoint(state.base_version, state.folded_version)
            path = engine.layout.node(table.storage_id, table.generation, node.id)
            stored[node.id] = StoredNode(path, state.version, point)
    return stored
