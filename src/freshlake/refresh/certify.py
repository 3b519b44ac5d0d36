"""The certificate at creation: what was stored has the names, types and rows of the user's own query.

Freshlake never runs the user's text but a plan read from it; this is the proof, made once on real data, that nothing
was lost on the way. Exact columns are compared exactly, floating ones within rounding, lists whose order is open as
bags; columns whose value is open (`first`, `max_by` …) by name and type only. A mismatch refuses the table. Where the
query orders rows with ties, Spark may have taken them in another order: then only what does not depend on it counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from freshlake.catalog.records import StreamTable
from freshlake.compiler.bridge import CATALYST, Bridge
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.current_time import NOW
from freshlake.errors import NotReproducible
from freshlake.refresh.compare import alike, compare, same_small
from freshlake.refresh.definition import Definition
from freshlake.refresh.inputs import SourceSpan, are_small
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.verify import comparable, only, query_over, stored
from freshlake.sources.current_time import position_at
from freshlake.sources.protocol import Position, Source, SourceKind

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
    users, seen = _as_spark_sees(engine, engine.frame(definition), spans)
    ours = stored(engine, table, compiled)
    _same_columns(users, ours, table)
    closed, without_ties = (comparable(compiled, ties) for ties in (False, True))
    for expected, found in _pairs(engine, compiled, spans, seen, users, ours):
        why = _differ(engine, spans, expected, found, closed)
        if why and without_ties != closed:
            why = _differ(engine, spans, expected, found, without_ties)
        if why:
            raise NotReproducible(
                f"the query of {table.full_name.short} could not be reproduced exactly",
                detail=why,
                hint="use a deterministic query over Delta tables",
            )


def _as_spark_sees(
    engine: Engine, users: DataFrame, spans: Mapping[str, SourceSpan]
) -> tuple[DataFrame, dict[str, tuple[Source, Position]]]:
    """The user's query and the positions at which Spark runs it: that of the time is what its own clock says."""
    seen = {key: (span.source, span.source.seen_by_spark(span.end)) for key, span in spans.items()}
    if NOW in spans:
        users, microseconds = _at_one_moment(users, engine.worker.bridge)
        seen[NOW] = (spans[NOW].source, position_at(microseconds))
    return users, seen


def _at_one_moment(frame: DataFrame, bridge: Bridge) -> tuple[DataFrame, int]:
    """The query with the current time that Spark gives it, and that time in microseconds since 1970."""
    clock = bridge.alias(bridge.expressions.CurrentTimestamp(), "now")
    with bridge.active():
        marked = bridge.node["Project"](bridge.seq([clock]), frame._jdf.queryExecution().analyzed())
        pinned = bridge.module(CATALYST + "optimizer.ComputeCurrentTime").apply(marked)
        pinned = bridge.module(CATALYST + "optimizer.SpecialDatetimeValues").apply(pinned)
    dataset = bridge.dataset.ofRows(bridge.spark._jsparkSession, pinned.children().head())
    return cast(DataFrame, ClassicDataFrame(dataset, bridge.spark)), int(pinned.projectList().apply(0).child().value())


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
    engine: Engine,
    spans: Mapping[str, SourceSpan],
    expected: DataFrame,
    found: DataFrame,
    columns: tuple[Sequence[str], Sequence[str]] | None,
) -> str | None:
    """What is not the same in these columns, of which some are unordered; None, too, if nothing can be compared."""
    if columns is None:
        return None
    names, lists = columns
    theirs, ours, unordered = only(expected, names), only(found, names), [c for c in lists if c in names]
    with translated():
        if are_small(spans.values()) and _same_small(engine, theirs, ours):
            return None
        if alike(theirs, ours, unordered=unordered) or _have_moved(spans):
            return None
        difference = compare(theirs, ours, unordered=unordered)
    if not (difference.missing or difference.unexpected) or _have_moved(spans):
        return None
    return (
        f"of the rows of Spark's own result {difference.missing} are not in that of the compiled plan, "
        f"which has {difference.unexpected} others; for example {difference.sample[0]}"
    )


def _same_small(engine: Engine, expected: DataFrame, found: DataFrame) -> bool:
    engine.worker.interpret(True)
    try:
        return same_small(expected, found, engine.settings)
    finally:
        engine.worker.interpret(False)


def _have_moved(spans: Mapping[str, SourceSpan]) -> bool:
    """Whether Spark read a source later than the plan did. The time always goes on, but it was pinned on both sides."""
    return any(s.source.kind is not SourceKind.TIME and s.source.head() != s.end for s in spans.values())


def _same_columns(users: DataFrame, ours: DataFrame, table: StreamTable) -> None:
    for theirs, mine in zip(users.schema, ours.schema, strict=True):
        # stored columns are nullable throughout, so nullability inside nested types may differ
        if (theirs.name, theirs.dataType.simpleString()) != (mine.name, mine.dataType.simpleString()):
            found = f"{mine.name} {mine.dataType.simpleString()}"
            raise NotReproducible(
                f"column {theirs.name} of {table.full_name.short} came out as {found}",
                detail=f"the query says {theirs.dataType.simpleString()}",
            )
