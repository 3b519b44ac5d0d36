"""The comparison itself is right: it must not be the place where a difference gets lost."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import Row

from tests.bags import assert_same_rows


def rows(*values: object) -> list[Row]:
    return [Row(a=value) for value in values]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (rows(1, 1, None), rows(None, 1, 1)),
        (rows(0.1 + 0.2), rows(0.3)),
        (rows(float("nan"), float("inf")), rows(float("inf"), float("nan"))),
        (rows({"x": 1, "y": None}), rows({"y": None, "x": 1})),
        (rows([1.0, None]), rows([1.0 + 1e-12, None])),
        (rows(bytearray(b"z")), rows(bytearray(b"z"))),
        ([], []),
    ],
)
def test_equal_bags(left: list[Row], right: list[Row]) -> None:
    assert_same_rows(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (rows(1, 1), rows(1)),
        (rows(1, 2, 2), rows(1, 1, 2)),
        (rows(None), rows(0)),
        (rows(None), rows("")),
        (rows(1), rows(True)),
        (rows(1), rows(1.0)),
        (rows(1.0), rows(1.0000001)),
        (rows(1.0), rows(float("nan"))),
        (rows(Decimal("1.0")), rows(Decimal("1.00"))),
        (rows([1, 2]), rows([2, 1])),
        (rows({"x": None}), rows({})),
        (rows("a"), rows(b"a")),
    ],
)
def test_different_bags(left: list[Row], right: list[Row]) -> None:
    with pytest.raises(AssertionError, match="bags differ"):
        assert_same_rows(left, right)
    with pytest.raises(AssertionError, match="bags differ"):
        assert_same_rows(right, left)
