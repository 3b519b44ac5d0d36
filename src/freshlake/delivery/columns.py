"""The columns of a stream table as columns of a PostgreSQL table: each exactly, or refused."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as t

from freshlake.errors import DeliveryUnsupported

_LONGEST_NAME = 63

_PLAIN: dict[type[t.DataType], str] = {
    t.ByteType: "smallint",
    t.ShortType: "smallint",
    t.IntegerType: "integer",
    t.LongType: "bigint",
    t.FloatType: "real",
    t.DoubleType: "double precision",
    t.StringType: "text",
    t.BinaryType: "bytea",
    t.BooleanType: "boolean",
    t.DateType: "date",
    t.TimestampType: "timestamp with time zone",
    t.TimestampNTZType: "timestamp without time zone",
}
_BITS = {"real": "float4send", "double precision": "float8send"}
"""Equal numbers may differ in their sign of zero: rows are told apart by what is stored."""


@dataclass(frozen=True)
class Column:
    """A column of the delivered table."""

    name: str
    type: str

    @property
    def quoted(self) -> str:
        return quoted(self.name)

    def same(self, left: str, right: str) -> str:
        """The condition that two values are the same, NULL being the same as NULL."""
        a, b = f"{left}.{self.quoted}", f"{right}.{self.quoted}"
        if (bits := _BITS.get(self.type)) is not None:
            a, b = f"{bits}({a})", f"{bits}({b})"
        elif self.type.removesuffix("[]") in _BITS:
            a, b = f"{a}::text", f"{b}::text"
        return f"{a} IS NOT DISTINCT FROM {b}"


def columns_of(schema: t.StructType) -> tuple[Column, ...]:
    """The columns of a table that holds rows of a schema; raises DeliveryUnsupported."""
    return tuple(Column(_name(field.name), _type(field.name, field.dataType)) for field in schema)


def quoted(name: str) -> str:
    """A name as it stands in a statement."""
    return '"' + name.replace('"', '""') + '"'


def _name(name: str) -> str:
    if len(name.encode()) > _LONGEST_NAME:
        raise DeliveryUnsupported(
            f"column {name} has too long a name for PostgreSQL",
            detail=f"a name has at most {_LONGEST_NAME} bytes",
            hint="give it a shorter name in the query",
        )
    return name


def _type(name: str, kind: t.DataType) -> str:
    if isinstance(kind, t.DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if isinstance(kind, t.ArrayType) and not isinstance(kind.elementType, t.ArrayType):
        return f"{_type(name, kind.elementType)}[]"
    plain = next((word for known, word in _PLAIN.items() if isinstance(kind, known)), None)
    if plain is None:
        raise DeliveryUnsupported(
            f"column {name} of type {kind.simpleString()} has no counterpart in PostgreSQL",
            hint=f"deliver it as text: to_json({name}) or CAST({name} AS STRING) in the query",
        )
    return plain
