"""Names of what Freshlake installs in a source database: one set per project, so that several may share it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from freshlake.errors import InvalidArgument

DEFAULT_SCHEMA = "freshlake_changes"
_PROJECT = re.compile(r"[a-z0-9]{1,16}")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True)
class Names:
    """Names of one project: its short id is part of all of them, and of nothing that anybody else makes."""

    project: str
    schema: str = DEFAULT_SCHEMA

    def __post_init__(self) -> None:
        if not _PROJECT.fullmatch(self.project):
            raise InvalidArgument("the id of a project has up to 16 small letters and digits")
        if not _SCHEMA.fullmatch(self.schema) or self.schema.startswith("pg_"):
            raise InvalidArgument(
                f"the schema for changes cannot be called {self.schema}",
                hint="use small letters, digits and underscores",
            )

    def buffer(self, oid: int) -> str:
        """The table that collects the changes of a source table."""
        return f"{self.schema}.changes_{self.project}_{oid}"

    def function(self, oid: int, event: str) -> str:
        """The function of one trigger."""
        return f"{self.schema}.cdc_{self.project}_{oid}_{event}"

    def trigger(self, oid: int, event: str) -> str:
        """The trigger on a source table and on its partitions; those of others may stand beside it."""
        return f"freshlake_cdc_{self.project}_{oid}_{event}"

    @property
    def released(self) -> str:
        """The table that says how far changes were given up."""
        return f"{self.schema}.released_{self.project}"

    @property
    def guard(self) -> str:
        """A function that the others use to see whether types are still the same."""
        return f"{self.schema}.same_{self.project}"

    @property
    def blocker(self) -> str:
        """The function that refuses DDL."""
        return f"{self.schema}.ddl_{self.project}"

    @property
    def blocking(self) -> str:
        """What the names of event triggers begin with; their event follows."""
        return f"freshlake_ddl_{self.project}"

    def slot(self, database_oid: int) -> str:
        """The replication slot; slots of all databases of a server share one space of names."""
        return f"{self.slots}{database_oid}"

    @property
    def slots(self) -> str:
        """What the names of replication slots begin with; the number of their database follows."""
        return f"freshlake_slot_{self.project}_"

    @property
    def publication(self) -> str:
        return f"freshlake_{self.project}"


def quoted(name: str) -> str:
    """A name as it stands in a statement."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as it stands in a statement, whatever the server thinks of backslashes."""
    escaped = text.replace("'", "''")
    return "E'" + escaped.replace("\\", "\\\\") + "'" if "\\" in escaped else f"'{escaped}'"
