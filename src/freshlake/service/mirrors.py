"""Mirrors: the stream tables that hold captured tables, each over a shape that has the columns and no rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from deltalake import DeltaTable, Schema
from pyspark.sql.types import StructType

from freshlake.catalog.enums import DefinitionKind
from freshlake.catalog.names import DEFAULT_SCHEMA, TableName
from freshlake.catalog.records import NewStreamTable, StreamTable
from freshlake.compiler.plan import quote
from freshlake.refresh.definition import Definition
from freshlake.refresh.edges import edges_of
from freshlake.refresh.engine import Engine
from freshlake.refresh.pinned import SCHEMA
from freshlake.refresh.shape import meaning, node_schema
from freshlake.service.names import Names
from freshlake.storage.layout import logical_schema, stored_schema
from freshlake.storage.table import ChangeLogged

_SETTINGS = {SCHEMA: DEFAULT_SCHEMA}
Note = Callable[[StreamTable], None]


@dataclass
class Mirrors:
    engine: Engine
    names: Names

    def create(self, name: TableName, schema: StructType, note: Note = lambda _: None) -> StreamTable:
        """A mirror without rows, which the first refresh copies; `note` says in the same transaction what it holds.

        Who finds it in the catalog finds it whole, also if this process dies on the way.
        """
        definition = self._definition(name, schema)
        compiled = self.engine.compile(definition, _SETTINGS)
        new = NewStreamTable(
            name=name,
            storage_id=f"{name.name[:48]}-{uuid4().hex[:8]}",
            original_query=definition.text,
            defining_query=definition.text,
            definition_kind=definition.kind,
            **meaning(compiled, _SETTINGS),
        )
        try:
            # empty storage, so that definitions can name the table before it is copied
            ChangeLogged.create(self.engine.layout.node(new.storage_id, 1, "").path, node_schema(compiled.root))
            with self.engine.catalog.transaction():
                table = self.engine.catalog.insert_stream_table(new)
                self.engine.catalog.replace_dependencies(table.id, edges_of(self.engine.catalog, compiled))
                note(table)
        except BaseException:
            self.engine.layout.remove(new.storage_id)
            raise
        self.engine.ddl += 1
        return table

    def fits(self, mirror: StreamTable, schema: StructType) -> bool:
        """Whether a mirror has these columns."""
        return f"delta.{quote(self._place(mirror.full_name, stored_schema(schema)))}" in mirror.defining_query

    def reshape(self, mirror: StreamTable, schema: StructType) -> StreamTable:
        """Give a mirror other columns; its next refresh copies the table anew."""
        text = self._definition(mirror.full_name, schema).text
        self.engine.forget(mirror)
        return self.engine.catalog.update(mirror.id, original_query=text, defining_query=text)

    def delete(self, mirror: StreamTable) -> None:
        """Take a mirror out of the catalog."""
        self.engine.layout.doom(mirror.storage_id)
        self.engine.catalog.delete(mirror.id)

    def remove(self, mirror: StreamTable) -> None:
        """What is left of a mirror that the catalog does not have any more."""
        self.names.hide(mirror)
        self.engine.forget(mirror)
        self.engine.ddl += 1
        self.engine.layout.remove(mirror.storage_id)

    def _definition(self, name: TableName, schema: StructType) -> Definition:
        """Everything of the shape, under the names that the columns have in the database."""
        stored = stored_schema(schema)
        path = self._place(name, stored)
        DeltaTable.create(path, Schema.from_json(stored.json()), mode="ignore")
        pairs = zip(stored.names, logical_schema(stored).names, strict=True)
        columns = ", ".join(quote(s) if s == c else f"{quote(s)} AS {quote(c)}" for s, c in pairs)
        return Definition(DefinitionKind.CAPTURE, f"SELECT {columns} FROM delta.{quote(path)}")

    def _place(self, name: TableName, stored: StructType) -> str:
        assert name.database is not None
        digest = hashlib.sha256(stored.json().encode()).hexdigest()[:12]
        table = str(name).removeprefix(f"{name.database}.")
        return str(self.engine.layout.shapes(name.database) / f"{table}-{digest}")
