"""When to fold: a pure decision with its reason."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from freshlake.storage.layout import Pending


class FoldPolicy(StrEnum):
    """How eagerly a table's log is folded into its base."""

    ALWAYS = "always"
    AUTO = "auto"
    MANUAL = "manual"


class FoldSettings(Protocol):
    """The settings the decision looks at."""

    @property
    def fold_after_refreshes(self) -> int: ...
    @property
    def fold_after_ratio(self) -> float: ...
    @property
    def driver_result_bytes(self) -> int: ...
    @property
    def driver_rows(self) -> int: ...


# Netting this many log rows on the driver costs less than any fold, however small the base.
FREE_ROWS = 10_000
# A log larger than this share of what the driver may hold would soon be summed by Spark with the whole base.
_DRIVER_SHARE = 0.25


def should_fold(
    policy: FoldPolicy | str,
    pending: Pending,
    base_rows: int | None,
    settings: FoldSettings,
    base_bytes: int | None = None,
) -> str | None:
    """Why the log should be folded now, or None."""
    policy = FoldPolicy(policy)
    if pending.versions == 0 or policy is FoldPolicy.MANUAL:
        return None
    if policy is FoldPolicy.ALWAYS:
        return "fold-always"
    if pending.versions >= settings.fold_after_refreshes:
        return "fold-refreshes"
    if _outgrows_driver(pending, settings):
        return "fold-driver-limit"
    if pending.rows <= FREE_ROWS:
        return None
    if base_rows is not None and pending.rows >= base_rows * settings.fold_after_ratio:
        return "fold-rows"
    if base_bytes is not None and pending.bytes >= base_bytes * settings.fold_after_ratio:
        return "fold-bytes"
    return None


def _outgrows_driver(pending: Pending, settings: FoldSettings) -> bool:
    return (
        pending.bytes >= settings.driver_result_bytes * _DRIVER_SHARE
        or pending.rows >= settings.driver_rows * _DRIVER_SHARE
    )
