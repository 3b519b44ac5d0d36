"""Column types that turn database values into the values of the records and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, DateTime, String
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from freshlake.catalog.records import NodeState


class Moment(TypeDecorator[datetime]):
    """An aware datetime, stored in UTC without zone so that it sorts the same in every database."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment needs a time zone")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


class Word(TypeDecorator[StrEnum]):
    """A string enum, stored as its value."""

    impl = String
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__(32)
        self.kind = kind

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else self.kind(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.kind(value)


class Items(TypeDecorator[tuple[Any, ...]]):
    """A tuple of plain values, stored as a JSON array; None stays NULL."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: tuple[Any, ...] | None, dialect: Dialect) -> list[Any] | None:
        return None if value is None else list(value)

    def process_result_value(self, value: list[Any] | None, dialect: Dialect) -> tuple[Any, ...] | None:
        return None if value is None else tuple(value)


class Nodes(TypeDecorator[Mapping[str, NodeState]]):
    """Internal nodes by id, stored as a JSON object."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, NodeState] | None, dialect: Dialect) -> dict[str, Any]:
        return {node: asdict(state) for node, state in (value or {}).items()}

    def process_result_value(self, value: dict[str, Any] | None, dialect: Dialect) -> Mapping[str, NodeState]:
        return {node: NodeState(**state) for node, state in (value or {}).items()}
