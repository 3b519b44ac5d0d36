"""Small domains, so that random rows meet: equal keys, duplicates, NULLs and awkward numbers are common."""

from __future__ import annotations

from random import Random

from tests.property.query import Col

TYPES = {
    "int": "INT",
    "big": "BIGINT",
    "str": "STRING",
    "dec": "DECIMAL(10,2)",
    "double": "DOUBLE",
    "date": "DATE",
    "bool": "BOOLEAN",
    "ts": "TIMESTAMP",
    "bin": "BINARY",
}
BASE = ("big", "bool", "date", "dec", "double", "int", "str")
KINDS = {"big": "int"}
"""Types that behave alike in expressions share a kind."""

_DOMAINS = {
    "int": ["0", "1", "2", "3", "-1"],
    "big": ["0", "1", "2", "9000000001", "-7"],
    "str": ["'a'", "'b'", "'B'", "''", "'a b'"],
    "dec": ["0.00", "1.50", "-2.25", "10.01", "99999999.99"],
    "double": ["0.0D", "-0.0D", "0.1D", "1.5D", "-2.5D", "1e15D", "double('NaN')"],
    "date": ["DATE'2024-01-01'", "DATE'2024-02-29'", "DATE'1999-12-31'"],
    "bool": ["true", "false"],
    "ts": ["TIMESTAMP'2024-01-01 00:00:00'", "TIMESTAMP'2024-02-29 23:59:59.999999'", "TIMESTAMP'1899-12-31 12:00:00'"],
    "bin": ["X''", "X'00'", "X'00FF'", "X'61'"],
}
_NULL_SHARE = 0.18


def literal(rng: Random, kind: str, nulls: float = _NULL_SHARE) -> str:
    return "NULL" if rng.random() < nulls else rng.choice(_DOMAINS[kind])


def scalar(rng: Random, col: Col) -> str:
    """An expression over one column that keeps its kind."""
    c = col.name
    return rng.choice(
        {
            "int": [
                f"{c} + 1",
                f"-{c}",
                f"{c} % 3",
                f"coalesce({c}, 7)",
                f"CASE WHEN {c} > 0 THEN {c} END",
                f"{c} * 2",
            ],
            "dec": [f"{c} + 1", f"-{c}", f"coalesce({c}, 0.5)", f"abs({c})", f"CAST({c} AS DECIMAL(38,10))"],
            "double": [f"{c} * 2", f"-{c}", f"coalesce({c}, 3.5D)"],
            "str": [f"upper({c})", f"concat({c}, 'x')", f"coalesce({c}, 'n')", f"substr({c}, 1, 1)"],
            "date": [f"date_add({c}, 1)", f"coalesce({c}, DATE'2000-01-01')", f"trunc({c}, 'MM')"],
            "bool": [f"NOT {c}", f"coalesce({c}, false)", f"{c} IS NULL"],
            "ts": [
                f"{c} + INTERVAL '1' DAY",
                f"date_trunc('HOUR', {c})",
                f"coalesce({c}, TIMESTAMP'2000-01-01 00:00:00')",
            ],
            "bin": [f"coalesce({c}, X'01')", f"concat({c}, X'00')"],
        }[col.kind]
    )


def computed(rng: Random, cols: list[Col]) -> tuple[str, str]:
    """(expression, kind) over one or two columns."""
    a, b = rng.choice(cols), rng.choice(cols)
    options = [(scalar(rng, a), a.kind), (f"{a.name} IS NULL", "bool"), (predicate(rng, cols), "bool")]
    if a.kind == "str":
        options.append((f"length({a.name})", "int"))
    if a.kind == "date":
        options.append((f"year({a.name})", "int"))
    if a.kind == b.kind:
        options.append((f"coalesce({a.name}, {b.name})", a.kind))
        options.append((f"CASE WHEN {predicate(rng, cols)} THEN {a.name} ELSE {b.name} END", a.kind))
        if a.kind in ("int", "dec"):
            options.append((f"{a.name} + {b.name}", a.kind))
    return rng.choice(options)


def predicate(rng: Random, cols: list[Col], depth: int = 0) -> str:
    """True, false or unknown: negations and NULLs in lists are where two-valued thinking fails."""
    a, b = rng.choice(cols), rng.choice(cols)
    x = literal(rng, a.kind, nulls=0.0)
    options = [
        f"{a.name} > {x}",
        f"{a.name} = {x}",
        f"NOT ({a.name} <= {x})",
        f"{a.name} IS NULL",
        f"{a.name} IS NOT NULL",
        f"{a.name} <=> {literal(rng, a.kind, nulls=0.5)}",
        f"{a.name} IN ({x}, {literal(rng, a.kind)})",
        f"{a.name} NOT IN ({x}, {literal(rng, a.kind, nulls=0.3)})",
        f"coalesce({a.name} <> {x}, true)",
    ]
    if a.kind == b.kind and a is not b:
        options += [f"{a.name} < {b.name}", f"{a.name} = {b.name}", f"{a.name} <=> {b.name}"] * 2
    if a.kind == "bool":
        options += [a.name, f"NOT {a.name}"]
    if depth < 1:
        left, right = predicate(rng, cols, depth + 1), predicate(rng, cols, depth + 1)
        options += [f"({left} OR {right})", f"{left} AND {right}", f"NOT ({left} AND {right})"]
    return rng.choice(options)
