"""What becomes of each PostgreSQL type: a type of the lake that holds its values exactly, or a refusal with a rewrite.

Every type has a text form that PostgreSQL itself reads back to the same value (dumps depend on it). So any column may
be taken as text instead, which is the way out of every refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa

# Types with smaller numbers come with the server; all others are someone's own.
FIRST_OWN = 16_384
MAXIMUM_PRECISION = 38
_OPEN_SCALE = 18


class Form(StrEnum):
    """How the text form of a value is read."""

    TEXT = "text"
    BOOLEAN = "boolean"
    NUMBER = "number"
    MONEY = "money"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BINARY = "binary"
    ARRAY = "array"


@dataclass(frozen=True)
class LakeType:
    """A type of the lake, by its name in Spark and in Arrow, and how values get there."""

    spark: str
    arrow: pa.DataType
    form: Form
    element: LakeType | None = None
    delimiter: str = ","


@dataclass(frozen=True)
class Refusal:
    """Why a type has no exact counterpart, and what to do instead."""

    reason: str
    rewrite: str


@dataclass(frozen=True)
class SourceType:
    """A type as the database's catalog has it: `kind` is pg_type.typtype, `modifier` what the column adds to it, and
    `labels` are the values of an enum."""

    oid: int
    schema: str
    name: str
    kind: str
    modifier: int = -1
    base: SourceType | None = None
    element: SourceType | None = None
    delimiter: str = ","
    labels: tuple[str, ...] = ()

    @property
    def is_own(self) -> bool:
        return self.oid >= FIRST_OWN

    @property
    def core(self) -> SourceType:
        """The type below all domains, with the innermost modifier that is set."""
        return self if self.base is None else self.base.core

    @property
    def all_labels(self) -> frozenset[str]:
        """The labels that values of the type may be made of."""
        core = self.core
        return frozenset(core.labels) if core.element is None else core.element.all_labels


@dataclass(frozen=True)
class TypeRow:
    """One line of the table of types: the names that PostgreSQL's catalog uses, and how people write them."""

    names: tuple[str, ...]
    written: str
    lake: LakeType
    refused_values: str = ""
    note: str = ""


TEXT = LakeType("STRING", pa.string(), Form.TEXT)
OPEN_NUMERIC = LakeType(f"DECIMAL(38,{_OPEN_SCALE})", pa.decimal128(38, _OPEN_SCALE), Form.NUMBER)
MONEY = LakeType("DECIMAL(19,2)", pa.decimal128(19, 2), Form.MONEY)
_LONG = LakeType("BIGINT", pa.int64(), Form.NUMBER)

