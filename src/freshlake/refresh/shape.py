"""What a query compiles to, as storage and catalog say it: columns and their types, keys, and what it means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

from freshlake.catalog.records import USES
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.plan import Aggregate, TopK
from freshlake.compiler.split import Node
from freshlake.errors import Unsupported


def key_fields(node: Node) -> tuple[str, ...] | None:
    """The stored columns that tell the rows of a node apart; None if the query does not say."""
    if not isinstance(node.operator, Aggregate):
        return None
    fields = {column.name: column.field for column in node.columns}
    return tuple(fields[key.name] for key in node.operator.keys)


def node_schema(node: Node) -> StructType:
    """The storage schema of a node."""
    fields = []
    for c in node.columns:
        if not c.type.startswith("{") and "<" in c.type:  # a collation inside, which JSON cannot say
            raise Unsupported(
                f"column {c.field} has the type {c.type}, which Delta cannot store",
                hint="remove the collation in the result: collate(column, 'UTF8_BINARY')",
            )
        text = c.type if c.type.startswith("{") else json.dumps(c.type)
        fields.append(StructField(c.field, _parse_datatype_json_string(text), True, json.loads(c.metadata)))
    return StructType(fields)


def output_schema(root: Node) -> dict[str, Any]:
    """The visible columns as a Spark schema."""
    visible = {c.field for c in root.visible}
    return {"type": "struct", "fields": [f.jsonValue() for f in node_schema(root) if f.name in visible]}


def meaning(compiled: CompiledQuery, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a stream table that follow from what its query compiles to under its settings."""
    return {
        "session_settings": {**settings, USES: dict(compiled.uses)},
        "fingerprint": compiled.fingerprint,
        "output_schema": output_schema(compiled.root),
        "reasons": tuple(r.to_dict() for r in compiled.reasons),
        **_top(compiled),
    }


def _top(compiled: CompiledQuery) -> dict[str, Any]:
    """Which rows of an order a query keeps, when that is the last thing that it does."""
    top = compiled.root.operator
    if not isinstance(top, TopK):
        return {"topk_limit": None, "topk_order_by": None, "topk_offset": None}
    labels = {column.name: column.label or column.name for column in top.child.columns}
    order = ", ".join(f"{labels.get(o.expr.text.strip('`'), o.expr.text)} {o.direction}" for o in top.order)
    limit = None if top.end is None else top.end - top.start
    return {"topk_limit": limit, "topk_order_by": order, "topk_offset": top.start or None}
