"""A table with a column of every type that Delta stores, special values included, and queries that use them."""

from __future__ import annotations

from collections.abc import Iterable

KEYS = {
    "b": ("BOOLEAN", ["true", "false", "true", "false", "true"]),
    "i1": ("TINYINT", ["1", "-128", "127", "0", "0"]),
    "i2": ("SMALLINT", ["1", "-32768", "32767", "0", "0"]),
    "i4": ("INT", ["1", "-2147483648", "2147483647", "0", "0"]),
    "i8": ("BIGINT", ["1", "-9223372036854775808", "9223372036854775807", "0", "0"]),
    "f4": ("FLOAT", ["1.5", "'-Infinity'", "'NaN'", "-0.0D", "0.0"]),
    "f8": ("DOUBLE", ["0.1", "-4.9E-324", "'NaN'", "-0.0D", "0.0"]),
    "d1": ("DECIMAL(1,0)", ["1", "-9", "9", "0", "0"]),
    "d9": ("DECIMAL(9,4)", ["1.5", "-99999.9999", "99999.9999", "0.0001", "0.0001"]),
    "d18": ("DECIMAL(18,18)", ["0.5", "-0.999999999999999999", "0.999999999999999999", "0.1", "0.1"]),
    "d28": ("DECIMAL(28,10)", ["1.5", "-1", "999999999999999999.9999999999", "0.1", "0.1"]),
    "d38": ("DECIMAL(38,0)", ["1", f"-{'9' * 38}", "9" * 38, "0", "0"]),
    "d38s": ("DECIMAL(38,38)", ["0.5", f"-0.{'9' * 38}", f"0.{'9' * 38}", f"0.{'0' * 37}1", f"0.{'0' * 37}1"]),
    "s": ("STRING", ["'ab'", "''", "'ü☃😀'", "'AB'", "'ab '"]),
    "c": ("CHAR(5)", ["'ab'", "''", "'abcde'", "'AB'", "'ab '"]),
    "vc": ("VARCHAR(5)", ["'ab'", "''", "'abcde'", "'AB'", "'ab '"]),
    "bin": ("BINARY", ["X'01'", "X''", "X'FFFE00'", "X'00'", "X'0000'"]),
    "dt": (
        "DATE",
        ["DATE'2024-02-29'", "DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'1582-10-04'", "DATE'1970-01-01'"],
    ),
    "ts": (
        "TIMESTAMP",
        [
            *("TIMESTAMP'2024-03-31 01:30:00Z'", "TIMESTAMP'1900-01-01 00:00:00Z'", "TIMESTAMP'9999-12-30 00:00:00Z'"),
            *("TIMESTAMP'2024-01-01 00:00:00.000001Z'", "TIMESTAMP'2024-01-01 00:00:00.000002Z'"),
        ],
    ),
    "tn": (
        "TIMESTAMP_NTZ",
        [
            *("TIMESTAMP_NTZ'2024-03-31 02:30:00'", "TIMESTAMP_NTZ'0001-01-01 00:00:00'"),
            *("TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'", "TIMESTAMP_NTZ'2024-01-01 00:00:00.000001'"),
            "TIMESTAMP_NTZ'2024-01-01 00:00:00.000002'",
        ],
    ),
    "ar": ("ARRAY<DOUBLE>", ["array(0.5, NULL)", "array()", "array(double('NaN'))", "array(-0.0D)", "array(0.0D)"]),
    "st": (
        "STRUCT<a: INT, b: STRING>",
        [
            *("named_struct('a', 1, 'b', 'x')", "named_struct('a', NULL, 'b', NULL)", "named_struct('a', 2, 'b', '')"),
            *("named_struct('a', 1, 'b', NULL)", "named_struct('a', NULL, 'b', 'x')"),
        ],
    ),
    "ast": (
        "ARRAY<STRUCT<x: DECIMAL(5,2), y: DATE>>",
        [
            *("array(named_struct('x', 1.25, 'y', DATE'2024-01-01'))", "array(NULL)", "array()"),
            *("array(named_struct('x', NULL, 'y', NULL))", "array(named_struct('x', 1.25, 'y', NULL))"),
        ],
    ),
}
"""Column → its type and values: a usual one, the least, the largest or strangest, and two that are nearly the same."""

VALUES = {
    "m": (
        "MAP<STRING, INT>",
        ["map('a', 1, 'b', NULL)", "map()", "map('', 0)", "map('b', NULL, 'a', 1)", "map('a', 1)"],
    ),
    "mm": (
        "MAP<INT, ARRAY<DOUBLE>>",
        ["map(1, array(-0.0D))", "map()", "map(1, NULL)", "map(1, array(0.0D))", "map(2, array(double('NaN')))"],
    ),
}
"""What Spark cannot compare, and so cannot be a key."""

COLUMNS = KEYS | VALUES
NULLS = len(next(iter(KEYS.values()))[1])
"""The row that has NULL in every column."""


def _value(kind: str, values: list[str], row: int) -> str:
    wanted = "STRING" if "CHAR" in kind else kind
    return "NULL" if row == NULLS else f"CAST({values[row]} AS {wanted})"


def _row(number: int, group: str, kind: int) -> str:
    values = [_value(*column, kind) for column in COLUMNS.values()]
    return f"SELECT {number}, '{group}', {', '.join(values)}"


def _insert(table: str, rows: Iterable[tuple[int, str, int]]) -> str:
    return f"INSERT INTO {table} {' UNION ALL '.join(_row(*row) for row in rows)}"


def _update(table: str, kind: int, where: str) -> str:
    values = ", ".join(f"{name} = {_value(*column, kind)}" for name, column in COLUMNS.items())
    return f"UPDATE {table} SET {values} WHERE {where}"


