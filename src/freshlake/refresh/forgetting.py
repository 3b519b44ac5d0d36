"""Forgetting: what the catalog knows of states that are older than the retention and that nobody can read any more."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from freshlake.catalog.records import Fold, StreamTable
from freshlake.compiler.split import ROOT
from freshlake.refresh.folding import oldest_fold, retained_version

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine


def forget_states(engine: Engine, table: StreamTable) -> int:
    """Forget folds and points of earlier states; returns how many rows that were. No file is looked at or deleted.

    A generation keeps one fold for as long as it has a folder: that says that it was loaded once.
    """
    if not table.is_populated or table.generation != table.published_generation:
        return 0
    catalog, before = engine.catalog, engine.clock.now() - timedelta(hours=engine.settings.log_retention_hours)
    generations: dict[int, list[Fold]] = defaultdict(list)
    for fold in catalog.folds(table.id):
        generations[fold.generation].append(fold)
    earlier = [g for g in sorted(generations) if g < table.generation]
    read = [g for g in earlier if catalog.minimum_consumer_version(table.id, g) is not None]
    removed = 0
    for generation in earlier:
        if generation not in read and _left_before(generations, generation, before):
            newest = {fold.node: fold.folded_version for fold in generations[generation]}
            removed += sum(_prune(engine, table, generation, node, upto) for node, upto in newest.items())
    oldest = min(oldest_fold(engine, table), retained_version(engine, table))
    removed += sum(_prune(engine, table, table.generation, node, oldest) for node in (ROOT, *table.nodes))
    kept = catalog.newest_fold(table.id, generation=table.generation, upto=oldest)
    generation, version = (min(read), 0) if read else (table.generation, kept.folded_version if kept else 0)
    return removed + catalog.forget_points(table.id, before=before, generation=generation, version=version)


def _prune(engine: Engine, table: StreamTable, generation: int, node: str, oldest_read: int) -> int:
    return engine.catalog.prune_folds(table.id, generation=generation, oldest_read=oldest_read, node=node)


def _left_before(generations: dict[int, list[Fold]], generation: int, moment: datetime) -> bool:
    """Whether readers had left a generation by then: the first fold of the next one is its load."""
    following = min((fold for g, folds in generations.items() if g > generation for fold in folds), key=lambda f: f.at)
    return following.at < moment
