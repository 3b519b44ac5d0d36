"""The certificate at creation: what was stored has the names, types and rows of the user's own query.

Freshlake never runs the user's text but a plan read from it; this is the proof, made once on real data, that nothing
was lost on the way. Counts and order-independent checksums are compared; a mismatch refuses the table.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from freshlake.catalog.records import StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.errors import NotReproducible
from freshlake.refresh.compare import floating, same_small
from freshlake.refresh.definition import Definition
from freshlake.refresh.inputs import SourceSpan, are_small
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.verify import only, open_columns, stored
from freshlake.storage.identity import identity

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine


def certify(
    engine: Engine,
    table: StreamTable,
    definition: Definition,
    compiled: CompiledQuery,
    spans: Collection[SourceSpan],
) -> None:
    """Raises NotReproducible, naming what differs. Sources that moved meanwhile leave nothing to compare with."""
    worker = engine.worker
    worker.pin({k: str(v) for k, v in table.session_settings.items()})
    users = definition.frame(worker.binding)
    ours = stored(engine, table, compiled)
    _same_columns(users, ours, table)
    opened, lists = open_columns(compiled)
    skipped = {*opened, *lists, *(f.name for f in users.schema if floating(f.dataType))}
    kept = [c for c in users.columns if c not in skipped]
    with translated():
        if are_small(spans) and same_small(only(users, kept), only(ours, kept), engine.settings):
            return
        expected, found = _checksum(users, kept), _checksum(ours, kept)
    if expected != found and not any(span.source.head() != span.end for span in spans):
        raise NotReproducible(
            f"the query of {table.full_name.short} could not be reproduced exactly",
            detail=f"Spark's own result has {expected[0]} rows, the compiled plan gave {found[0]}"
            + ("" if expected[0] != found[0] else " with other values"),
            hint="use a deterministic query over Delta tables",
        )


def _same_columns(users: DataFrame, ours: DataFrame, table: StreamTable) -> None:
    for theirs, mine in zip(users.schema, ours.schema, strict=True):
        # stored columns are nullable throughout, so nullability inside nested types may differ
        if (theirs.name, theirs.dataType.simpleString()) != (mine.name, mine.dataType.simpleString()):
            found = f"{mine.name} {mine.dataType.simpleString()}"
            raise NotReproducible(
                f"column {theirs.name} of {table.full_name.short} came out as {found}",
                detail=f"the query says {theirs.dataType.simpleString()}",
            )


def _checksum(frame: DataFrame, columns: list[str]) -> tuple[int, int]:
    """Row count and a sum of row hashes; NULLs are marked, so they count."""
    narrow = only(frame, columns)
    parts = [F.expr(e) for e in identity(narrow.schema)]
    texts = [F.coalesce(F.to_json(F.struct(e.alias("v"))), F.lit("null")) for e in parts]
    value = F.xxhash64(*texts) if texts else F.lit(0).cast("bigint")
    row = narrow.select(value.cast("decimal(38,0)").alias("h")).agg(F.count(F.lit(1)), F.sum("h")).first()
    assert row is not None
    return int(row[0]), int(row[1] or 0)
