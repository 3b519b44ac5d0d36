"""The errors of refreshes that are not possible as asked for, or that an option of their stream table refuses."""

from __future__ import annotations

from collections.abc import Mapping

from freshlake.catalog.names import TableName
from freshlake.catalog.records import StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.errors import (
    FreshlakeError,
    FullRefused,
    FuseBlown,
    InternalError,
    NotDifferentiable,
    SourceHistoryLost,
    StreamTableNotPopulated,
)
from freshlake.refresh.choose import Refusal
from freshlake.refresh.inputs import SourceSpan


def refused(name: TableName, refusal: Refusal) -> FreshlakeError:
    if refusal.code == FuseBlown.code:
        return FuseBlown(
            f"the fuse of stream table {name.short} has blown",
            detail=refusal.detail,
            hint=f'look at the source; then let the next refresh pass: fl.resume("{name.short}")',
        )
    return full_refused(name, refusal.detail)


def full_refused(name: TableName, detail: str) -> FullRefused:
    return FullRefused(
        f"stream table {name.short} would have to be recomputed, which its options forbid",
        detail=detail,
        hint=f'recompute it once: fl.refresh("{name.short}", mode="FULL")',
    )


def require_differential(compiled: CompiledQuery, name: TableName) -> None:
    """Refuse DIFFERENTIAL for a query that has no rules for it."""
    if compiled.reasons:
        first, *others = compiled.reasons
        raise NotDifferentiable(
            f"the query of {name.short} cannot be refreshed differentially",
            detail="; ".join((first.message, *(r.told for r in others))),
            hint=first.hint,
            construct=first.construct,
            position=first.position,
        )


def require_baseline(table: StreamTable, spans: Mapping[str, SourceSpan]) -> None:
    """Refuse to apply changes to what was never loaded, or to what does not say from where they lead."""
    name = table.full_name.short
    if not table.is_populated:
        raise StreamTableNotPopulated(
            f"stream table {name} has no rows that changes could be applied to",
            hint=f'load it first: fl.refresh("{name}", mode="FULL")',
        )
    for span in spans.values():
        if span.start is None:
            raise SourceHistoryLost(
                f"stream table {name} does not say up to where it has read {span.source.name}",
                hint=f'recompute it: fl.refresh("{name}", mode="FULL")',
            )


def defect(name: TableName, error: Exception) -> InternalError:
    """What should not happen must not leave a refresh that looks as if it were still running."""
    message = f"the refresh of {name.short} failed in a way that Freshlake did not expect"
    return InternalError(message, detail=f"{type(error).__name__}: {error}")
