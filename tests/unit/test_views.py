"""Arrow's view types become plain ones, at any depth, before rows are picked."""

from __future__ import annotations

import pyarrow as pa

from freshlake.storage.scan.views import without_views

TEXT = pa.string_view()
ROWS = pa.table(
    {
        "text": pa.array(["x", None], TEXT),
        "bytes": pa.array([b"x", None], pa.binary_view()),
        "list": pa.array([["p", None], None], pa.list_(TEXT)),
        "struct": pa.array([{"u": ["x"]}, None], pa.struct([("u", pa.list_(TEXT))])),
        "map": pa.array([[("k", "v")], None], pa.map_(TEXT, TEXT)),
        "number": pa.array([1, None], pa.int64()),
    }
)


def test_values_stay_and_rows_can_be_picked() -> None:
    plain = without_views(ROWS)
    assert plain.to_pylist() == ROWS.to_pylist()
    assert "view" not in str(plain.schema)
    assert plain.take([1, 0]).to_pylist() == ROWS.to_pylist()[::-1]


def test_rows_without_views_are_not_copied() -> None:
    plain = without_views(ROWS)
    assert without_views(plain) is plain
