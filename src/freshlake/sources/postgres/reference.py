"""Where the address of a database is kept: what is stored of a connection, never the address itself."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from freshlake.errors import ConnectionNotFound, InvalidConnection

_FORM = re.compile(r"(env|service|file):(.+)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SERVICE = re.compile(r"[A-Za-z0-9_.-]+")


class Keeper(StrEnum):
    """Who keeps the address."""

    ENVIRONMENT = "env"
    SERVICE = "service"
    FILE = "file"


@dataclass(frozen=True)
class ConnectionReference:
    """`env:SHOP_DATABASE`, `service:shop` or `file:/run/secrets/shop`; its text may be stored and shown."""

    keeper: Keeper
    name: str

    @classmethod
    def parse(cls, text: str) -> ConnectionReference:
        """A reference from its text; an address in its place is refused without being repeated."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise InvalidConnection("a connection is named by env:, service: or file:, not by its address")
        keeper, name = Keeper(match[1]), match[2].strip()
        if not _is_name(keeper, name):
            raise InvalidConnection(f"a reference of the form {keeper}: does not name {_WHAT[keeper]}")
        return cls(keeper, name)

    def __str__(self) -> str:
        return f"{self.keeper}:{self.name}"

    def resolve(self) -> str:
        """The address, read now, so that a changed password is used at the next connection."""
        if self.keeper is Keeper.SERVICE:
            # libpq looks it up and completes it
            return f"service={self.name}"
        text = _variable(self.name) if self.keeper is Keeper.ENVIRONMENT else _file(self.name)
        if not text.strip():
            raise ConnectionNotFound(f"{self} is empty", hint="put the address of the database there")
        return text.strip()


_WHAT = {
    Keeper.ENVIRONMENT: "a variable",
    Keeper.SERVICE: "a service of letters, digits, dots and dashes",
    Keeper.FILE: "an absolute path",
}


def _is_name(keeper: Keeper, name: str) -> bool:
    if keeper is Keeper.FILE:
        return name.startswith("/") and name.isprintable()
    return bool((_VARIABLE if keeper is Keeper.ENVIRONMENT else _SERVICE).fullmatch(name))


def _variable(name: str) -> str:
    if name not in os.environ:
        raise ConnectionNotFound(
            f"the environment variable {name} is not set", hint=f"set {name} to the address of the database"
        )
    return os.environ[name]


def _file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        hint = "create it with the address of the database, readable for the user that runs Freshlake"
        raise ConnectionNotFound(f"the file {path} cannot be read", detail=why, hint=hint) from None
