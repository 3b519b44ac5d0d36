"""Make a failing history smaller while it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.property.case import Act, Case, Turn
from tests.property.play import Failure
from tests.property.query import smaller

Fails = Callable[[Case], Failure | None]


def shrink(case: Case, failure: Failure, fails: Fails, attempts: int = 40) -> tuple[Case, Failure]:
    """`fails` plays a history. Greedy: the first smaller one with the same kind of failure is taken, then again."""
    case, failure, attempts = _try_first(case, failure, fails, attempts)
    progress = True
    while progress and attempts > 0:
        progress = False
        for candidate in candidates(case, failure.query):
            if attempts <= 0:
                break
            attempts -= 1
            found = fails(candidate)
            if found is not None and found.kind == failure.kind and found.query == failure.query:
                case, failure, progress = candidate, found, True
                break
    return case, failure


def _try_first(case: Case, failure: Failure, fails: Fails, attempts: int) -> tuple[Case, Failure, int]:
    """The largest step: the failing query alone, up to the failing round."""
    alone = case.only(failure.query, failure.round)
    found = fails(alone)
    if found is not None and found.kind == failure.kind:
        return alone, found, attempts - 1
    return replace(case, turns=case.turns[: failure.round]), failure, attempts - 1


def candidates(case: Case, query: str) -> Iterator[Case]:
    """Smaller histories, large steps first."""
    yield from _fewer_turns(case)
    for tree in smaller(case.queries[query]):
        yield case_with(case, query, tree).only(query, len(case.turns))
    yield from _fewer_changes(case)
    yield from _plainer(case)
    yield from _fewer_rows(case)


def case_with(case: Case, query: str, tree: object) -> Case:
    return replace(case, queries={**case.queries, query: tree})  # type: ignore[dict-item]


def _fewer_turns(case: Case) -> Iterator[Case]:
    if len(case.turns) > 1:
        for i in range(len(case.turns)):
            yield replace(case, turns=case.turns[:i] + case.turns[i + 1 :])


def _fewer_changes(case: Case) -> Iterator[Case]:
    for i, turn in enumerate(case.turns):
        for j in range(len(turn.changes)):
            fewer = replace(turn, changes=turn.changes[:j] + turn.changes[j + 1 :])
            yield _with_turn(case, i, fewer)


def _plainer(case: Case) -> Iterator[Case]:
    """No reconnecting, no folds, no modes but differential, no table properties."""
    for i, turn in enumerate(case.turns):
        plain = replace(turn, reconnect=False, acts=tuple(Act(a.query) for a in turn.acts))
        if plain != turn:
            yield _with_turn(case, i, plain)
    for i, table in enumerate(case.tables):
        if table.options:
            tables = (*case.tables[:i], replace(table, options=""), *case.tables[i + 1 :])
            yield replace(case, tables=tables)


def _fewer_rows(case: Case) -> Iterator[Case]:
    for i, table in enumerate(case.tables):
        half = len(table.rows) // 2
        halves = [table.rows[:half], table.rows[half:]] if half else [()] if table.rows else []
        for rows in halves:
            tables = (*case.tables[:i], replace(table, rows=tuple(rows)), *case.tables[i + 1 :])
            yield replace(case, tables=tables)


def _with_turn(case: Case, at: int, turn: Turn) -> Case:
    return replace(case, turns=(*case.turns[:at], turn, *case.turns[at + 1 :]))
