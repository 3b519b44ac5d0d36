"""The digest of a Python function follows its meaning, not its place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from freshlake.compiler.python_code import digest

BASE = """
RATE = 2
NAMES = {"a", "b", "c"}

def helper(x):
    return x + RATE

def double(x, by=RATE):
    return helper(x) * by if x not in {1, 2, 3} else len(NAMES)

def outer(n):
    return lambda x: x + n

class Adder:
    def __init__(self, n):
        self.n = n
    def __call__(self, x):
        return x + self.n
"""


def made(text: str = BASE, module: str = "some_module") -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": module}
    exec(compile(text, "anywhere.py", "exec", dont_inherit=True), names)
    return names


def changed(old: str, new: str) -> str:
    assert old in BASE
    return BASE.replace(old, new)


@pytest.mark.parametrize(
    "text",
    [BASE, f"# a comment\n\n{BASE}", changed("def double", "def other():\n    return 9\n\ndef double")],
    ids=["again", "moved", "beside another function"],
)
def test_it_stays(text: str) -> None:
    assert digest(made(text)["double"]) == digest(made()["double"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* by if", "+ by if"),
        ("by=RATE", "by=3"),
        ("return x + RATE", "return x - RATE"),
        ("RATE = 2", "RATE = 2.0"),
        ('"c"}', '"d"}'),
        ("{1, 2, 3}", "{1, 2, 4}"),
    ],
    ids=["body", "default", "what it calls", "a constant of the module", "a set of the module", "a constant"],
)
def test_it_changes(old: str, new: str) -> None:
    assert digest(made(changed(old, new))["double"]) != digest(made()["double"])


def test_what_a_function_carries_counts() -> None:
    names = made()
    outer, adder, double = names["outer"], names["Adder"], names["double"]
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (outer(1), outer(2)),
        (adder(1), adder(2)),
        (functools.partial(double, by=1), functools.partial(double, by=2)),
    ]
    for one, other in pairs:
        assert digest(one) != digest(other)
        assert digest(one) == digest(one)
    assert digest(outer(1)) == digest(made()["outer"](1))


def test_a_wrapper_counts_with_what_it_wraps() -> None:
    text = (
        "import functools\n\n"
        "def twice(f):\n    @functools.wraps(f)\n    def wrapper(x):\n        return f(x) * 2\n    return wrapper\n\n"
        "@twice\ndef grown(x):\n    return x + 1\n\n"
        "@functools.lru_cache\ndef kept(x):\n    return x + 1\n"
    )
    for old, new in (("* 2", "* 3"), ("x + 1", "x + 2")):
        assert digest(made(text.replace(old, new))["grown"]) != digest(made(text)["grown"])
    assert digest(made(text)["grown"]) == digest(made(text)["grown"])
    assert digest(made(text.replace("x + 1", "x + 2"))["kept"]) != digest(made(text)["kept"])
    assert digest(made(text)["kept"]) == digest(made(text)["kept"])


USING = """
import datetime, decimal, re
from dataclasses import dataclass

@dataclass
class Tariff:
    rate: int = 7
    def of(self, x):
        return x * self.rate
    @staticmethod
    def zero():
        return 0
    @property
    def half(self):
        return self.rate / 2

TARIFF = Tariff(3)
TAX = decimal.Decimal("1.19")
DAY = datetime.date(2024, 1, 1)
WORD = re.compile("a+")
PICK = max
NESTED = [[1], 2]

def f(x):
    return TARIFF.of(x) * TAX, DAY, WORD, PICK, NESTED
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x * self.rate", "x + self.rate"),
        ("return 0", "return 1"),
        ("self.rate / 2", "self.rate / 3"),
        ("Tariff(3)", "Tariff(4)"),
        ("1.19", "1.07"),
        ("2024", "2025"),
        ("a+", "b+"),
        ("PICK = max", "PICK = min"),
        ("[[1], 2]", "[[1, 2]]"),
    ],
)
def test_constants_and_classes_of_the_module_count(old: str, new: str) -> None:
    assert old in USING
    names = [made(text)["f"] for text in (USING, USING, USING.replace(old, new))]
    one, again, other = map(digest, names)
    assert one == again
    assert one != other


class _HasEverything:
    def __getattr__(self, name: str) -> Any:
        return _HasEverything()


def test_objects_that_answer_to_every_name_end() -> None:
    names = made()
    names["helper"] = _HasEverything()
    assert digest(names["double"])


def test_functions_of_other_modules_count_by_name() -> None:
    names, library = made(), made(changed("return x + RATE", "return 0"), module="library")
    assert isinstance(library["helper"], FunctionType)
    names["helper"] = library["helper"]
    one = digest(names["double"])
    names["helper"] = made(module="library")["helper"]
    assert digest(names["double"]) == one


def test_functions_that_call_each_other_end() -> None:
    text = "def even(n):\n    return n == 0 or odd(n - 1)\n\ndef odd(n):\n    return n != 0 and even(n - 1)\n"
    assert digest(made(text)["even"]) != digest(made(text)["odd"])