TYPES: tuple[TypeRow, ...] = (
    TypeRow(("bool",), "boolean", LakeType("BOOLEAN", pa.bool_(), Form.BOOLEAN)),
    TypeRow(("int2",), "smallint", LakeType("SMALLINT", pa.int16(), Form.NUMBER)),
    TypeRow(("int4",), "integer", LakeType("INT", pa.int32(), Form.NUMBER)),
    TypeRow(("int8",), "bigint", _LONG),
    TypeRow(("float4",), "real", LakeType("FLOAT", pa.float32(), Form.NUMBER), note="with NaN, infinities and -0"),
    TypeRow(("float8",), "double precision", LakeType("DOUBLE", pa.float64(), Form.NUMBER), note="as `real`"),
    TypeRow(("oid", "xid", "cid"), "oid, xid, cid", _LONG),
    TypeRow(("xid8",), "xid8", LakeType("DECIMAL(20,0)", pa.decimal128(20, 0), Form.NUMBER)),
    TypeRow(("text", "varchar", "name", "char"), 'text, varchar, name, "char"', TEXT),
    TypeRow(("bpchar",), "char(n)", TEXT, note="padded with spaces, as PostgreSQL shows it"),
    TypeRow(("bytea",), "bytea", LakeType("BINARY", pa.binary(), Form.BINARY)),
    TypeRow(("date",), "date", LakeType("DATE", pa.date32(), Form.DATE), "infinity, years before 1 and after 9999", ""),
    TypeRow(
        ("timestamp",),
        "timestamp",
        LakeType("TIMESTAMP_NTZ", pa.timestamp("us"), Form.TIMESTAMP),
        "as for `date`",
        "microseconds",
    ),
    TypeRow(
        ("timestamptz",),
        "timestamptz",
        LakeType("TIMESTAMP", pa.timestamp("us", "UTC"), Form.TIMESTAMP),
        "as for `date`, counted in UTC",
        "microseconds",
    ),
    TypeRow(("time", "timetz"), "time, timetz", TEXT, note="`24:00:00` is a value of its own"),
    TypeRow(("interval",), "interval", TEXT, note="ISO 8601 (`P1Y2M3DT4H5M6S`): months, days and seconds stay apart"),
    TypeRow(("uuid",), "uuid", TEXT),
    TypeRow(("json",), "json", TEXT, note="as it was written; read fields with `get_json_object` or `parse_json`"),
    TypeRow(("jsonb", "jsonpath"), "jsonb, jsonpath", TEXT, note="in PostgreSQL's own order and spacing"),
    TypeRow(("xml",), "xml", TEXT),
    TypeRow(("inet", "cidr", "macaddr", "macaddr8"), "inet, cidr, macaddr, macaddr8", TEXT),
    TypeRow(("bit", "varbit"), "bit(n), bit varying", TEXT, note="digits 0 and 1"),
    TypeRow(
        ("point", "line", "lseg", "box", "path", "polygon", "circle"),
        "point, line, lseg, box, path, polygon, circle",
        TEXT,
        note="every digit that the value has",
    ),
    TypeRow(("tsvector", "tsquery", "pg_lsn"), "tsvector, tsquery, pg_lsn", TEXT),
    TypeRow(
        ("int2vector", "oidvector", "tid", "pg_snapshot", "txid_snapshot"),
        "int2vector, oidvector, tid, pg_snapshot, txid_snapshot",
        TEXT,
    ),
)

_BY_NAME = {name: row.lake for row in TYPES for name in row.names}
_AS_TEXT = "or take the column as text"

WRITTEN_RULES: tuple[tuple[str, str, str, str], ...] = (
    (
        "numeric(p,s)",
        "DECIMAL(p,s)",
        "NaN",
        "up to 38 digits; a negative scale becomes 0, one above p widens p",
    ),
    (
        "numeric",
        OPEN_NUMERIC.spark,
        "NaN, infinity, more than 20 digits before or 18 after the point",
        "give the column a precision, or take it as text",
    ),
    ("money", MONEY.spark, "", "where the database counts it with two digits after the point"),
    ("an enum", TEXT.spark, "", "the label"),
    ("a domain", "as its base type", "as its base type", ""),
    ("a range or multirange", TEXT.spark, "", "as PostgreSQL writes it: `[2024-01-01,2024-02-01)`"),
    (
        "an array",
        "ARRAY<…>",
        "several dimensions, bounds that do not begin at 1, elements that are refused",
        "elements may be NULL",
    ),
    ("citext", TEXT.spark, "", "compared with case in the lake"),
)
"""Written form, type of the lake, values that are refused, note: what `lake_type` works out instead of looking up."""

_REG = Refusal(
    "its text depends on names that may change without the row changing", f"store the oid: column::oid, {_AS_TEXT}"
)
_COMPOSITE = Refusal("a row type has fields of its own", f"make a column of each field that is needed, {_AS_TEXT}")
_EXTENSION = Refusal(
    "it is not one of PostgreSQL's own types, so what its values are is not known",
    f"add a generated column of a known type (hstore: hstore_to_jsonb(column)), {_AS_TEXT}",
)
_WIDE = Refusal("DECIMAL holds 38 digits", f"change it to numeric(38, s) if the values fit, {_AS_TEXT}")
_LOCALE_MONEY = Refusal(
    "the database's locale does not count it with two digits after the point", "change it to numeric(19, 2)"
)
_INTERNAL = Refusal("it is meant for the server's own tables", "take the column as text")

