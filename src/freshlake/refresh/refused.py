"""The errors of refreshes that are not possible as asked for, or that an option of their stream table refuses."""

from __future__ import annotations

from freshlake.catalog.names import TableName
from freshlake.compiler.compile import CompiledQuery
from freshlake.errors import FreshlakeError, FullRefused, FuseBlown, InternalError, NotDifferentiable
from freshlake.refresh.choose import Refusal


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
        raise NotDifferentiable(
            f"the query of {name.short} cannot be refreshed differentially",
            detail="; ".join(r.message for r in compiled.reasons),
            hint=compiled.reasons[0].hint,
            construct=compiled.reasons[0].construct,
            position=compiled.reasons[0].position,
        )


def defect(name: TableName, error: Exception) -> InternalError:
    """What should not happen must not leave a refresh that looks as if it were still running."""
    message = f"the refresh of {name.short} failed in a way that Freshlake did not expect"
    return InternalError(message, detail=f"{type(error).__name__}: {error}")
