"""Types of PostgreSQL with edge values, and what each value is in the lake."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

SETUP = """
CREATE TYPE mood AS ENUM ('so so', 'happy', 'it''s, "fine"');
CREATE DOMAIN price AS numeric(10,2) CHECK (VALUE >= 0);
CREATE DOMAIN label AS price;
CREATE DOMAIN words AS text[];
CREATE TYPE span AS RANGE (subtype = float8);
CREATE EXTENSION citext;
CREATE EXTENSION hstore;
CREATE TYPE pair AS (a int, b date);
"""

LONG = "".join(chr(97 + (n * 7919) % 26) for n in range(20_000))


@dataclass(frozen=True)
class TypeCase:
    """A column's type, its type in the lake, and pairs of literal and value; NULL is tried for all of them."""

    written: str
    spark: str
    values: tuple[tuple[str, Any], ...]


def _same(*texts: str) -> tuple[tuple[str, str], ...]:
    return tuple((text, text) for text in texts)


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


_FLOATS = (
    ("NaN", math.nan),
    ("Infinity", math.inf),
    ("-Infinity", -math.inf),
    ("-0", -0.0),
    ("0.1", 0.1),
)
_TEXTS = _same("", " ", "NULL", "a,b", 'say "x"', "back\\slash", "tab\tnew\nline\r", "\x01\x1f\x7f", "é€𝄞", "{x}", LONG)

