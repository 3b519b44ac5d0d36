"""Text forms to Arrow: one decoder per form, for values of buffers, of tables and of the replication stream alike."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from freshlake.errors import ValueNotRepresentable
from freshlake.sources.postgres.arrays import MalformedArray, elements
from freshlake.sources.postgres.types import Form, LakeType

_SHOWN = 80


def decode(texts: pa.Array, lake: LakeType, where: str) -> pa.Array:
    """Values of one column from their text forms; `where` names the column in errors."""
    try:
        return _DECODERS[lake.form](texts, lake)
    except (pa.ArrowInvalid, MalformedArray, ValueError) as error:
        raise _not_representable(texts, lake, where) from error


def _text(texts: pa.Array, lake: LakeType) -> pa.Array:
    return texts


def _boolean(texts: pa.Array, lake: LakeType) -> pa.Array:
    true = pc.equal(texts, "t")
    if not pc.all(pc.or_(true, pc.equal(texts, "f"))).as_py() and texts.null_count < len(texts):
        raise ValueError("neither t nor f")
    return true


def _number(texts: pa.Array, lake: LakeType) -> pa.Array:
    # Arrow refuses what would be rounded or does not fit
    return texts.cast(lake.arrow)


def _money(texts: pa.Array, lake: LakeType) -> pa.Array:
    return pc.replace_substring_regex(texts, r"[$,]", "").cast(lake.arrow)


def _date(texts: pa.Array, lake: LakeType) -> pa.Array:
    return texts.cast(lake.arrow)


def _timestamp(texts: pa.Array, lake: LakeType) -> pa.Array:
    if lake.arrow.tz is None:
        return texts.cast(lake.arrow)
    # the session is in UTC, so there is no other offset; BC and infinity have none at their end
    if not pc.all(pc.ends_with(texts, "+00")).as_py() and texts.null_count < len(texts):
        raise ValueError("not in UTC")
    return pc.utf8_slice_codeunits(texts, 0, -3).cast(pa.timestamp("us")).cast(pa.int64()).cast(lake.arrow)


def _binary(texts: pa.Array, lake: LakeType) -> pa.Array:
    return pa.array([None if t is None else bytes.fromhex(_hex(t)) for t in texts.to_pylist()], lake.arrow)


def _hex(text: str) -> str:
    if not text.startswith("\\x"):
        raise ValueError("not hexadecimal")
    return text[2:]


def _array(texts: pa.Array, lake: LakeType) -> pa.Array:
    assert lake.element is not None
    offsets: list[int | None] = []
    found: list[str | None] = []
    for text in texts.to_pylist():
        offsets.append(None if text is None else len(found))
        if text is not None:
            found.extend(elements(text, lake.delimiter))
    values = _DECODERS[lake.element.form](pa.array(found, pa.string()), lake.element)
    return pa.ListArray.from_arrays(pa.array([*offsets, len(found)], pa.int32()), values, type=lake.arrow)


_DECODERS: dict[Form, Callable[[pa.Array, LakeType], pa.Array]] = {
    Form.TEXT: _text,
    Form.BOOLEAN: _boolean,
    Form.NUMBER: _number,
    Form.MONEY: _money,
    Form.DATE: _date,
    Form.TIMESTAMP: _timestamp,
    Form.BINARY: _binary,
    Form.ARRAY: _array,
}


def _not_representable(texts: pa.Array, lake: LakeType, where: str) -> ValueNotRepresentable:
    return ValueNotRepresentable(
        f"a value of column {where} does not fit {lake.spark}",
        detail=f"the value is {_first_bad(texts, lake)}",
        hint="take the column as text, or correct the row",
    )


def _first_bad(texts: pa.Array, lake: LakeType) -> str:
    for text in texts:
        try:
            _DECODERS[lake.form](pa.array([text.as_py()], pa.string()), lake)
        except (pa.ArrowInvalid, MalformedArray, ValueError):
            shown = str(text.as_py())
            return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return "not known"
