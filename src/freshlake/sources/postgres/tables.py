"""A captured database as values: tables, columns, keys, partitions, and what of a table is captured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from freshlake.errors import CaptureUnsupported, UnsupportedType
from freshlake.sources.postgres.naming import quoted
from freshlake.sources.postgres.types import TEXT, LakeType, Refusal, SourceType, lake_type

_RESERVED = "__fl_"


class TableKind(StrEnum):
    """What pg_class calls relkind."""

    TABLE = "r"
    PARTITIONED = "p"
    VIEW = "v"
    MATERIALIZED_VIEW = "m"
    FOREIGN = "f"


class Identity(StrEnum):
    """The replica identity: which old values of a row reach the log."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True)
class Column:
    """A column; `number` stays the same when it is renamed, `made` changes with every ALTER of the column."""

    number: int
    name: str
    type: SourceType
    written_type: str
    made: int
    not_null: bool = False
    generated: str = ""


@dataclass(frozen=True)
class Partition:
    """A partition that holds rows. `storage` changes when its rows are written anew (TRUNCATE, a rewriting ALTER)."""

    oid: int
    schema: str
    name: str
    storage: int
    identity: Identity

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Table:
    """One table at one moment, as the capturing user sees it.

    `partitions` are those that hold rows (the leaves); a plain table has none. `row_security` is empty without any,
    and otherwise changes with its switches and policies; `hides_rows` says that it applies to the capturing user.
    """

    oid: int
    schema: str
    name: str
    kind: TableKind
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    identity: Identity
    owner: str
    persistence: str
    storage: int
    partitions: tuple[Partition, ...] = ()
    has_parent: bool = False
    has_children: bool = False
    is_subscribed: bool = False
    row_security: str = ""
    hides_rows: bool = False
    is_owned: bool = True
    money_digits: int = 2

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted_name(self) -> str:
        """As it stands in a statement."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def column(self, name: str) -> Column:
        """A column by its name, with or without its case (as Spark finds it)."""
        exact = [c for c in self.columns if c.name == name]
        found = exact or [c for c in self.columns if c.name.lower() == name.lower()]
        if len(found) != 1:
            many = "several columns" if found else "no column"
            raise UnsupportedType(
                f"table {self.full_name} has {many} named {name}", hint="write the name as it is there"
            )
        return found[0]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Table:
        """The inverse of `to_json`."""
        parts = {
            "kind": TableKind(data["kind"]),
            "identity": Identity(data["identity"]),
            "columns": tuple(_column(c) for c in data["columns"]),
            "key": tuple(data["key"]),
            "partitions": tuple(Partition(**{**p, "identity": Identity(p["identity"])}) for p in data["partitions"]),
        }
        return cls(**{**data, **parts})


def _column(data: Mapping[str, Any]) -> Column:
    return Column(**{**data, "type": _type(data["type"])})


def _type(data: Mapping[str, Any]) -> SourceType:
    inner = {name: _type(data[name]) if data[name] else None for name in ("base", "element")}
    return SourceType(**{**data, **inner, "labels": tuple(data["labels"])})


@dataclass(frozen=True)
class Captured:
    """What is captured of a table: some columns in their own order, some of them as text.

    The order of `columns` is that of the table, whatever order they were asked for in. `mark` is what the database
    calls the table's place in the publication; another one means that capture was interrupted. `held` are the columns
    whose values the mirror has: fewer than are captured until it is copied with all of them.
    """

    table: Table
    columns: tuple[Column, ...]
    as_text: frozenset[str] = frozenset()
    mark: str = ""
    held: frozenset[str] | None = None

    def of(self, table: Table) -> Captured:
        """The same columns of the table as it is now."""
        kept = set(self.names)
        return replace(self, table=table, columns=tuple(c for c in table.columns if c.name in kept))

    def marked(self, mark: str) -> Captured:
        """The same, known in the database by a mark."""
        return replace(self, mark=mark)

    @property
    def oid(self) -> int:
        return self.table.oid

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def whole(self) -> tuple[Column, ...]:
        """All columns that could be captured, which are those of the mirror."""
        return tuple(c for c in self.table.columns if refusal(self.table, c, self.as_text) is None)

    @property
    def whole_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.whole)

    @property
    def is_selective(self) -> bool:
        """Whether less is captured than could be."""
        return len(self.columns) < len(self.whole)

    @property
    def shown(self) -> frozenset[str]:
        """The columns that a reader of the mirror may see; the others have no values there."""
        return frozenset(self.names) if self.held is None else self.held

    def lacks(self, names: Iterable[str] | None) -> frozenset[str]:
        """Those of these columns (None: of all) that the mirror has no values of; without a name it needs one."""
        wanted = frozenset(self.whole_names) if names is None else frozenset(names)
        missing = wanted - self.shown
        return missing if missing or self.shown else frozenset(self.whole_names)

    def copied(self, columns: tuple[Column, ...]) -> Captured:
        """The same, when the mirror was copied with these columns."""
        return replace(self, held=frozenset(c.name for c in columns))

    def lake_type(self, column: Column) -> LakeType:
        """Where the values of a column go that can be captured."""
        found = _lake_type(self.table, column, self.as_text)
        assert isinstance(found, LakeType), "refused columns are not captured"
        return found

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        chosen = {"columns": list(self.names), "as_text": sorted(self.as_text), "mark": self.mark}
        held = None if self.held is None else sorted(self.held)
        return {"table": self.table.to_json(), **chosen, "held": held}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Captured:
        """The inverse of `to_json`."""
        table = Table.from_json(data["table"])
        chosen = set(data["columns"])
        columns = tuple(c for c in table.columns if c.name in chosen)
        held = data.get("held")
        return cls(table, columns, frozenset(data["as_text"]), data["mark"], None if held is None else frozenset(held))


def refusal(table: Table, column: Column, as_text: Collection[str] = ()) -> Refusal | None:
    """Why a column cannot be captured; None if it can."""
    if column.name.startswith(_RESERVED):
        return Refusal(f"names that begin with {_RESERVED} are Freshlake's own", "rename the column")
    if sum(other.name.lower() == column.name.lower() for other in table.columns) > 1:
        return Refusal("the lake does not tell names apart by case", "rename the column")
    if column.generated == "v":
        return Refusal("a virtual generated column is stored nowhere", "make it STORED, or compute it in the query")
    found = _lake_type(table, column, as_text)
    return found if isinstance(found, Refusal) else None


def _lake_type(table: Table, column: Column, as_text: Collection[str]) -> LakeType | Refusal:
    if column.name in as_text:
        return TEXT
    return lake_type(column.type, money_digits=table.money_digits)


def capture_all(table: Table, as_text: Iterable[str] = ()) -> Captured:
    """Every column that can be captured; `refused` tells those that cannot."""
    texts = frozenset(table.column(name).name for name in as_text)
    found = Captured(table, (), texts)
    return replace(found, columns=found.whole)


def capture_nothing(captured: Captured) -> Captured:
    """The same table before anybody has said what is needed of it."""
    return replace(captured, columns=(), held=frozenset())


def refused(table: Table, as_text: Collection[str] = ()) -> dict[str, Refusal]:
    """The columns that `capture_all` leaves out, each with its reason."""
    found = {c.name: refusal(table, c, as_text) for c in table.columns}
    return {name: why for name, why in found.items() if why is not None}


def capture_some(table: Table, names: Iterable[str], as_text: Iterable[str] = ()) -> Captured:
    """The named columns and the key; raises UnsupportedType for one that cannot be captured.

    Without any name the table is captured whole: there is nothing to leave out for.
    """
    wanted = {table.column(name).name for name in names}
    texts = frozenset(table.column(name).name for name in as_text)
    if not wanted:
        return capture_all(table, texts)
    for name in wanted:
        why = refusal(table, table.column(name), texts)
        if why is not None:
            kind = table.column(name).written_type
            message = f"column {name} of table {table.full_name} has type {kind}, which is not captured"
            raise UnsupportedType(message, detail=why.reason, hint=why.rewrite)
    kept = wanted | {name for name in table.key if refusal(table, table.column(name), texts) is None}
    return Captured(table, tuple(c for c in table.columns if c.name in kept), texts)


def widened(captured: Captured, names: Iterable[str]) -> Captured:
    """The same with more columns: what one consumer captures, another may need beyond."""
    wider = capture_some(captured.table, {*captured.names, *names}, captured.as_text)
    return replace(captured, columns=wider.columns, held=captured.shown)


_UNSUPPORTED = {
    TableKind.VIEW: ("a view has no changes of its own", "capture the tables below it and write its query in the lake"),
    TableKind.MATERIALIZED_VIEW: ("it changes only when it is refreshed", "capture the tables below it"),
    TableKind.FOREIGN: ("its rows change in another database", "capture it in the database that owns it"),
}


def check_capturable(table: Table) -> None:
    """Raise CaptureUnsupported for what has no changes that could be captured completely."""
    reason = _UNSUPPORTED.get(table.kind)
    if reason is None and table.persistence == "t":
        reason = ("a temporary table belongs to one session", "make it a permanent table")
    if reason is None and table.persistence == "u":
        reason = ("a crash empties an unlogged table without a trace", "ALTER TABLE … SET LOGGED")
    if reason is None and table.has_children:
        reason = (
            "it has inheritance children, whose rows it shows and whose changes pass it by",
            "make them partitions, or capture each table and combine them with UNION ALL",
        )
    if reason is None and not any(refusal(table, c) is None for c in table.columns):
        reason = ("none of its columns can be captured", "see the reference of types; columns may be taken as text")
    if reason is not None:
        raise CaptureUnsupported(f"table {table.full_name} cannot be captured", detail=reason[0], hint=reason[1])
