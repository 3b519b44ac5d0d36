"""Current time: Δ(X ⋈ now) = X₁ ⋈ Δnow + ΔX ⋈ now₀.

The time is an input of an inner join like any other. It changes at every refresh, so its term comes first: it reads the
other inputs as they are now, and their changes are tested at the moment of the refresh before, which is known.

X₁ ⋈ Δnow would remove and add every row on which the condition holds at both moments. Where nothing above reads the
time, only rows that enter or leave are kept, before anything else is joined: those on which the condition differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freshlake.compiler import plan as p
from freshlake.compiler.current_time import is_now
from freshlake.compiler.rules.weights import COLUMN, is_weighted


def at(time: p.Plan, when: p.When) -> p.State:
    """The pinned moment of this refresh, or of the one before."""
    assert isinstance(time, p.Scan)
    assert is_now(time)
    return p.State(time.columns, time.source, time.fields, when)


def entering_and_leaving(
    join: p.InnerJoin, place: int, inputs: Sequence[p.Plan]
) -> tuple[p.InnerJoin, list[p.Plan]] | None:
    """The join without its condition on the time, and its inputs with the rows that this condition changes first.

    None when the time is read above the join, or when no condition reads it.
    """
    time = join.inputs[place]
    names = set(time.names)
    tests = tuple(e for e in join.on if names & set(e.columns))
    if not tests or not names <= join.unread:
        return None
    reads = {c for e in tests for c in e.columns} - names
    tested = [c for i, c in enumerate(inputs) if i != place and reads & set(c.names)]
    if not tested or any(is_weighted(c) for c in tested):
        return None
    others = [c for i, c in enumerate(inputs) if i != place and not any(c is t for t in tested)]
    rest = tuple(e for e in join.on if e not in tests)
    within, rest = _split(rest, {n for c in tested for n in c.names})
    core: p.Plan = tested[0]
    if len(tested) > 1:
        core = p.InnerJoin(tuple(c for t in tested for c in t.columns), tuple(tested), within)
    elif within:
        core = p.Filter(core.columns, core, within)
    return replace(join, on=rest), [_differing(core, time, tests), *others]


def _split(on: Sequence[p.Expr], names: set[str]) -> tuple[tuple[p.Expr, ...], tuple[p.Expr, ...]]:
    inside = tuple(e for e in on if set(e.columns) <= names)
    return inside, tuple(e for e in on if e not in inside)


def _differing(rows: p.Plan, time: p.Plan, tests: Sequence[p.Expr]) -> p.Plan:
    """Rows that pass at one moment only: weight 1 where that is the new one, -1 where it is the old one."""
    was, known = _tested(rows, rows.names, at(time, p.When.BEFORE), tests, "__fl_was")
    both, now = _tested(was, (*rows.names, *known), at(time, p.When.AFTER), tests, "__fl_is")
    before, after = (f"coalesce({' and '.join(flags)}, false)" for flags in (known, now))
    moved = p.Filter(both.columns, both, (p.text(f"{before} <> {after}", *known, *now),))
    weight = p.Item(p.WEIGHT, p.text(f"if({after}, 1L, -1L)", *now))
    return p.project(moved, (*p.passing(moved, only=(*rows.names, *time.names)), weight), [COLUMN])


def _tested(
    rows: p.Plan, kept: Sequence[str], moment: p.State, tests: Sequence[p.Expr], stem: str
) -> tuple[p.Plan, tuple[str, ...]]:
    flags = [p.Item(f"{stem}{i}", e) for i, e in enumerate(tests)]
    names = (*kept, *(moment.names if stem == "__fl_is" else ()))
    joined = p.InnerJoin((*rows.columns, *moment.columns), (rows, moment), ())
    columns = [p.Column(f.name, "boolean") for f in flags]
    return p.project(joined, (*p.passing(joined, only=names), *flags), columns), tuple(f.name for f in flags)
