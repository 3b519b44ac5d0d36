"""What a tick decides: one line per rule."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from freshlake.schedule import Graph
from freshlake.schedule.state import Consistency, Late, Policy, Skipped, State, Tick, Tier, Unit, Watched
from freshlake.schedule.tick import tick
from tests.unit.schedule_cases import NOW, ago, graph, later, state, table

CHAIN = "a:o b:a c:b"
DIAMOND = "a:o b:o d:a,b"
SLOWEST, LOOSE = Policy.SLOWEST, Consistency.NONE


def due(name: str, **other: object) -> Watched:
    return table(name, **{"age": 70, **other})  # type: ignore[arg-type]


def fresh(name: str, **other: object) -> Watched:
    return table(name, **{"age": 10, **other})  # type: ignore[arg-type]


def resting(name: str, **other: object) -> Watched:
    return due(name, is_active=False, **other)


def run(reads: str, *tables: Watched, groups: str = "", **limits: object) -> Tick:
    declared = tuple(frozenset(names) for names in groups.split())
    return tick(graph(reads), state(*tables, groups=declared, **limits), NOW)


def units(found: Tick) -> str:
    """Units as words: `ab d` is a unit of a and b, then one of d."""
    return " ".join("".join(unit.tables) for unit in found.units)


@pytest.mark.parametrize(
    ("reads", "tables", "expected"),
    [
        pytest.param("", [], "", id="no tables"),
        pytest.param("a:o", [fresh("a")], "", id="nothing is due"),
        pytest.param("a:o", [due("a")], "a", id="a due table"),
        pytest.param("a:o b:o", [due("a"), fresh("b")], "a", id="a table beside it is left alone"),
        pytest.param(CHAIN, [due("a"), due("b"), due("c")], "a b c", id="a chain in order, one unit each"),
        pytest.param(CHAIN, [fresh("a"), fresh("b"), due("c")], "a b c", id="a due table brings all that it reads"),
        pytest.param(CHAIN, [due("a"), fresh("b"), fresh("c")], "a", id="a due table does not bring its readers"),
        pytest.param(CHAIN, [fresh("a"), due("b"), fresh("c")], "a b", id="only what is above"),
        pytest.param("a:o", [due("a", is_active=False)], "", id="not a suspended one"),
        pytest.param("a:o", [due("a", is_blown=True)], "", id="not one whose fuse has blown"),
        pytest.param("a:o", [due("a", retry_at=later(1))], "", id="not one that waits for its retry"),
        pytest.param("a:o", [due("a", retry_at=NOW)], "a", id="the retry has come"),
        pytest.param("a:o", [due("a", is_leased=True)], "", id="not one that is being refreshed"),
        pytest.param("a:o b:o", [due("a", is_leased=True), due("b")], "b", id="the others go on"),
        pytest.param("a:o", [table("a", age=None)], "a", id="a table that was never loaded"),
        pytest.param("a:o", [fresh("a", is_wanted=True)], "a", id="a wanted one"),
        pytest.param("a:o", [due("a", tier=Tier.COLD)], "", id="cold: not on schedule"),
        pytest.param("a:o b:a", [fresh("a", tier=Tier.COLD), due("b")], "a b", id="cold: when a due table reads it"),
        pytest.param("a:o b:a", [fresh("a", tier=Tier.FROZEN), due("b")], "b", id="frozen: it is read as it is"),
        pytest.param(
            "a:o b:a",
            [fresh("a", tier=Tier.FROZEN), fresh("b", is_wanted=True)],
            "a b",
            id="frozen: when someone waits for a table that reads it",
        ),
        pytest.param("a:o b:a", [fresh("a", schedule=None), due("b")], "a b", id="calculated: due with its reader"),
        pytest.param("a:o b:a", [resting("a"), due("b")], "b", id="a resting upstream is read as it is"),
        pytest.param("a:o b:a,p", [due("a", retry_at=later(9)), due("b")], "b", id="also when it waits for its retry"),
        pytest.param(
            "a:o b:a c:b", [fresh("a"), resting("b"), due("c")], "c", id="what is above a resting one is not brought"
        ),
        pytest.param("a:o b:a", [due("a", is_leased=True), due("b")], "", id="not below one that is being refreshed"),
        pytest.param(CHAIN, [due("a", is_leased=True), fresh("b"), due("c")], "", id="nor further below"),
    ],
)
def test_what_is_refreshed(reads: str, tables: list[Watched], expected: str) -> None:
    assert units(run(reads, *tables)) == expected


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        pytest.param([due("a"), due("b"), due("d")], "abd", id="all due: one unit"),
        pytest.param([due("a"), fresh("b"), fresh("d")], "abd", id="fastest: one due member brings all"),
        pytest.param([fresh("a"), fresh("b"), due("d")], "abd", id="fastest: the end brings all"),
        pytest.param([due("a"), fresh("b"), fresh("d", policy=SLOWEST)], "", id="slowest: one due member waits"),
        pytest.param([due("a"), due("b"), fresh("d", policy=SLOWEST)], "", id="slowest: two due members wait"),
        pytest.param([due("a"), due("b"), due("d", policy=SLOWEST)], "abd", id="slowest: all are due"),
        pytest.param(
            [due("a", policy=SLOWEST), fresh("b"), fresh("d")], "abd", id="the end decides, not a table before it"
        ),
        pytest.param(
            [fresh("a", is_wanted=True), fresh("b"), fresh("d", policy=SLOWEST)], "abd", id="slowest: a wanted one"
        ),
        pytest.param([table("a", age=None), fresh("b"), fresh("d", policy=SLOWEST)], "abd", id="slowest: a first load"),
        pytest.param(
            [due("a"), resting("b"), due("d", policy=SLOWEST)], "a", id="slowest: a resting member is not waited for"
        ),
        pytest.param(
            [due("a"), due("b", retry_at=later(9)), due("d", policy=SLOWEST)], "a", id="slowest: nor one before retry"
        ),
        pytest.param(
            [due("a"), fresh("b", tier=Tier.COLD), due("d", policy=SLOWEST)],
            "abd",
            id="slowest: a cold member is not waited for",
        ),
        pytest.param([resting("a"), due("b"), due("d")], "b", id="a resting member: the end is left out, others run"),
        pytest.param([due("a", is_blown=True), due("b"), due("d")], "b", id="a blown member: the same"),
        pytest.param([due("a", retry_at=later(9)), due("b"), due("d")], "b", id="a member before its retry: the same"),
        pytest.param([due("a", tier=Tier.FROZEN), due("b"), due("d")], "b", id="a frozen member: the same"),
        pytest.param([resting("a"), fresh("b"), due("d")], "", id="an end that is left out brings nothing"),
        pytest.param([due("a"), due("b"), resting("d")], "ab", id="a resting end: the sides are still together"),
        pytest.param([due("a", is_leased=True), due("b"), due("d")], "", id="a running member: the group waits"),
        pytest.param([due("a"), due("b"), due("d", is_leased=True)], "", id="a running end: the group waits"),
        pytest.param([resting("a"), due("b"), due("d", consistency=LOOSE)], "b d", id="none: reads what is there"),
        pytest.param([due("a"), fresh("b"), fresh("d", consistency=LOOSE)], "a", id="none: no group"),
        pytest.param(
            [fresh("a"), fresh("b"), due("d", consistency=LOOSE)], "a b d", id="none: still brings its inputs"
        ),
    ],
)
def test_a_diamond(tables: list[Watched], expected: str) -> None:
    assert units(run(DIAMOND, *tables)) == expected


@pytest.mark.parametrize(
    ("reads", "tables", "expected"),
    [
        pytest.param(
            "a:o b:a c:a d:b,c", [resting("a"), due("b"), due("c"), due("d")], "bcd", id="a resting fork is one state"
        ),
        pytest.param("a:o d:a,o", [resting("a"), due("d")], "", id="a resting table beside its own source"),
        pytest.param("a:o d:a,p", [resting("a"), due("d")], "d", id="a resting table beside another source"),
        pytest.param(
            "a:o b:o d:a,b", [resting("a"), resting("b"), due("d")], "", id="two resting tables over one source"
        ),
        pytest.param(
            "a:o b:p d:a,b", [resting("a"), resting("b"), due("d")], "d", id="two resting tables over two sources"
        ),
        pytest.param(
            "a:o b:o d:a,b e:d,p",
            [resting("a"), due("b"), due("d"), due("e")],
            "b e",
            id="the end of a torn diamond is read as it is",
        ),
        pytest.param(
            "a:o b:o d:a,b e:d,o",
            [resting("a"), due("b"), due("d"), due("e")],
            "b",
            id="but not beside the source that tore it",
        ),
        pytest.param(
            "a:o b:o d:a,b e:d",
            [resting("a"), due("b"), due("d", consistency=LOOSE), due("e")],
            "b d e",
            id="below a loose end there is only that end",
        ),
        pytest.param(
            "a:o x:a b:o d:x,b", [resting("a"), due("x"), due("b"), due("d")], "xb", id="a resting table far above"
        ),
        pytest.param("a:o b:a", [table("a", age=None, is_active=False), due("b")], "", id="nothing there to be read"),
        pytest.param(
            "a:o b:a",
            [table("a", age=None, is_active=False), due("b", consistency=LOOSE)],
            "",
            id="nothing there to be read, consistent or not",
        ),
    ],
)
def test_what_rests_is_read_as_it_is_unless_a_root_is_then_seen_twice(
    reads: str, tables: list[Watched], expected: str
) -> None:
    found = run(reads, *tables)
    assert sorted(map(sorted, units(found).split())) == sorted(map(sorted, expected.split()))


def test_who_reads_a_table_in_quarantine_waits_and_is_itself_read_as_it_is() -> None:
    wrong = resting("a", is_quarantined=True)
    loose = due("b", consistency=LOOSE)
    assert units(run(CHAIN, wrong, loose, due("c"))) == "c"
    assert units(run("a:o b:a c:o", wrong, due("b"), due("c"))) == "c"


@pytest.mark.parametrize(
    ("reads", "tables", "expected"),
    [
        pytest.param(
            "a:o", [due("a", is_leased=True)], Skipped("a", "running", "a is being refreshed"), id="running itself"
        ),
        pytest.param(
            CHAIN,
            [fresh("a", is_leased=True), fresh("b"), due("c")],
            Skipped("c", "running", "a is being refreshed", "a"),
            id="running upstream",
        ),
        pytest.param(
            DIAMOND,
            [fresh("a", is_leased=True), due("b"), fresh("d")],
            Skipped("b", "running", "a is being refreshed", "a"),
            id="running group",
        ),
        pytest.param(
            DIAMOND,
            [resting("a"), fresh("b"), due("d")],
            Skipped("d", "upstream-unavailable", "a is not active", "a"),
            id="suspended upstream",
        ),
        pytest.param(
            DIAMOND,
            [due("a", is_blown=True), fresh("b"), due("d")],
            Skipped("d", "upstream-unavailable", "a has blown its fuse", "a"),
            id="blown upstream",
        ),
        pytest.param(
            "a:o b:a",
            [resting("a", is_quarantined=True), due("b")],
            Skipped("b", "upstream-quarantined", "a is in quarantine", "a"),
            id="upstream in quarantine",
        ),
        pytest.param(
            DIAMOND,
            [due("a", retry_at=later(5)), fresh("b"), due("d")],
            Skipped("d", "upstream-unavailable", "a failed and is tried again at 2026-03-04 12:00:05", "a"),
            id="upstream before its retry",
        ),
        pytest.param(
            DIAMOND,
            [fresh("a", tier=Tier.FROZEN), fresh("b"), due("d")],
            Skipped("d", "upstream-unavailable", "a is frozen", "a"),
            id="frozen upstream",
        ),
        pytest.param(
            "a:o b:o d:a,b e:d,o",
            [resting("a"), fresh("b"), fresh("d"), due("e")],
            Skipped("e", "upstream-unavailable", "a is not active", "d"),
            id="the first cause is told",
        ),
        pytest.param(
            "a:o b:a",
            [table("a", age=None, retry_at=later(5)), due("b")],
            Skipped("b", "upstream-empty", "a failed and is tried again at 2026-03-04 12:00:05", "a"),
            id="upstream never loaded",
        ),
        pytest.param(
            "a:o b:a", [due("b")], Skipped("b", "upstream-empty", "a is not known", "a"), id="upstream not known"
        ),
    ],
)
def test_a_due_table_that_is_left_out_says_why(reads: str, tables: list[Watched], expected: Skipped) -> None:
    assert run(reads, *tables).skipped == (expected,)


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param([fresh("a", is_leased=True)], id="running and not due"),
        pytest.param([resting("a")], id="suspended"),
        pytest.param([due("a", retry_at=later(5))], id="before its retry"),
        pytest.param([due("a", tier=Tier.FROZEN)], id="frozen"),
    ],
)
def test_what_is_not_due_is_not_left_out(tables: list[Watched]) -> None:
    assert run("a:o", *tables).skipped == ()


@pytest.mark.parametrize(
    ("began", "expected"),
    [
        pytest.param(ago(59), (), id="what runs began when it was due: no turn is missed"),
        pytest.param(ago(60), ("c",), id="due again since then"),
        pytest.param(None, ("c",), id="nobody knows when it began"),
    ],
)
def test_a_running_refresh_is_the_one_that_a_table_is_due_for(
    began: datetime | None, expected: tuple[str, ...]
) -> None:
    found = run(CHAIN, fresh("a", is_leased=True, leased_at=began), fresh("b"), due("c"))
    assert tuple(skipped.table for skipped in found.skipped) == expected
    assert found.units == ()


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        pytest.param([table("a", "1h", age=60), table("b", "1h", age=60)], "a", id="after the shortest schedule"),
        pytest.param([table("a", "1h", age=59), table("b", "1h", age=59)], "", id="not before"),
        pytest.param([table("a", age=999, tier=Tier.COLD), fresh("b")], "a", id="cold: all the same"),
        pytest.param([table("a", age=999, retry_at=later(1)), fresh("b")], "", id="not before its retry"),
        pytest.param([table("a", age=999, is_active=False), fresh("b")], "", id="not a suspended one"),
    ],
)
def test_what_readers_do_not_see_yet_is_due_soon(tables: list[Watched], expected: str) -> None:
    first, *others = tables
    assert units(run("a:o b:o", replace(first, is_unpublished=True), *others)) == expected


def test_a_patient_group_does_not_wait_with_what_readers_do_not_see_yet() -> None:
    members = [table(name, "1h", age=60, policy=SLOWEST) for name in "bd"]
    assert units(run(DIAMOND, table("a", "1h", age=60, is_unpublished=True), *members)) == "abd"


def immediate(name: str, **other: object) -> Watched:
    return fresh(name, is_immediate=True, schedule=None, **other)


@pytest.mark.parametrize(
    ("reads", "tables", "expected"),
    [
        pytest.param("a:o", [immediate("a", age=999)], "", id="has no schedule"),
        pytest.param("a:o", [immediate("a", is_wanted=True)], "a", id="wanted after a foreign write"),
        pytest.param("a:o", [immediate("a", age=None)], "a", id="never loaded"),
        pytest.param("a:o b:a", [due("a"), immediate("b")], "ab", id="follows what it reads, in one unit"),
        pytest.param("a:o b:a c:b", [due("a"), immediate("b"), fresh("c")], "ab", id="its deferred reader comes later"),
        pytest.param("a:o b:a c:b", [due("a"), immediate("b"), immediate("c")], "abc", id="a chain of them follows"),
        pytest.param("a:o b:a c:b", [fresh("a"), immediate("b"), due("c")], "ab c", id="a due reader brings it"),
        pytest.param("a:o b:p c:a,b", [due("a"), fresh("b"), immediate("c")], "ac", id="leaves other inputs alone"),
        pytest.param("a:o b:p c:a,b", [due("a"), due("b"), immediate("c")], "abc", id="two inputs, one unit"),
        pytest.param("a:o b:o c:a,b", [due("a"), fresh("b"), immediate("c")], "abc", id="the end of a diamond"),
        pytest.param("a:o b:a", [due("a"), immediate("b", is_active=False)], "a", id="suspended: does not follow"),
        pytest.param("a:o b:a", [due("a"), immediate("b", is_leased=True)], "a", id="being written: does not follow"),
        pytest.param("a:o b:a", [fresh("a"), immediate("b", age=30)], "ab", id="what it reads is ahead: catches up"),
        pytest.param("a:o x:a b:a,x", [due("a"), fresh("x"), immediate("b")], "axb", id="what lies between joins"),
    ],
)
def test_an_immediate_table(reads: str, tables: list[Watched], expected: str) -> None:
    assert units(run(reads, *tables)) == expected


def test_declared_groups_are_one_atomic_unit() -> None:
    found = run("a:o b:p c:q", due("a"), fresh("b"), due("c"), groups="ab")
    assert found.units == (Unit(("a", "b"), True, 2), Unit(("c",), False, 2))


def test_a_declared_group_is_patient_when_one_of_its_tables_says_so() -> None:
    assert units(run("a:o b:p", due("a"), fresh("b", policy=SLOWEST), groups="ab")) == ""
    assert units(run("a:o b:p", due("a"), due("b", policy=SLOWEST), groups="ab")) == "ab"


def test_a_declared_group_goes_on_without_a_resting_member() -> None:
    assert units(run("a:o b:p c:q", due("a"), resting("b"), due("c"), groups="abc")) == "ac"


@pytest.mark.parametrize(
    ("held", "publishes"),
    [
        pytest.param(due("b", retry_at=later(9)), False, id="waits for its retry"),
        pytest.param(due("b", is_blown=True), False, id="its fuse has blown"),
        pytest.param(resting("b", is_failed=True), False, id="in ERROR"),
        pytest.param(resting("b", is_failed=True, is_quarantined=True), False, id="in quarantine"),
        pytest.param(resting("b"), True, id="suspended by a person"),
        pytest.param(resting("b", is_blown=True), True, id="suspended by a person, its fuse blown"),
        pytest.param(table("b", age=None, is_active=False, retry_at=later(9)), True, id="never loaded"),
        pytest.param(due("b", tier=Tier.FROZEN), True, id="frozen"),
        pytest.param(due("b", tier=Tier.FROZEN, retry_at=later(9)), True, id="frozen, and failed for a reader"),
    ],
)
def test_a_group_is_published_without_what_a_person_stopped_and_not_without_what_failed(
    held: Watched, publishes: bool
) -> None:
    found = run("a:o b:p c:q", due("a"), held, due("c"), groups="ab")
    assert [(unit.tables, unit.publishes, unit.beside) for unit in found.units] == [
        (("a",), publishes, ("b",)),
        (("c",), True, ()),
    ]


@pytest.mark.parametrize(
    ("reads", "tables", "expected"),
    [
        pytest.param(DIAMOND, [due("a"), due("b"), resting("d", is_failed=True)], {"ab": False}, id="a failed end"),
        pytest.param(DIAMOND, [due("a"), due("b"), resting("d")], {"ab": True}, id="a suspended end"),
        pytest.param(DIAMOND, [resting("a", is_failed=True), due("b"), due("d")], {"b": False}, id="a failed side"),
        pytest.param(
            DIAMOND, [resting("a"), due("b"), due("d")], {"b": True}, id="a suspended side leaves its end out"
        ),
        pytest.param(
            "x:o,p a:x,p b:o d:a,b",
            [resting("x", is_failed=True), due("a"), due("b"), due("d")],
            {"b": False},
            id="a side that waits for what failed above it",
        ),
        pytest.param(
            "x:o,p a:x,p b:o d:a,b",
            [resting("x"), due("a"), due("b"), due("d")],
            {"b": True},
            id="a side that waits for what a person suspended above it",
        ),
        pytest.param(
            DIAMOND,
            [due("a", retry_at=later(9)), due("b"), due("d", consistency=LOOSE)],
            {"b": True, "d": True},
            id="no group, nothing held back",
        ),
    ],
)
def test_a_diamond_is_published_at_once_or_not_at_all(
    reads: str, tables: list[Watched], expected: dict[str, bool]
) -> None:
    assert {"".join(unit.tables): unit.publishes for unit in run(reads, *tables).units} == expected


def test_a_mirror_that_is_lost_keeps_no_other_back_and_one_that_waits_for_its_retry_does() -> None:
    reads = Graph.of({"a": ["pg"], "b": ["pg"]}, databases=["pg"])
    for lost, publishes in ((resting("b", is_failed=True), True), (due("b", retry_at=later(9)), False)):
        found = tick(reads, state(due("a"), lost, groups=(frozenset("ab"),)), NOW)
        assert [unit.publishes for unit in found.units] == [publishes]


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(table("b", "1h", retry_at=later(9)), "", id="not sooner than its schedule: b has to come first"),
        pytest.param(table("b", "1h", is_active=False, is_failed=True), "", id="nor while b is in ERROR"),
        pytest.param(table("b", "1h", retry_at=ago(0), is_unpublished=True), "ab", id="b can be tried again"),
        pytest.param(table("b", "1h", is_active=False), "a", id="b is left out"),
    ],
)
def test_what_has_to_wait_for_its_group_is_not_due_for_being_unpublished(held: Watched, expected: str) -> None:
    committed = table("a", "1h", age=60, is_unpublished=True)
    assert units(run("a:o b:p", committed, held, groups="ab")) == expected


@pytest.mark.parametrize(("failed", "expected"), [(True, ""), (False, "aij")])
def test_nor_is_an_immediate_table_that_follows_one_of_them(failed: bool, expected: str) -> None:
    hour = {"age": 70, "is_unpublished": True}
    held = table("b", "1h", is_active=False, is_failed=failed)
    following = [table(name, None, is_immediate=True, **hour) for name in "ij"]
    tables = [table("a", "1h", **hour), held, *following]
    assert units(run("a:o b:p i:a j:i", *tables, groups="ab")) == expected


def test_a_table_outside_that_reads_a_member_brings_the_group_even_a_patient_one() -> None:
    tables = [fresh("a"), fresh("b"), fresh("d", policy=SLOWEST), due("e")]
    assert units(run("a:o b:o d:a,b e:a", *tables)) == "abd e"


def test_units_wait_for_the_units_they_read() -> None:
    found = run("a:o b:o d:a,b e:d f:d g:e,p z:q", *(due(name) for name in "abdefgz"))
    assert {"".join(u.tables): u.after for u in found.units} == {"abd": (), "e": (0,), "f": (0,), "g": (1,), "z": ()}
    assert [u.is_atomic for u in found.units] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("reads", "tables", "expected"),
    [
        pytest.param("b:o a:o", [due("b"), due("a")], "a b", id="by name"),
        pytest.param(
            "a:o b:p c:q d:r",
            [
                due("a", is_wanted=True, tier=Tier.COLD),
                due("b", age=130, tier=Tier.WARM),
                due("c"),
                immediate("d", is_wanted=True),
            ],
            "d c b a",
            id="immediate, hot, warm, cold",
        ),
        pytest.param("z:o a:z b:p", [due("z"), due("a"), due("b")], "b z a", id="upstream first, then by name"),
        pytest.param(
            "z:o a:z b:p",
            [fresh("z", tier=Tier.COLD), due("a"), due("b", age=130, tier=Tier.WARM)],
            "z a b",
            id="what a hot table waits for is as urgent",
        ),
        pytest.param(
            "a:o b:p c:q",
            [due("a"), due("b", age=130, tier=Tier.WARM), immediate("c", is_wanted=True)],
            "c a b",
            id="ready at once",
        ),
    ],
)
def test_the_order_of_units(reads: str, tables: list[Watched], expected: str) -> None:
    assert units(run(reads, *tables)) == expected


def test_a_group_is_as_urgent_as_its_most_urgent_table() -> None:
    found = run("a:o b:p", due("a", age=130, tier=Tier.WARM), fresh("b"), groups="ab")
    assert [unit.priority for unit in found.units] == [2]


def test_disabled_decides_nothing() -> None:
    assert run("a:o", due("a", age=999), enabled=False) == Tick()


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(table("a", age=120), None, id="twice its interval: not yet"),
        pytest.param(table("a", age=121), Late("a", 121, 60), id="older than twice its interval"),
        pytest.param(table("a", age=121, is_active=False), None, id="suspended: its age is known"),
        pytest.param(table("a", age=121, is_blown=True), Late("a", 121, 60), id="fuse blown"),
        pytest.param(table("a", age=121, retry_at=later(9)), Late("a", 121, 60), id="failing"),
        pytest.param(table("a", age=121, is_leased=True), Late("a", 121, 60), id="being refreshed for too long"),
        pytest.param(table("a", age=121, tier=Tier.WARM), None, id="warm: twice of twice"),
        pytest.param(table("a", age=9_999, tier=Tier.COLD), None, id="cold: has no age"),
        pytest.param(table("a", age=9_999, is_immediate=True), None, id="immediate: has no schedule"),
        pytest.param(table("a", age=None), None, id="never loaded: has no age"),
        pytest.param(table("a", "30 * * * *", age=5_400), None, id="cron: one moment was missed"),
        pytest.param(table("a", "30 * * * *", age=5_401), Late("a", 5_401, 3_600), id="cron: two moments were missed"),
        pytest.param(table("a", "0 9 * * 1-5", age=100), None, id="cron: a weekend is no delay"),
    ],
)
def test_stale(of: Watched, expected: Late | None) -> None:
    assert run("a:o", of).stale == ((expected,) if expected else ())


def test_a_weekend_does_not_make_a_weekday_table_stale() -> None:
    friday, monday = datetime.fromisoformat("2026-03-06T09:00:00Z"), datetime.fromisoformat("2026-03-09T08:59:00Z")
    of = Watched("a", table("a", "0 9 * * 1-5").schedule, data_timestamp=friday)
    assert tick(graph("a:o"), State({"a": of}), monday).stale == ()


def test_a_patient_group_is_stale_when_all_of_it_is() -> None:
    slow = [table("b", "10m", age=130), table("d", "10m", age=130, policy=SLOWEST)]
    assert run(DIAMOND, table("a", age=130), *slow).stale == ()
    old = [table("b", "10m", age=1_300), table("d", "10m", age=1_300, policy=SLOWEST)]
    assert [late.table for late in run(DIAMOND, table("a", age=1_300), *old).stale] == ["a", "b", "d"]


@pytest.mark.parametrize(
    ("of", "limits", "expected"),
    [
        pytest.param(fresh("a", typical_seconds=60), {}, None, id="just fits"),
        pytest.param(fresh("a", typical_seconds=61), {}, Late("a", 10, 60), id="takes longer than its interval"),
        pytest.param(
            fresh("a", typical_seconds=61), {"auto_backoff": True}, Late("a", 10, 60), id="also when it is stretched"
        ),
        pytest.param(fresh("a", typical_seconds=61, tier=Tier.WARM), {}, None, id="warm: twice the time"),
        pytest.param(fresh("a", typical_seconds=61, tier=Tier.COLD), {}, None, id="cold: no interval"),
        pytest.param(fresh("a", typical_seconds=61, is_active=False), {}, None, id="suspended"),
        pytest.param(fresh("a", schedule="@hourly", typical_seconds=3_601), {}, Late("a", 10, 3_600), id="cron"),
    ],
)
def test_falling_behind(of: Watched, limits: dict[str, object], expected: Late | None) -> None:
    assert run("a:o", of, **limits).falling_behind == ((expected,) if expected else ())


@pytest.mark.parametrize(
    ("reads", "tables", "expected"),
    [
        pytest.param("", [], None, id="no tables"),
        pytest.param("a:o", [table("a", age=20)], later(40), id="the next moment"),
        pytest.param("a:o b:o", [table("a", age=20), table("b", age=50)], later(10), id="the first of all"),
        pytest.param("a:o b:o", [due("a"), table("b", age=50)], later(10), id="what is due now does not count"),
        pytest.param("a:o", [due("a", retry_at=later(5))], later(5), id="a retry"),
        pytest.param("a:o", [table("a", age=20, retry_at=later(5))], later(5), id="a retry others may wait for"),
        pytest.param("a:o", [table("a", age=20, is_active=False)], None, id="not a suspended one"),
        pytest.param("a:o", [table("a", age=20, tier=Tier.COLD)], None, id="not a cold one"),
        pytest.param(
            DIAMOND,
            [table("a", age=70), table("b", age=20), table("d", age=30, policy=SLOWEST)],
            later(40),
            id="slowest",
        ),
    ],
)
def test_next_due(reads: str, tables: list[Watched], expected: datetime | None) -> None:
    assert run(reads, *tables).next_due == expected


def test_each_table_has_its_moment() -> None:
    found = run(
        DIAMOND + " e:o f:o",
        fresh("a"),
        due("b", policy=SLOWEST),
        fresh("d", policy=SLOWEST),
        due("e"),
        resting("f"),
    ).moments
    assert found == {"a": later(50), "b": later(50), "d": later(50), "e": ago(10)}


def test_a_table_that_took_longer_than_its_interval_starts_again_when_it_ends() -> None:
    ended = table("a", age=90, typical_seconds=90)
    assert units(run("a:o", ended)) == "a"
    assert ended.data_timestamp == ago(90)
