"""Finds the numbered steps and runs those that a catalog does not have yet, in the caller's transaction."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules

from sqlalchemy import Connection

_STEP = re.compile(r"m(\d{4})_")

Upgrade = Callable[[Connection], None]


def steps() -> Mapping[int, Upgrade]:
    """All steps by number, in order."""
    package = import_module(__package__)
    names = sorted(module.name for module in iter_modules(package.__path__))
    numbered = [(match, name) for name in names if (match := _STEP.match(name))]
    return {int(match[1]): import_module(f"{__package__}.{name}").upgrade for match, name in numbered}


def current_version() -> int:
    """The version of a catalog after all steps."""
    return max(steps())


def upgrade(connection: Connection, from_version: int, to_version: int | None = None) -> None:
    """Run the steps after `from_version`, up to `to_version` or the last."""
    last = current_version() if to_version is None else to_version
    for number, step in steps().items():
        if from_version < number <= last:
            step(connection)
