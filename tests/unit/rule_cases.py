"""Small plans over the tables of the rule tests, and tables that are kept by their programs."""

from __future__ import annotations

from collections import Counter

from freshlake.compiler import plan as p
from tests.property.duck import Maintained, Row
from tests.property.plans import SOURCES


def scan(source: str, suffix: str = "") -> p.Scan:
    fields = SOURCES[source]
    return p.Scan(tuple(p.Column(f"{source}_{f}{suffix}", "long") for f in fields), source, fields)


def kept(query: p.Plan, **sources: list[Row]) -> Maintained:
    return Maintained(query, {n: (fields, Counter(sources.get(n, []))) for n, fields in SOURCES.items()})


def call(function: str, column: str, slot: int = 0) -> p.Call:
    finish = {"Count": f"__fl_n{slot}", "Sum": f"if(__fl_n{slot} = 0, null, __fl_s{slot})"}
    return p.Call(
        f"v{slot}",
        function,
        f"{function.lower()}({column})",
        "long",
        slot,
        (p.column_expr(column),),
        ("long",),
        columns=(column,),
        finish=p.text(finish.get(function, f"__fl_m{slot}")),
    )


def grouped(child: p.Plan, key: str | None, *calls: p.Call) -> p.Aggregate:
    keys = (p.Item(key),) if key else ()
    columns = [p.Column(k.name, "long") for k in keys] + [p.Column(c.name, "long") for c in calls]
    return p.Aggregate(tuple(columns), child, keys, calls)
