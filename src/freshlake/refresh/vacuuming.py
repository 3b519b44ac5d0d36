"""Vacuum a stream table: delete files of versions, loads and generations that nobody can read any more."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

from freshlake.catalog.records import StreamTable
from freshlake.compiler.split import ROOT
from freshlake.refresh.folding import oldest_fold
from freshlake.refresh.stored import stored_nodes

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine


def vacuum(engine: Engine, table: StreamTable) -> int:
    """Keeps every base version from which a state is read: the newest, and those that consumers stand at."""
    if not table.is_populated:
        return 0
    removed = 0
    folds = [fold for fold in engine.catalog.folds(table.id) if fold.generation == table.generation]
    for node_id, node in stored_nodes(engine, table, engine.compiled(table)).items():
        assert node.fold is not None
        oldest = oldest_fold(engine, table) if node_id == ROOT else node.fold.folded_version
        # first the way to what is removed, so that no reader sets out for it
        engine.catalog.prune_folds(table.id, generation=table.generation, oldest_read=oldest, node=node_id)
        if node_id == ROOT and table.generation == table.published_generation:
            engine.catalog.prune_points(table.id, generation=table.generation, before=oldest)
        kept = [fold.base_version for fold in folds if fold.node == node_id and fold.folded_version >= oldest]
        removed += node.table.vacuum(kept, engine.settings.reader_min_age_seconds)
    return removed + _drop_generations(engine, table)


def _drop_generations(engine: Engine, table: StreamTable) -> int:
    """Remove what was stored for earlier queries, once no reader can hold it and no consumer stands in it."""
    removed = 0
    limit = engine.clock.now() - timedelta(seconds=engine.settings.reader_min_age_seconds)
    # the first fold of a generation is its load, when readers left the one before
    begun = {f.generation: f.at for f in reversed(engine.catalog.folds(table.id)) if f.node == ROOT}
    for generation in engine.layout.generations(table.storage_id):
        if generation >= table.published_generation:
            break
        left = next((begun[later] for later in sorted(begun) if later > generation), limit)
        used = engine.catalog.minimum_consumer_version(table.id, generation) is not None
        if generation in begun and (used or left > limit):
            break
        folder = engine.layout.generation(table.storage_id, generation)
        removed += sum(p.is_file() for p in folder.rglob("*"))
        shutil.rmtree(folder, ignore_errors=True)
        engine.catalog.forget_generations(table.id, before=generation + 1)
    return removed
