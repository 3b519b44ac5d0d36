"""The certificate at creation: what was stored has the names, types and rows of the user's own query.

Freshlake never runs the user's text but a plan read from it; this is the proof, made once on real data, that nothing
was lost on the way. Counts and order-independent checksums are compared; a mismatch refuses the table. Where the query
orders rows with ties, Spark may have taken them in another order: then only what does not depend on it is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from freshlake.catalog.records import StreamTable
from freshlake.compiler.bind import at_one_moment
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.current_time import NOW
from freshlake.errors import NotReproducible
from freshlake.refresh.compare import floating, same_small
from freshlake.refresh.definition import Definition
from freshlake.refresh.inputs import SourceSpan, are_small
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.verify import comparable, only, query_over, stored
from freshlake.sources.current_time import position_at
from freshlake.sources.protocol import Position, Source, SourceKind
from freshlake.storage.identity import identity

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine


def certify(
    engine: Engine,
    table: StreamTable,
    definition: Definition,
    compiled: CompiledQuery,
    spans: Mapping[str, SourceSpan],
) -> None:
    """Raises NotReproducible, naming what differs. Sources that moved meanwhile leave nothing to compare with."""
    worker = engine.worker
    worker.pin(table.session_settings)
    users, seen = _as_spark_sees(engine, definition.frame(worker.binding), spans)
    ours = stored(engine, table, compiled)
    _same_columns(users, ours, table)
    kept, without_ties = (_compared(compiled, users, ties) for ties in (False, True))
    for expected, found in _pairs(engine, compiled, spans, seen, users, ours):
        why = _differ(engine, spans, expected, found, kept)
        if why and without_ties != kept:
            why = _differ(engine, spans, expected, found, without_ties)
        if why:
            raise NotReproducible(
                f"the query of {table.full_name.short} could not be reproduced exactly",
                detail=why,
                hint="use a deterministic query over Delta tables",
            )


def _compared(compiled: CompiledQuery, users: DataFrame, ties: bool) -> list[str] | None:
    found = comparable(compiled, ties)
    if found is None:
        return None
    closed, lists = found
    skipped = {*lists, *(f.name for f in users.schema if floating(f.dataType))}
    return [c for c in closed if c not in skipped]


def _as_spark_sees(
    engine: Engine, users: DataFrame, spans: Mapping[str, SourceSpan]
) -> tuple[DataFrame, dict[str, tuple[Source, Position]]]:
    """The user's query and the positions at which Spark runs it: that of the time is what its own clock says."""
    seen = {key: (span.source, span.source.seen_by_spark(span.end)) for key, span in spans.items()}
    if NOW in spans:
        users, microseconds = at_one_moment(users, engine.worker.bridge)
        seen[NOW] = (spans[NOW].source, position_at(microseconds))
    return users, seen


def _pairs(
    engine: Engine,
    compiled: CompiledQuery,
    spans: Mapping[str, SourceSpan],
    seen: Mapping[str, tuple[Source, Position]],
    users: DataFrame,
    ours: DataFrame,
) -> list[tuple[DataFrame, DataFrame]]:
    """What must be equal. Plain Spark sees an upstream stream table as it was last folded, and the time by its own
    clock: there the plan is compared with the user's query, and the rows with the plan."""
    at = {key: (span.source, span.end) for key, span in spans.items()}
    if seen == at:
        return [(users, ours)]
    return [(users, query_over(engine, compiled, seen)), (query_over(engine, compiled, at), ours)]


def _differ(
    engine: Engine, spans: Mapping[str, SourceSpan], expected: DataFrame, found: DataFrame, names: Sequence[str] | None
) -> str | None:
    """What is not the same in these columns, in words; None, too, if nothing can be compared."""
    if names is None:
        return None
    theirs, ours = only(expected, names), only(found, names)
    with translated():
        if are_small(spans.values()) and same_small(theirs, ours, engine.settings):
            return None
        (count, checksum), (stored_count, stored_checksum) = _checksum(theirs), _checksum(ours)
    if any(_has_moved(span) for span in spans.values()):
        return None
    if count != stored_count:
        return f"Spark's own result has {count} rows, the compiled plan gave {stored_count}"
    same = checksum == stored_checksum
    return None if same else f"Spark's own result has {count} rows, the compiled plan as many with other values"


def _has_moved(span: SourceSpan) -> bool:
    """The time always has, but it was pinned on both sides."""
    return span.source.kind is not SourceKind.TIME and span.source.head() != span.end


def _same_columns(users: DataFrame, ours: DataFrame, table: StreamTable) -> None:
    for theirs, mine in zip(users.schema, ours.schema, strict=True):
        # stored columns are nullable throughout, so nullability inside nested types may differ
        if (theirs.name, theirs.dataType.simpleString()) != (mine.name, mine.dataType.simpleString()):
            found = f"{mine.name} {mine.dataType.simpleString()}"
            raise NotReproducible(
                f"column {theirs.name} of {table.full_name.short} came out as {found}",
                detail=f"the query says {theirs.dataType.simpleString()}",
            )


def _checksum(frame: DataFrame) -> tuple[int, int]:
    """Row count and a sum of row hashes; NULLs are marked, so they count."""
    parts = [F.expr(e) for e in identity(frame.schema)]
    texts = [F.coalesce(F.to_json(F.struct(e.alias("v"))), F.lit("null")) for e in parts]
    value = F.xxhash64(*texts) if texts else F.lit(0).cast("bigint")
    row = frame.select(value.cast("decimal(38,0)").alias("h")).agg(F.count(F.lit(1)), F.sum("h")).first()
    assert row is not None
    return int(row[0]), int(row[1] or 0)
