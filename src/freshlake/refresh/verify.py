"""verify: the query at the table's frontier, recomputed from its sources, against what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from freshlake.catalog.records import StreamTable
from freshlake.compiler import plan as p
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.emit import emit, leaf_key
from freshlake.compiler.walk import nodes as walk
from freshlake.compiler.walk import transform
from freshlake.errors import StreamTableNotPopulated
from freshlake.refresh.compare import Difference, compare, same_small
from freshlake.refresh.inputs import SMALL_ROWS, SourceSpan, are_small
from freshlake.refresh.result import Verification
from freshlake.refresh.spark_errors import translated
from freshlake.sources.protocol import Position, Source
from freshlake.storage.layout import FoldPoint

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine


def verify(engine: Engine, table: StreamTable) -> Verification:
    """Compares as bags both ways; columns whose value SQL leaves open (first, max_by …) are named, not compared."""
    if not table.is_populated or table.frontier is None:
        raise StreamTableNotPopulated(
            f"stream table {table.full_name.short} has not been loaded yet", hint="refresh it first"
        )
    compiled = engine.compiled(table)
    small = is_small(engine, table)
    engine.worker.size_for(small)
    engine.worker.run_under(table.session_settings)
    with translated():
        opened, arrays = open_columns(compiled)
        kept = [c.field for c in compiled.root.visible if c.field not in opened]
        expected = only(query_at(engine, table, compiled), kept)
        actual = only(stored(engine, table, compiled), kept)
        if small and same_small(expected, actual, engine.settings):
            difference = Difference(0, 0, ())
        else:
            difference = compare(expected, actual, unordered=[a for a in arrays if a in kept])
    return Verification(
        table=str(table.full_name),
        equal=difference.missing == 0 and difference.unexpected == 0,
        missing=difference.missing,
        unexpected=difference.unexpected,
        compared_rows=table.row_count or 0,
        sample=difference.sample,
        not_compared=tuple(opened),
        frontier=dict(table.frontier),
    )


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
    plan = transform(
        compiled.plan,
        lambda n: p.State(n.columns, n.source, n.fields, p.When.AFTER) if isinstance(n, p.Scan) else n,
    )
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


def open_columns(compiled: CompiledQuery) -> tuple[list[str], list[str]]:
    """(labels of columns SQL leaves open, labels of arrays whose order it leaves open)."""
    tainted: set[str] = set()
    lists: set[str] = set()
    for node in walk(compiled.plan):
        if isinstance(node, p.Aggregate):
            for call in node.calls:
                if "order-sensitive" in call.facts:
                    (lists if call.function in ("CollectList", "CollectSet") else tainted).add(call.name)
    changed = True
    while changed:
        changed = False
        for node in walk(compiled.plan):
            for item in node.items if isinstance(node, p.Project | p.Window) else ():
                reads = set(item.reads)
                copied = item.source
                if copied in lists and item.name not in lists:
                    lists.add(item.name)
                    changed = True
                elif (reads & (tainted | lists)) and copied not in lists and item.name not in tainted | lists:
                    tainted.add(item.name)
                    changed = True
    labels = {c.name: c.label for c in compiled.output}
    return [labels[n] for n in labels if n in tainted], [labels[n] for n in labels if n in lists]
