"""Names that the binder gives to columns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from freshlake.compiler.bind_expression import ExpressionBinder


class Binder(ExpressionBinder):
    """Names only: nothing is walked."""

    def __init__(self) -> None:
        bridge: Any = SimpleNamespace(attribute=str, stable_alias=lambda e, name: name, pair=lambda a, b: (a, b))
        super().__init__(bridge)

    def walk(self, node: Any) -> Any:
        raise NotImplementedError

    def normalise(self, plan: Any) -> Any:
        raise NotImplementedError


def attribute(number: int, name: str) -> Any:
    return SimpleNamespace(exprId=lambda: SimpleNamespace(id=lambda: number), name=lambda: name)


def test_names_differ_in_more_than_case() -> None:
    """Programs run in a session to which `A` and `a` are one column."""
    binder = Binder()
    named = [binder.name_of(attribute(i, name), scan=1) for i, name in enumerate(("User-ID", "user_id", "USER_ID"))]
    assert named == ["User_ID_s1", "user_id_s1_", "USER_ID_s1__"]
    assert binder.name_of(attribute(0, "User-ID"), scan=1) == named[0]


def test_no_column_of_a_query_is_named_like_those_that_rules_make() -> None:
    named = [Binder().name_of(attribute(1, name)) for name in ("__fl_weight", "__FL_is", "__fl___fl_n", "__flow")]
    assert named == ["weight_1", "is_1", "n_1", "__flow_1"]


def test_a_name_that_is_no_column_is_given_once() -> None:
    binder = Binder()
    assert [binder.unique("__fl_p0") for _ in range(3)] == ["__fl_p0", "__fl_p0_", "__fl_p0__"]
