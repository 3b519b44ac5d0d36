"""Settings as a report: what is in force, and where each value comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from freshlake.config import Settings, addresses, allowed

_HIDDEN = "(hidden)"


@dataclass(frozen=True)
class SettingInfo:
    """A setting; of addresses, which may hold a secret, `value` has only scheme and host."""

    name: str
    value: Any
    origin: str
    default: Any
    allowed: str
    description: str


def setting_infos(settings: Settings) -> list[SettingInfo]:
    """All settings, in the order of the documentation."""
    return [
        SettingInfo(
            name=name,
            value=_shown(name, getattr(settings, name)),
            origin=settings.origin(name),
            default=field.default,
            allowed=allowed(name),
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def _shown(name: str, value: Any) -> Any:
    if name == "catalog":
        return value if value == "sqlite" else _place(value)
    return ", ".join(map(_place, addresses(value))) if name == "alert_webhooks" else value


def _place(url: str) -> str:
    """A password may stand before the host, a token after it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return _HIDDEN if "@" in url and host == parts.netloc else f"{parts.scheme}://{host}/…"
