"""A digest of all that an expression means, equal in every process: what Spark prints of one leaves parts of it out.

Spark writes a tree as JSON in one call: classes, literals with their types, and the fields that it knows how to write.
The other fields (how a cast fails, the options of a parser) are asked for one by one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from freshlake.compiler.bridge import CATALYST, Bridge, JavaError
from freshlake.compiler.fingerprint import DRAWN

_EXPRESSION_ID = "org.apache.spark.sql.catalyst.expressions.ExprId"
_MEANINGLESS = {
    "Alias": frozenset(["name", "exprId", "qualifier", "explicitMetadata", "nonInheritableMetadataKeys"]),
    "AggregateExpression": frozenset(["resultId"]),
    "NamedLambdaVariable": frozenset(["name", "value"]),
}
_CODE = frozenset(["PythonUDF", "PythonUDAF", "PythonUDTF"])
"""Their code has a digest of its own, and Spark holds it as bytes that differ each time."""
_AS_BYTES = ("binary", "object")
_ADDRESS = re.compile(r"(\$\$Lambda.*|@[0-9a-f]+)$")


def digest_of(e: Any, written: str, names: Mapping[int, str], bridge: Bridge) -> str:
    """Of an expression, `written` in Spark's JSON; `names` are those of the columns by their number in this process."""
    return _hash([*_Reader(e, names, bridge).nodes(json.loads(written)), _collated(e)])


def rows_of(relation: Any) -> str:
    """A digest of the rows of a constant relation."""
    data = relation.data()
    try:
        return _hash(relation.toSQL("t") if data.size() else "")
    except JavaError:  # a type that SQL has no literals of
        return _hash(data.mkString("\x01"))


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _collated(e: Any) -> str:
    """The JSON of a type leaves out its collation; the SQL of an expression has it."""
    try:
        text = str(e.sql())
    except JavaError:
        return ""
    return re.sub(r"_common_expr_\d+", "", text) if "collate" in text.lower() else ""


class _Reader:
    def __init__(self, e: Any, names: Mapping[int, str], bridge: Bridge) -> None:
        self.e, self.names, self.b = e, names, bridge
        self.lambdas: dict[int, str] = {}

    def nodes(self, written: list[dict[str, Any]]) -> Iterator[Any]:
        for place, node in enumerate(written):
            kind = node["class"].rsplit(".", 1)[-1]
            if kind == "AttributeReference":
                number = node["exprId"]["id"]
                yield self.names.get(number) or self._numbered(number)
            elif kind == "Literal":
                yield self._literal(place, node)
            else:
                if kind == "Cast":
                    self._forget_zone(place, node)
                yield {key: self._field(place, kind, key, value) for key, value in _meaning(kind, node)}

    def _numbered(self, number: int) -> str:
        """Variables of lambdas by their first appearance: Spark names some of them anew each time."""
        return self.lambdas.setdefault(number, f"lambda {len(self.lambdas)}")

    def _literal(self, place: int, node: dict[str, Any]) -> Any:
        value, kind = node.get("value"), node["dataType"]
        if value is None:
            return [None, kind]
        if kind == "object":
            return [self._shown(self.e.apply(place).value()), kind]
        if kind == "binary" or isinstance(kind, dict):
            return [str(self.e.apply(place).sql()), kind]
        return [value, kind]

    def _forget_zone(self, place: int, node: dict[str, Any]) -> None:
        """Spark gives every cast a time zone, that of whoever made a view; few casts look at it."""
        cast = self.e.apply(place)
        types = cast.child().dataType(), cast.dataType()
        if not self.b.module(CATALYST + "expressions.Cast").needsTimeZone(*types):
            node.pop("timeZoneId", None)

    def _field(self, place: int, kind: str, key: str, value: Any) -> Any:
        if value is not None or kind in _CODE:
            return self._without_numbers(value)
        node = self.e.apply(place)
        try:
            return self._shown(getattr(node, key)())
        except JavaError:  # not to be seen from outside
            return [self._shown(node.productElement(i)) for i in range(node.productArity())]

    def _without_numbers(self, value: Any) -> Any:
        if _is_tree(value):
            return [_outline(node) for node in value]
        if isinstance(value, list):
            return [self._without_numbers(part) for part in value]
        if not isinstance(value, dict):
            return value
        if value.get("product-class") == _EXPRESSION_ID:
            return self._numbered(value["id"])
        return {key: self._without_numbers(part) for key, part in value.items()}

    def _shown(self, value: Any) -> Any:
        """A value as text, without where it is in memory; of a map and a sequence, all of it."""
        if self.b.is_a(value, "scala.collection.Map"):
            return sorted(str(pair) for pair in self.b.items(value.toSeq()))
        if self.b.is_a(value, "scala.collection.Seq"):
            return [self._shown(part) for part in self.b.items(value)]
        if value is None or isinstance(value, str | int | float | bool):
            return value
        return _ADDRESS.sub("", re.sub(DRAWN, "", value.toString()))


def _is_tree(value: Any) -> bool:
    """Whether a field is an expression: of some children Spark writes a copy into their parent."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


def _outline(node: dict[str, Any]) -> list[Any]:
    """What of a copy is the same in every process; all of it is written where the child itself stands."""
    kind = node.get("dataType")
    return [node["class"], node.get("value") if isinstance(kind, str) and kind not in _AS_BYTES else None]


def _meaning(kind: str, node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    without = _MEANINGLESS.get(kind, frozenset())
    return ((key, value) for key, value in node.items() if key not in without)
