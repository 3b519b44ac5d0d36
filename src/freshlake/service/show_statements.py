"""Statements that only look: each is one call of the Python API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from freshlake.service.groups import group_row
from freshlake.statements.values import Show, Shown

if TYPE_CHECKING:
    from freshlake.lake import Freshlake

_OF_THE_LAKE: Mapping[Shown, Callable[[Freshlake], Iterable[Any]]] = {
    Shown.GROUPS: lambda fl: [group_row(group) for group in fl.refresh_groups()],
    Shown.TREE: lambda fl: fl.dependency_tree(),
    Shown.WORKERS: lambda fl: fl.worker_pool_status(),
    Shown.JOBS: lambda fl: fl.parallel_job_status(),
    # a column has one type
    Shown.SETTINGS: lambda fl: [replace(s, value=str(s.value), default=str(s.default)) for s in fl.settings()],
    Shown.CDC_STATUS: lambda fl: fl.cdc_status(),
    Shown.CDC_HEALTH: lambda fl: fl.check_cdc_health(),
    Shown.CDC_SLOTS: lambda fl: fl.slot_health(),
    Shown.CDC_BUFFERS: lambda fl: fl.change_buffer_sizes(),
}
_OF_A_TABLE: Mapping[Shown, Callable[[Freshlake, str], Iterable[Any]]] = {
    Shown.CHOICE: lambda fl, name: [fl.explain_choice(name)],
    Shown.CHOICES: lambda fl, name: fl.replay_choices(name),
    Shown.DIAGNOSIS: lambda fl, name: fl.doctor(name),
}


def show(fl: Freshlake, statement: Show) -> Iterable[Any]:
    """The records that a statement asks for."""
    if statement.what is Shown.SOURCES:
        return fl.sources(statement.name)
    if statement.what in _OF_THE_LAKE:
        return _OF_THE_LAKE[statement.what](fl)
    assert statement.name is not None, "the statement names a table"
    return _OF_A_TABLE[statement.what](fl, statement.name)
