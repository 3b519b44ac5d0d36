"""Tables with NULLs, duplicates, negative numbers and odd strings, and queries over them.

PostgreSQL and, translated, Spark must answer the queries in `postgres/` alike; every listed function and construct is
among them. Queries are separated by empty lines.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

COLUMNS: dict[str, list[tuple[str, str, str]]] = {
    "t": [
        ("id", "int", "INT"),
        ("k", "text", "STRING"),
        ("n", "int", "INT"),
        ("b", "bigint", "BIGINT"),
        ("d", "numeric(10,2)", "DECIMAL(10,2)"),
        ("f", "double precision", "DOUBLE"),
        ("s", "text", "STRING"),
        ("flag", "boolean", "BOOLEAN"),
        ("day", "date", "DATE"),
        ("ts", "timestamp", "TIMESTAMP_NTZ"),
        ("tz", "timestamptz", "TIMESTAMP"),
        ("arr", "int[]", "ARRAY<INT>"),
        ("tags", "text[]", "ARRAY<STRING>"),
    ],
    "u": [("id", "int", "INT"), ("k", "text", "STRING"), ("y", "int", "INT")],
    "e": [("id", "int", "INT"), ("k", "text", "STRING"), ("y", "int", "INT")],
}


def _at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _row(
    key: int, k: str | None, *numbers: Any, s: str | None, flag: bool | None, at: str | None, **arrays: Any
) -> Any:
    """The day, timestamp and timestamptz of a row are one moment."""
    moment = _at(at) if at else None
    day = moment.date() if moment else None
    return (key, k, *numbers, s, flag, day, moment, moment, arrays["arr"], arrays["tags"])


_D = Decimal
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "t": [
        _row(
            1,
            "a",
            7,
            2**53 + 1,
            _D("2.50"),
            2.5,
            s="it's",
            flag=True,
            at="2024-01-31T10:20:30.123456",
            arr=[1, 2, 3],
            tags=["x", "y"],
        ),
        _row(2, "a", -7, -5, _D("-2.50"), -2.5, s="Apple pie", flag=False, at="2023-12-31T23:59:59", arr=[], tags=[]),
        _row(3, "b", 0, 0, _D("0.00"), 0.0, s="", flag=None, at="2024-02-29T00:00:00", arr=[None], tags=[None, "x"]),
        _row(4, "b", None, None, None, None, s=None, flag=None, at=None, arr=None, tags=None),
        _row(
            5,
            None,
            3,
            10**12,
            _D("1.01"),
            3.5,
            s="a%b_c",
            flag=True,
            at="1969-07-20T20:17:40.5",
            arr=[3, None, 3],
            tags=["it's", ""],
        ),
        _row(
            6,
            None,
            3,
            10**12,
            _D("99999999.99"),
            1e300,
            s="back\\slash",
            flag=False,
            at="2000-01-01T00:00:00",
            arr=[-1, 0],
            tags=["z"],
        ),
        _row(
            7,
            "c",
            -1,
            1,
            _D("-0.01"),
            -0.5,
            s=" pad ",
            flag=True,
            at="2021-01-03T05:06:07.000001",
            arr=[5],
            tags=["X", "x"],
        ),
        _row(
            8,
            "c",
            -1,
            1,
            _D("-0.01"),
            -0.5,
            s=" pad ",
            flag=True,
            at="2021-01-03T05:06:07.000001",
            arr=[5],
            tags=["X", "x"],
        ),
        _row(
            9,
            "Ä",
            2**31 - 1,
            5,
            _D("100.00"),
            1.5,
            s="ünï\nline",
            flag=None,
            at="2024-12-30T12:00:00",
            arr=[1, 2],
            tags=["a", "b", "c"],
        ),
        _row(
            10,
            "",
            4,
            -1,
            _D("33.33"),
            float("nan"),
            s="abcabc",
            flag=False,
            at="2020-02-29T13:14:15.999999",
            arr=[2, 2],
            tags=["é"],
        ),
    ],
    "u": [(1, "a", 7), (2, "a", None), (3, "b", 3), (4, None, -1), (5, "z", 3), (5, "z", 3), (6, "c", -1)],
    "e": [],
}

FOLDER = Path(__file__).parent / "postgres"


def queries(subject: str) -> list[str]:
    """The queries of one file."""
    text = (FOLDER / f"{subject}.sql").read_text(encoding="utf-8")
    return [query.strip() for query in text.split("\n\n") if query.strip()]


SUBJECTS = sorted(path.stem for path in FOLDER.glob("*.sql"))


def create_script() -> str:
    """The tables as PostgreSQL statements."""
    lines = []
    for table, columns in COLUMNS.items():
        lines.append(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind, _ in columns)});")
        for row in ROWS[table]:
            values = [f"{_literal(value)}::{kind}" for value, (_, kind, _) in zip(row, columns, strict=True)]
            lines.append(f"INSERT INTO {table} VALUES ({', '.join(values)});")
    return "\n".join(["SET timezone = 'UTC';", *lines])


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    if isinstance(value, int | Decimal):
        return str(value)
    text = str(value).replace("'", "''")
    return f"'{text}'"
