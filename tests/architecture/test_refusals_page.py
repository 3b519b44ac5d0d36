"""The page of refusals says what the table of refusals says."""

from __future__ import annotations

from freshlake.compiler.refusals import REFUSALS, RUNS_FULL
from tests.docs.markdown import DOCS, sections, tables

SHOWN = sections((DOCS / "reference" / "refusals.md").read_text(encoding="utf-8"))


def cell(text: str | None) -> str:
    return f"`{text}`" if text else ""


def test_every_refusal_is_on_the_page_as_it_is_raised() -> None:
    (_, table), *_ = tables(SHOWN["Refused"])
    assert list(table.rows) == [
        (r.construct, f"[`{r.error.code}`](../errors.md#{r.error.code})", r.reason, r.rewrite, cell(r.example))
        for r in REFUSALS
    ]


def test_every_construct_without_a_rule_is_on_the_page() -> None:
    (_, table), *_ = tables(SHOWN["Recomputed at every refresh"])
    assert list(table.rows) == [(w.construct, w.rewrite, cell(w.example)) for w in RUNS_FULL]


def test_constructs_have_one_line_each() -> None:
    names = [r.construct for r in (*REFUSALS, *RUNS_FULL)]
    assert len(names) == len(set(names))
