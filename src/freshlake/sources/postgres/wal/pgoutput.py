"""The messages of pgoutput, protocols 1 and 2 without streaming: bytes to values, nothing else.

A tuple is one value per published column: the bytes of its text form, None for NULL, or `UNCHANGED` for a large value
that was not written again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from struct import Struct, error

from freshlake.errors import StreamMalformed


class Unchanged(Enum):
    """A large value that an update did not touch, so that the log does not have it."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
Value = bytes | None | Unchanged
Values = tuple[Value, ...]


@dataclass(frozen=True)
class Begin:
    """A transaction; its commit is in the log at `commit_lsn`. Transactions come in the order of their commits."""

    commit_lsn: int
    xid: int


@dataclass(frozen=True)
class Commit:
    """The end of a transaction; the log goes on at `end_lsn`."""

    commit_lsn: int
    end_lsn: int


@dataclass(frozen=True)
class RelationColumn:
    """A published column: its type's number, and what the column adds to the type."""

    name: str
    type_oid: int
    modifier: int


@dataclass(frozen=True)
class Relation:
    """A table as it was when the following changes were made; sent before the first of them and after DDL."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True)
class Insert:
    """A new row."""

    oid: int
    new: Values


@dataclass(frozen=True)
class Update:
    """A changed row; `old` is None unless the replica identity puts the old row into the log."""

    oid: int
    old: Values | None
    new: Values


@dataclass(frozen=True)
class Delete:
    """A removed row; `old` is None when the log has only its key."""

    oid: int
    old: Values | None


@dataclass(frozen=True)
class Truncate:
    """Tables that were emptied together."""

    oids: tuple[int, ...]


@dataclass(frozen=True)
class Other:
    """A message that says nothing about rows: an origin, a type, a note of some program."""

    kind: str


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | Other

_U8, _U16, _U32 = Struct(">B"), Struct(">H"), Struct(">I")
_I32, _U64 = Struct(">i"), Struct(">Q")
_LENGTH = Struct(">I")
_TEXT, _NULL, _UNCHANGED = b"tnu"


class _Reader:
    """A place in a message."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 1

    def take(self, form: Struct) -> int:
        (value,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return int(value)

    def letter(self) -> str:
        return chr(self.take(_U8))

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end].decode()
        self.at = end + 1
        return text

    def values(self) -> Values:
        """The hot path: one look at the kind and one at the length of each value."""
        found: list[Value] = []
        count, data = self.take(_U16), self.data
        at = self.at
        for _ in range(count):
            kind = data[at]
            at += 1
            if kind == _TEXT:
                (length,) = _LENGTH.unpack_from(data, at)
                at += 4 + length
                if at > len(data):
                    raise StreamMalformed("a value ends too early")
                found.append(data[at - length : at])
            elif kind == _NULL:
                found.append(None)
            elif kind == _UNCHANGED:
                found.append(UNCHANGED)
            else:
                raise StreamMalformed(f"a value came in the form {chr(kind)!r}, which was not asked for")
        self.at = at
        return tuple(found)


def parse(data: bytes) -> Message:
    """One message."""
    try:
        kind = chr(data[0])
        parser = _PARSERS.get(kind)
        if parser is None:
            raise StreamMalformed(f"a message of kind {kind!r} came, which was not asked for")
        reader = _Reader(data)
        message = parser(reader)
    except (error, IndexError, ValueError) as short:
        raise StreamMalformed("a message ends too early", detail=str(short)) from short
    if reader.at != len(data) and not isinstance(message, Other):
        raise StreamMalformed(f"a message of kind {kind!r} is longer than it should be")
    return message


def _begin(reader: _Reader) -> Begin:
    commit_lsn, _time, xid = reader.take(_U64), reader.take(_U64), reader.take(_U32)
    return Begin(commit_lsn, xid)


def _commit(reader: _Reader) -> Commit:
    _flags, commit_lsn, end_lsn, _time = (reader.take(form) for form in (_U8, _U64, _U64, _U64))
    return Commit(commit_lsn, end_lsn)


def _relation(reader: _Reader) -> Relation:
    oid, schema, name, identity = reader.take(_U32), reader.text(), reader.text(), reader.letter()
    columns = tuple(_relation_column(reader) for _ in range(reader.take(_U16)))
    # the server's own schema is sent as nothing
    return Relation(oid, schema or "pg_catalog", name, identity, columns)


def _relation_column(reader: _Reader) -> RelationColumn:
    reader.take(_U8)
    return RelationColumn(reader.text(), reader.take(_U32), reader.take(_I32))


def _insert(reader: _Reader) -> Insert:
    oid = reader.take(_U32)
    _expect(reader, "N")
    return Insert(oid, reader.values())


def _update(reader: _Reader) -> Update:
    oid, old = reader.take(_U32), None
    kind = reader.letter()
    if kind in "OK":
        values = reader.values()
        old = values if kind == "O" else None
        kind = reader.letter()
    if kind != "N":
        raise StreamMalformed(f"an update has a part {kind!r}")
    return Update(oid, old, reader.values())


def _delete(reader: _Reader) -> Delete:
    oid, kind = reader.take(_U32), reader.letter()
    if kind not in "OK":
        raise StreamMalformed(f"a delete has a part {kind!r}")
    values = reader.values()
    return Delete(oid, values if kind == "O" else None)


def _truncate(reader: _Reader) -> Truncate:
    count = reader.take(_U32)
    reader.take(_U8)
    return Truncate(tuple(reader.take(_U32) for _ in range(count)))


def _expect(reader: _Reader, letter: str) -> None:
    found = reader.letter()
    if found != letter:
        raise StreamMalformed(f"a message has a part {found!r} instead of {letter!r}")


_PARSERS: dict[str, Callable[[_Reader], Message]] = {
    "B": _begin,
    "C": _commit,
    "R": _relation,
    "I": _insert,
    "U": _update,
    "D": _delete,
    "T": _truncate,
    "O": lambda _: Other("origin"),
    "Y": lambda _: Other("type"),
    "M": lambda _: Other("message"),
}