_DECLARED = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
SETUP = (
    f"CREATE TABLE w (id INT, g STRING, {_DECLARED}) USING delta",
    f"CREATE TABLE o (id INT, g STRING, {_DECLARED}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    _insert("w", [(1, "p", 0), (1, "p", 0), (2, "p", 1), (3, "q", 3), (4, "r", 4), (5, "q", NULLS), (6, "q", 2)]),
    _insert("o", [(1, "p", 0), (2, "p", 2), (3, "q", 4), (4, "q", NULLS), (5, "q", NULLS)]),
)
ROUNDS = (
    (_insert("w", [(7, "p", 2), (8, "r", NULLS), (9, "q", 3), (1, "p", 0)]), _insert("o", [(6, "p", 1), (7, "r", 3)])),
    # rows get other values of every type at once; some of them are nearly the same as before
    (
        _update("w", 4, "id = 3"),
        _update("w", 1, "id = 7"),
        _update("o", 0, "id = 4"),
        "DELETE FROM w WHERE id IN (2, 5)",
    ),
    ("DELETE FROM w WHERE id = 1", "DELETE FROM o"),
    (_insert("w", [(20, "p", 2), (21, "p", NULLS)]), _insert("o", [(20, "p", 2), (20, "p", 2)])),
)

_ALL = ", ".join(KEYS)
_PAIRS = " AND ".join(f"l.{k} <=> r.{k}" for k in KEYS)

WIDE = {
    "passing": "SELECT * FROM w",
    "filtered": "SELECT id, f8, ar, m, c, bin FROM w WHERE s IS NOT NULL OR id > 7",
    "grouped": f"SELECT {_ALL}, count(*) AS n, max(id) AS hi FROM w GROUP BY ALL",
    "regrouped": f"SELECT {_ALL}, count(DISTINCT id) AS n FROM w GROUP BY ALL",
    "extremes": f"SELECT g, {', '.join(f'min({k}) AS lo_{k}, max({k}) AS hi_{k}, count({k}) AS n_{k}' for k in KEYS)} "
    "FROM w GROUP BY g",
    "counted": f"SELECT g, {', '.join(f'count(DISTINCT {k}) AS n_{k}' for k in KEYS)}, max_by(m, id) AS m, "
    "any_value(g) AS same FROM w GROUP BY g",
    "distinct_rows": f"SELECT DISTINCT {_ALL} FROM w",
    "joined": f"SELECT l.id, r.id AS other, r.f8, r.m FROM w AS l JOIN o AS r ON {_PAIRS}",
    "left_joined": f"SELECT l.id, r.id AS other, r.f8, l.m FROM w AS l LEFT JOIN o AS r ON {_PAIRS}",
    "excepted": f"SELECT {_ALL} FROM w EXCEPT ALL SELECT {_ALL} FROM o",
    "intersected": f"SELECT {_ALL} FROM w INTERSECT SELECT {_ALL} FROM o",
    "unioned": f"SELECT {_ALL} FROM w UNION SELECT {_ALL} FROM o",
    "appended": "SELECT * FROM w UNION ALL SELECT * FROM o",
    "windowed": f"SELECT id, f8, c, m, count(*) OVER (PARTITION BY {_ALL}) AS n FROM w",
    "top": f"SELECT {_ALL}, m, mm FROM w ORDER BY {_ALL} DESC, id LIMIT 4",
    "maps_exploded": "SELECT id, key, value FROM w LATERAL VIEW OUTER explode(m) AS key, value",
}
"""Every type at once, in each kind of operator."""


def alone(key: str) -> dict[str, str]:
    """One type as the key of each kind of operator."""
    return {
        f"{key}_grouped": f"SELECT {key}, count(*) AS n, sum(id) AS t FROM w GROUP BY {key}",
        f"{key}_grouped_again": f"SELECT {key}, count(DISTINCT id) AS n FROM w GROUP BY {key}",
        f"{key}_joined": f"SELECT l.id, r.id AS other, l.{key} FROM w AS l JOIN o AS r ON l.{key} = r.{key}",
        f"{key}_missing": f"SELECT id, {key} FROM w WHERE {key} NOT IN (SELECT {key} FROM o WHERE {key} IS NOT NULL)",
        f"{key}_distinct": f"SELECT DISTINCT {key} FROM w",
        f"{key}_excepted": f"SELECT {key} FROM w EXCEPT ALL SELECT {key} FROM o",
        f"{key}_ranked": f"SELECT id, {key}, dense_rank() OVER (PARTITION BY g ORDER BY {key}) AS r, "
        f"count(*) OVER (PARTITION BY {key}) AS n FROM w",
        f"{key}_top": f"SELECT {key}, id FROM w ORDER BY {key} DESC, id LIMIT 3",
    }


REFUSED = {
    "INTERVAL '1' DAY": "interval day",
    "make_dt_interval(id)": "interval day to second",
    "make_ym_interval(id)": "interval year to month",
    "make_interval(id)": "interval",
    "array(make_dt_interval(id))": "interval day to second",
    "TIME'10:00:00'": "time(6)",
    "NULL": "void",
    "s COLLATE UTF8_LCASE": "string collate UTF8_LCASE",
    "map('k', s COLLATE UNICODE_CI)": "string collate UNICODE_CI",
    "named_struct('deep', make_ym_interval(1))": "interval year to month",
    "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')": "geometry(0)",
    "st_geogfromwkb(X'0101000000000000000000F03F0000000000000040')": "geography(4326)",
}
"""Expressions of types that Delta tables do not have, with the name of the type."""
