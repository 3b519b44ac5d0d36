"""verify: the query at the table's frontier, recomputed from its sources, against what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from freshlake.catalog.records import StreamTable
from freshlake.compiler import plan as p
from freshlake.compiler.audit import over_sources
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.emit import emit, leaf_key
from freshlake.compiler.openness import openness
from freshlake.compiler.walk import nodes as walk
from freshlake.errors import SourceHistoryLost, StreamTableNotPopulated
from freshlake.refresh.compare import Difference, compare, same_small
from freshlake.refresh.inputs import SMALL_ROWS, SourceSpan, are_small
from freshlake.refresh.result import Verification
from freshlake.refresh.spark_errors import translated
from freshlake.sources.protocol import Position, Source
from freshlake.storage.layout import FoldPoint

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine


def verify(engine: Engine, table: StreamTable) -> Verification:
    """Compares as bags both ways; columns whose value SQL leaves open (first, max_by …) are named, not compared.

    Ties of windows and limits are not open here: the stored rows and the query have them in the same completed order.
    """
    if not table.is_populated or table.frontier is None:
        raise StreamTableNotPopulated(
            f"stream table {table.full_name.short} has not been loaded yet", hint="refresh it first"
        )
    try:
        return _verify(engine, table)
    except SourceHistoryLost as error:
        raise SourceHistoryLost(
            f"stream table {table.full_name.short} cannot be verified: a source no longer keeps the state it was "
            "refreshed from",
            detail=f"{error.message}: {error.detail}" if error.detail else error.message,
            hint="refresh it, then verify it again",
        ) from error


def _verify(engine: Engine, table: StreamTable) -> Verification:
    assert table.frontier is not None
    compiled = engine.compiled(table)
    small = is_small(engine, table)
    engine.worker.size_for(small)
    engine.worker.run_under(table.session_settings)
    kept, arrays = comparable(compiled) or (None, [])
    with translated():
        difference = _difference(engine, table, compiled, kept, arrays, small)
    return Verification(
        table=str(table.full_name),
        equal=difference.missing == 0 and difference.unexpected == 0,
        missing=difference.missing,
        unexpected=difference.unexpected,
        compared_rows=(table.row_count or 0) if kept is not None else 0,
        sample=difference.sample,
        not_compared=tuple(c.field for c in compiled.root.visible if c.field not in (kept or ())),
        frontier=dict(table.frontier),
    )


def _difference(
    engine: Engine,
    table: StreamTable,
    compiled: CompiledQuery,
    kept: list[str] | None,
    arrays: list[str],
    small: bool,
) -> Difference:
    if kept is None:
        return Difference(0, 0, ())
    expected = only(query_at(engine, table, compiled), kept)
    actual = only(stored(engine, table, compiled), kept)
    if small and same_small(expected, actual, engine.settings):
        return Difference(0, 0, ())
    return compare(expected, actual, unordered=arrays)


def is_small(engine: Engine, table: StreamTable) -> bool:
    """Whether the table's sources and its own rows are few."""
    if table.frontier is None or table.row_count is None or table.row_count > SMALL_ROWS:
        return False
    positions = {k: Position.from_json(v) for k, v in table.frontier["sources"].items()}
    edges = [e for e in engine.catalog.dependencies(table.id) if e.source_key in positions]
    return are_small(SourceSpan(engine.source(e), None, positions[e.source_key]) for e in edges)


def only(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """The named columns, whatever characters their names have."""
    return frame.select(*(p.quote(n) for n in names))


def query_at(engine: Engine, table: StreamTable, compiled: CompiledQuery) -> DataFrame:
    """The user's query over its sources at the table's frontier, without differentiation and without stored state."""
    assert table.frontier is not None
    positions = {k: Position.from_json(v) for k, v in table.frontier["sources"].items()}
    edges = {e.source_key: e for e in engine.catalog.dependencies(table.id)}
    return query_over(engine, compiled, {k: (engine.source(edges[k]), at) for k, at in positions.items() if k in edges})


def query_over(engine: Engine, compiled: CompiledQuery, reads: Mapping[str, tuple[Source, Position]]) -> DataFrame:
    """The query over its sources at given positions."""
    plan = over_sources(compiled.plan)
    spark = engine.worker.running
    leaves = {}
    for leaf in walk(plan):
        if isinstance(leaf, p.State):
            source, at = reads[leaf.of]
            leaves[leaf_key(leaf)] = source.snapshot(spark, at, leaf.fields)
    frame = emit(plan, leaves, engine.worker.run_bridge, spark)
    by_name = {c.name: c.label for c in compiled.output}
    return frame.select(*(p.quote(n) for n in by_name)).toDF(*by_name.values())


def stored(engine: Engine, table: StreamTable, compiled: CompiledQuery) -> DataFrame:
    """The committed rows, visible columns only."""
    assert table.fold_base_version is not None
    assert table.folded_version is not None
    storage = engine.layout.root(table, table.generation)
    point = FoldPoint(table.fold_base_version, table.folded_version)
    names = [c.field for c in compiled.root.visible]
    return storage.read(engine.worker.running, table.version, point, columns=names)


def comparable(compiled: CompiledQuery, ties: bool = False) -> tuple[list[str], list[str]] | None:
    """(labels of columns whose values SQL does not leave open, labels of those that are arrays of open order).

    None if it is even open which rows there are. `ties` says whether the order of ties may differ.
    """
    found = openness(compiled.plan, ties)
    if found.rows or compiled.is_random:
        return None
    labels = {c.name: c.label for c in compiled.output if c.name not in found.columns}
    return list(labels.values()), [labels[n] for n in labels if n in found.lists]