CASES = (
    TypeCase("boolean", "BOOLEAN", (("t", True), ("f", False))),
    TypeCase("smallint", "SMALLINT", (("-32768", -32768), ("32767", 32767))),
    TypeCase("integer", "INT", (("-2147483648", -(2**31)), ("2147483647", 2**31 - 1))),
    TypeCase("bigint", "BIGINT", (("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1))),
    TypeCase("oid", "BIGINT", (("4294967295", 2**32 - 1),)),
    TypeCase("xid8", "DECIMAL(20,0)", (("18446744073709551615", Decimal(2**64 - 1)),)),
    TypeCase(
        "double precision", "DOUBLE", (*_FLOATS, ("5e-324", 5e-324), ("1.7976931348623157e308", 1.7976931348623157e308))
    ),
    TypeCase("real", "FLOAT", (*_FLOATS[:4], ("16777217", 16777216.0), ("1e-45", 1.401298464324817e-45))),
    TypeCase(
        "numeric(10,2)",
        "DECIMAL(10,2)",
        (("99999999.99", Decimal("99999999.99")), ("-0.01", Decimal("-0.01")), ("1.005", Decimal("1.01"))),
    ),
    TypeCase(
        "numeric(38,38)",
        "DECIMAL(38,38)",
        ((f"0.{'9' * 38}", Decimal(f"0.{'9' * 38}")), (f"-0.{'0' * 37}1", Decimal(f"-0.{'0' * 37}1"))),
    ),
    TypeCase("numeric(38)", "DECIMAL(38,0)", (("9" * 38, Decimal("9" * 38)),)),
    TypeCase(
        "numeric",
        "DECIMAL(38,18)",
        (
            ("1.5", Decimal("1.500000000000000000")),
            (f"{'9' * 20}.{'9' * 18}", Decimal(f"{'9' * 20}.{'9' * 18}")),
            ("-1e-18", Decimal("-0.000000000000000001")),
        ),
    ),
    TypeCase(
        "money",
        "DECIMAL(19,2)",
        (("-92233720368547758.08", Decimal("-92233720368547758.08")), ("1234.5", Decimal("1234.50"))),
    ),
    TypeCase("text", "STRING", _TEXTS),
    TypeCase("varchar(20)", "STRING", _TEXTS[:-1]),
    TypeCase("char(4)", "STRING", (("ab", "ab  "), ("", "    "))),
    TypeCase("name", "STRING", _same("a name")),
    TypeCase('"char"', "STRING", _same("c")),
    TypeCase("citext", "STRING", _same("Straße")),
    TypeCase(
        "bytea", "BINARY", (("\\x", b""), ("\\x00ff0a5c", b"\x00\xff\n\\"), ("\\x" + "ab" * 9_000, b"\xab" * 9_000))
    ),
    TypeCase(
        "date",
        "DATE",
        (("0001-01-01", date(1, 1, 1)), ("9999-12-31", date(9999, 12, 31)), ("2024-02-29", date(2024, 2, 29))),
    ),
    TypeCase(
        "timestamp",
        "TIMESTAMP_NTZ",
        (
            ("0001-01-01 00:00:00", datetime(1, 1, 1)),
            ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
            ("2024-02-29 12:00:00.1", datetime(2024, 2, 29, 12, 0, 0, 100000)),
        ),
    ),
    TypeCase(
        "timestamptz",
        "TIMESTAMP",
        (
            ("0001-01-01 00:00:00+00", _utc(1, 1, 1)),
            ("1880-01-01 00:00:00+00:19:32", _utc(1879, 12, 31, 23, 40, 28)),
            ("2024-03-31 02:30:00.000001+05:45", _utc(2024, 3, 30, 20, 45, 0, 1)),
            ("9999-12-31 23:59:59.999999+00", _utc(9999, 12, 31, 23, 59, 59, 999999)),
        ),
    ),
    TypeCase("time", "STRING", _same("24:00:00", "00:00:00.000001")),
    TypeCase("timetz", "STRING", _same("12:30:00+05:30")),
    TypeCase("interval", "STRING", _same("P1Y2M-3DT4H5M6.7S", "PT0S", "PT-0.000001S")),
    TypeCase("uuid", "STRING", _same("123e4567-e89b-12d3-a456-426614174000")),
    TypeCase("json", "STRING", _same('{"b" :1,  "b": "\\u00e9\\n", "a":[1e400]}', "null", '""')),
    TypeCase(
        "jsonb", "STRING", (('{"b" :1,  "a":[1.10,null]}', '{"a": [1.10, null], "b": 1}'), ('"\\u00e9\\n"', '"é\\n"'))
    ),
    TypeCase("inet", "STRING", _same("192.168.0.1/24", "::1")),
    TypeCase("cidr", "STRING", _same("10.0.0.0/8")),
    TypeCase("macaddr", "STRING", _same("08:00:2b:01:02:03")),
    TypeCase("bit(3)", "STRING", _same("101")),
    TypeCase("bit varying", "STRING", _same("", "0101")),
    TypeCase("point", "STRING", _same("(0.1,-1e-300)")),
    TypeCase("tsvector", "STRING", _same("'cat':3 'sat':4A")),
    TypeCase("pg_lsn", "STRING", _same("16/B374D848")),
    TypeCase("int4range", "STRING", (("[1,3]", "[1,4)"), ("empty", "empty"), ("(,)", "(,)"))),
    TypeCase("datemultirange", "STRING", (("{[2024-01-01,2024-01-02]}", "{[2024-01-01,2024-01-03)}"),)),
    TypeCase("span", "STRING", _same("[0.1,Infinity)")),
    TypeCase("mood", "STRING", _same("so so", 'it\'s, "fine"')),
    TypeCase("price", "DECIMAL(10,2)", (("0.10", Decimal("0.10")),)),
    TypeCase("label", "DECIMAL(10,2)", (("7", Decimal("7.00")),)),
    TypeCase("integer[]", "ARRAY<INT>", (("{}", []), ("{1,NULL,-3}", [1, None, -3]), ("{NULL}", [None]))),
    TypeCase(
        "text[]",
        "ARRAY<STRING>",
        (('{"",NULL,"NULL","a,b","q\\"\\\\",é}', ["", None, "NULL", "a,b", 'q"\\', "é"]), ("{a}", ["a"])),
    ),
    TypeCase("words", "ARRAY<STRING>", (("{x,y}", ["x", "y"]),)),
    TypeCase("mood[]", "ARRAY<STRING>", (('{"so so",happy}', ["so so", "happy"]),)),
    TypeCase("price[]", "ARRAY<DECIMAL(10,2)>", (("{1.5,NULL}", [Decimal("1.50"), None]),)),
    TypeCase("boolean[]", "ARRAY<BOOLEAN>", (("{t,NULL,f}", [True, None, False]),)),
    TypeCase("timestamptz[]", "ARRAY<TIMESTAMP>", (('{"2024-01-01 00:00:00+01"}', [_utc(2023, 12, 31, 23)]),)),
    TypeCase("box[]", "ARRAY<STRING>", (("{(1,1),(0,0);(3,3),(2,2)}", ["(1,1),(0,0)", "(3,3),(2,2)"]),)),
    TypeCase("double precision[]", "ARRAY<DOUBLE>", (("{NaN,-0,Infinity}", [math.nan, -0.0, math.inf]),)),
)

ROUNDS = max(len(case.values) for case in CASES) + 1


def value(case: TypeCase, number: int) -> Any:
    """The value of a type in a row of the wide table; the last rows are NULL."""
    return case.values[number][1] if number < len(case.values) else None


def wide_table(name: str) -> str:
    """A table with a column of every type."""
    return f"CREATE TABLE {name} (n int, {', '.join(f'c{i} {case.written}' for i, case in enumerate(CASES))})"


def wide_rows(name: str) -> list[tuple[str, list[Any]]]:
    """Statements with parameters that fill it with all edge values."""
    places = ", ".join(f"%s::text::{case.written}" for case in CASES)
    texts = [[c.values[n][0] if n < len(c.values) else None for c in CASES] for n in range(ROUNDS)]
    return [(f"INSERT INTO {name} VALUES ({n}, {places})", row) for n, row in enumerate(texts)]


REFUSED_VALUES = (
    ("date", "infinity"),
    ("date", "-infinity"),
    ("date", "0044-03-15 BC"),
    ("date", "10000-01-01"),
    ("timestamp", "infinity"),
    ("timestamp", "0001-12-31 23:59:59 BC"),
    ("timestamptz", "-infinity"),
    ("timestamptz", "9999-12-31 23:59:59-01"),
    ("numeric(10,2)", "NaN"),
    ("numeric", "NaN"),
    ("numeric", "-Infinity"),
    ("numeric", "0.1234567890123456789"),
    ("numeric", "100000000000000000000"),
    ("integer[]", "{{1,2},{3,4}}"),
    ("integer[]", "[0:1]={1,2}"),
    ("text[]", '{{"a"},{"b"}}'),
    ("date[]", "{2024-01-01,infinity}"),
)

REFUSED_TYPES = ("hstore", "pair", "regclass", "numeric(39,2)", "pair[]", "aclitem")
AS_TEXT = (
    ("hstore", '"a"=>"1"'),
    ("pair", "(1,2024-02-29)"),
    ("numeric(50,2)", "1" * 48 + ".00"),
    ("date", "infinity"),
    ("numeric", "NaN"),
    ("integer[]", "[0:1]={1,2}"),
)
