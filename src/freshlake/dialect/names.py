"""What PostgreSQL calls an output column that has no alias."""

from __future__ import annotations

from freshlake.dialect.expressions import folded
from freshlake.dialect.tree import exp

NO_NAME = "?column?"
_TYPES = {"INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "DOUBLE": "float8", "FLOAT": "float4"}
_TYPES |= {"BOOLEAN": "bool", "DECIMAL": "numeric", "VARCHAR": "varchar", "TEXT": "text", "DATE": "date"}
_TYPES |= {"TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamptz", "INTERVAL": "interval"}
_NODES = {
    exp.Array: "array",
    exp.Exists: "exists",
    exp.Extract: "extract",
    exp.Interval: "interval",
    exp.StrPosition: "position",
    exp.Substring: "substring",
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.Localtimestamp: "localtimestamp",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def output_name(node: exp.Expr) -> str:
    """As in PostgreSQL: a column's or a function's name, a type for a cast of something without a name."""
    found = _name(node)
    return found[0] if found else NO_NAME


def _name(node: exp.Expr) -> tuple[str, bool] | None:
    """The name, and whether it is more than a type's or CASE's."""
    if isinstance(node, exp.Alias):
        return folded(node.args["alias"]), True
    if isinstance(node, exp.Column):
        return folded(node.this), True
    if isinstance(node, exp.Anonymous):
        word = node.name
        return word if isinstance(node.this, exp.Identifier) else word.lower(), True
    if isinstance(node, exp.Window | exp.Filter | exp.WithinGroup | exp.Bracket | exp.Paren):
        return _name(node.this)
    if isinstance(node, exp.Cast):
        return _of_cast(node)
    if isinstance(node, exp.Case):
        default = _name(node.args["default"]) if node.args.get("default") is not None else None
        return default if default and default[1] else ("case", False)
    if isinstance(node, exp.Subquery):
        inner = node.unnest()
        items = inner.expressions if isinstance(inner, exp.Select) else []
        return (output_name(items[0]), True) if len(items) == 1 else None
    if isinstance(node, exp.Trim):
        return _TRIMS.get(str(node.args.get("position") or ""), "btrim"), True
    found = _NODES.get(type(node))
    return (found, True) if found else None


def _of_cast(node: exp.Expr) -> tuple[str, bool]:
    inner = _name(node.this)
    if inner and inner[1]:
        return inner
    to = node.args["to"]
    word = to.this.value if hasattr(to.this, "value") else str(to.this)
    return _TYPES.get(word, word.lower()), False
