"""Every error a user can meet has its code, and its place on the errors page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from freshlake.errors import FreshlakeError

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def family(error: type[FreshlakeError]) -> list[type[FreshlakeError]]:
    return [error, *(descendant for child in error.__subclasses__() for descendant in family(child))]


ERRORS = family(FreshlakeError)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_error_has_a_code_and_says_what_it_means(error: type[FreshlakeError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", error.code)
    assert "code" in vars(error), "an inherited code cannot be told from its parent's"
    assert error.__doc__


def test_codes_are_unique() -> None:
    codes = [error.code for error in ERRORS]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_error_is_documented(error: type[FreshlakeError]) -> None:
    assert f"`{error.code}`" in PAGE.read_text(encoding="utf-8")


def test_page_names_no_error_that_does_not_exist() -> None:
    headings = re.findall(r"^#+ `([a-z-]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(headings) <= {error.code for error in ERRORS}