REFUSED: tuple[tuple[str, Refusal], ...] = (
    ("numeric(p,s) with more than 38 digits", _WIDE),
    ("money in other locales", _LOCALE_MONEY),
    ("regclass, regproc and the other reg… types", _REG),
    ("a composite type", _COMPOSITE),
    ("hstore, ltree, geometry, vector and other types of extensions", _EXTENSION),
    ("aclitem, pg_node_tree and other internal types", _INTERNAL),
)


def lake_type(source: SourceType, *, money_digits: int = 2) -> LakeType | Refusal:
    """Where values of a type go."""
    core = source.core
    if core.element is not None:
        return _array(core, money_digits)
    if core.is_own:
        return _own(core)
    if core.name == "numeric":
        return _numeric(core.modifier)
    if core.name == "money":
        return MONEY if money_digits == 2 else _LOCALE_MONEY
    if core.kind in "rm":
        return TEXT
    if core.name in _BY_NAME:
        return _BY_NAME[core.name]
    return _REG if core.name.startswith("reg") else _COMPOSITE if core.kind == "c" else _INTERNAL


def _own(core: SourceType) -> LakeType | Refusal:
    if core.kind in "erm" or core.name == "citext":
        return TEXT
    return _COMPOSITE if core.kind == "c" else _EXTENSION


def _array(core: SourceType, money_digits: int) -> LakeType | Refusal:
    assert core.element is not None
    element = lake_type(core.element, money_digits=money_digits)
    if isinstance(element, Refusal):
        return element
    if element.element is not None:  # a domain over an array as element: its text nests in a way of its own
        return Refusal("arrays inside arrays have no fixed depth", "take the column as text")
    # the field's name is Spark's
    arrow = pa.list_(pa.field("element", element.arrow))
    return LakeType(f"ARRAY<{element.spark}>", arrow, Form.ARRAY, element, core.delimiter)


def _numeric(modifier: int) -> LakeType | Refusal:
    if modifier < 4:
        return OPEN_NUMERIC
    precision, scale = numeric_modifier(modifier)
    digits, places = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    if digits > MAXIMUM_PRECISION:
        return _WIDE
    return LakeType(f"DECIMAL({digits},{places})", pa.decimal128(digits, places), Form.NUMBER)


def numeric_modifier(modifier: int) -> tuple[int, int]:
    """Precision and scale of a numeric; the scale has a sign since PostgreSQL 15."""
    packed = modifier - 4
    return packed >> 16 & 0xFFFF, ((packed & 0x7FF) ^ 1024) - 1024


def with_modifier(source: SourceType, modifier: int) -> SourceType:
    """The same type with what another column adds to it; an array hands it on to its elements."""
    element = source.element and with_modifier(source.element, modifier)
    return replace(source, modifier=modifier, element=element)


def text_in_buffer(source: SourceType) -> bool:
    """Whether a buffer holds the text instead of the value, so that no object of ours depends on a user's type."""
    core = source.core
    return core.is_own or core.kind == "c" or (core.element is not None and core.element.kind == "d")


def buffer_type(source: SourceType) -> str:
    """The type of a buffer's column: the value's own without limits on its length, or text."""
    if text_in_buffer(source):
        return "pg_catalog.text"
    core = source.core
    if core.element is not None:
        return f'pg_catalog."{core.element.core.name}"[]'
    return f'pg_catalog."{core.name}"'


def table_lines() -> Iterator[str]:
    """The table of docs/reference/postgres-types.md."""
    yield "| PostgreSQL type | in the lake | values that are refused | note |"
    yield "|---|---|---|---|"
    rows = [(r.written, f"`{r.lake.spark}`", r.refused_values, r.note) for r in TYPES]
    rows += [(w, f"`{s}`" if s.isupper() or "(" in s or "<" in s else s, v, n) for w, s, v, n in WRITTEN_RULES]
    rows += [(w, "refused", r.reason, r.rewrite) for w, r in REFUSED]
    for cells in rows:
        yield f"| {' | '.join(cells)} |".replace("  ", " ")
