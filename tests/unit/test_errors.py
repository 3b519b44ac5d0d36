"""Errors: one tree, one code each, one heading each."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from freshlake import errors
from freshlake.errors import FreshlakeError

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
FAMILIES = {"UserError", "SourceError", "StorageError", "CatalogError", "SystemFailure", "InternalError"}


def all_errors() -> list[type[FreshlakeError]]:
    found = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, FreshlakeError)]
    return sorted(found, key=lambda error: error.__name__)


def family_of(error: type[FreshlakeError]) -> set[str]:
    return {base.__name__ for base in error.__mro__} & FAMILIES


@pytest.mark.parametrize("error", all_errors())
def test_the_code_is_the_class_name_in_kebab_case(error: type[FreshlakeError]) -> None:
    assert error.code == re.sub(r"(?<!^)(?=[A-Z])", "-", error.__name__).lower()
    assert "code" in vars(error)


@pytest.mark.parametrize("error", all_errors())
def test_every_class_says_what_it_means_in_one_line(error: type[FreshlakeError]) -> None:
    assert error.__doc__
    assert "\n" not in error.__doc__.strip()


@pytest.mark.parametrize("error", all_errors())
def test_every_error_belongs_to_one_family(error: type[FreshlakeError]) -> None:
    assert error is FreshlakeError or len(family_of(error)) == 1


def test_the_page_has_one_section_with_cause_and_remedy_per_code() -> None:
    sections = re.split(r"^#{2,3} ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    headings = [section.split("\n", 1)[0].strip("`") for section in sections]
    assert sorted(headings) == sorted(error.code for error in all_errors())
    for section in sections:
        assert "**Cause:**" in section
        assert "**What to do:**" in section


def test_the_page_lists_each_code_under_its_family() -> None:
    family = None
    shown: dict[str, str | None] = {}
    for mark, code in re.findall(r"^(#{2,3}) `(.+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        family = code if mark == "##" else family
        shown[code] = family
    for error in all_errors():
        if error is not FreshlakeError:
            (name,) = family_of(error)
            assert shown[error.code] == getattr(errors, name).code, error.code


def test_text_shows_message_detail_and_hint() -> None:
    error = errors.InvalidArgument("tier is 'warm'", detail="not known", hint="use hot")
    assert str(error) == "tier is 'warm'\ndetail: not known\nhint: use hot"
    assert error.to_dict() == {
        "code": "invalid-argument",
        "message": "tier is 'warm'",
        "detail": "not known",
        "hint": "use hot",
    }


def test_a_given_hint_replaces_the_default_one() -> None:
    assert errors.NotFound("no stream table x").hint == errors.NotFound.default_hint
    assert errors.NotFound("no stream table x", hint="look again").hint == "look again"
    assert str(errors.SourceUnreadable("x")) == "x"


def test_errors_survive_pickling_between_processes() -> None:
    error = pickle.loads(pickle.dumps(errors.CycleDetected("x", detail="a -> a", hint="h")))
    assert type(error) is errors.CycleDetected
    assert (error.message, error.detail, error.hint) == ("x", "a -> a", "h")
