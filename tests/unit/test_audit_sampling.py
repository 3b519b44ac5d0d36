"""Samples of an audit: which files and keys have their turn, and which columns restrict what is read."""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.audit import Comparison, leaves, open_to_choice, samplings
from freshlake.compiler.derive import recomputed
from freshlake.compiler.split import split
from freshlake.refresh.sampling import MOST_KEYS, affordable, alternating
from freshlake.storage.scan.files import DataFile
from freshlake.storage.scan.part import some_files

FILES = tuple(DataFile(f"f{i}", 100, 10) for i in range(7))
ORDERS = p.Scan(
    tuple(p.Column(n, t) for n, t in (("k", "long"), ("d", "double"), ("s", "string"))), "o", ("k", "d", "s")
)


def names(found: tuple[DataFile, ...]) -> set[str]:
    return {file.path for file in found}


def test_files_are_taken_until_there_are_enough_rows() -> None:
    assert some_files((), 10, 1) == ()
    assert [len(some_files(FILES, rows, 3)) for rows in (1, 10, 11, 69, 70, 1000)] == [1, 1, 2, 7, 7, 7]
    assert some_files(FILES, 25, 5) == some_files(FILES, 25, 5)


def test_every_file_has_its_turn() -> None:
    assert set().union(*(names(some_files(FILES, 10, turn)) for turn in range(100))) == names(FILES)
    # also when the turns of a table are always the same number of audits apart
    assert set().union(*(names(some_files(FILES, 10, turn)) for turn in range(0, 700, 7))) == names(FILES)


def test_keys_are_taken_as_long_as_they_are_affordable() -> None:
    rows = {"a": 40.0, "b": 70.0, "c": 50.0, None: 10.0}
    assert affordable(["a", "b", "c", None], rows, 100) == ["a", "c", None]
    assert affordable(["a", "a", "x"], rows, 50) == ["a", "x"]
    assert affordable(["b"], rows, 50) == []
    assert len(affordable(range(10 * MOST_KEYS), {}, 1)) == MOST_KEYS


def test_keys_that_should_be_there_and_keys_that_are_there_take_turns() -> None:
    assert alternating([1, 2, 3], ["a"]) == [1, "a", 2, 3]
    assert alternating([], ["a", "b"]) == ["a", "b"]


def comparison(plan: p.Plan) -> Comparison:
    nodes = split(plan, plan.columns, differential=True)
    return Comparison(*recomputed(nodes, nodes[-1]))


def ways(plan: p.Plan, rows: dict[str, int | None], limit: int = 100) -> list[str]:
    return [w.column for w in samplings(comparison(plan), "step", lambda leaf: rows[leaf.of], limit)]


def total(child: p.Plan, *keys: str) -> p.Aggregate:
    columns = (*(c for c in child.columns if c.name in keys), p.Column("n", "long"))
    call = p.Call("n", "Count", "count(1)", "long", finish=p.text("__fl_n0"))
    return p.Aggregate(columns, child, tuple(p.Item(k) for k in keys), (call,))


def test_a_sample_is_of_a_column_that_reaches_what_is_read() -> None:
    assert ways(ORDERS, {"o": 1_000}) == ["k", "s"], "floating values are no keys"
    assert ways(total(ORDERS, "s"), {"o": 1_000}) == ["s"], "what is counted is no key"
    assert ways(total(ORDERS), {"o": 1_000}) == [], "a global aggregate has none"
    assert ways(p.TopK(ORDERS.columns, ORDERS, (p.Order(p.column_expr("k")),), 0, 5), {"o": 1_000}) == []


def test_what_the_keys_do_not_reach_must_be_small() -> None:
    rates = p.Scan((p.Column("r", "long"),), "r", ("r",))
    crossed = p.InnerJoin((*ORDERS.columns, *rates.columns), (ORDERS, rates), ())
    assert ways(crossed, {"o": 1_000, "r": 100}) == ["k", "s"]
    assert ways(crossed, {"o": 1_000, "r": 101}) == []
    assert ways(crossed, {"o": 1_000, "r": None}) == []
    assert ways(crossed, {"o": 50, "r": 1_000}) == ["r"]


def test_keys_are_drawn_from_a_leaf_that_holds_them() -> None:
    first = next(samplings(comparison(total(ORDERS, "s")), "step", lambda leaf: 1_000, 10))
    assert (first.drawn.of, first.field, first.drawn.prune) == ("o", "s", ())
    assert all(leaf.prune for leaf in leaves(first.comparison.expected))
    assert all(leaf.prune for leaf in leaves(first.comparison.stored))


def test_what_is_stored_below_settles_what_it_left_open() -> None:
    """`first` below is open; how often each of its values occurs is not, once they are stored."""
    call = p.Call("f", "First", "first(s)", "string", columns=("s",), facts=frozenset({p.OPEN}))
    chosen = p.Aggregate((ORDERS.columns[0], p.Column("f", "string")), ORDERS, (p.Item("k"),), (call,))
    lower, upper = split(total(chosen, "f"), total(chosen, "f").columns, differential=True)
    assert open_to_choice(lower).columns == {"f"}
    assert (open_to_choice(upper).columns, open_to_choice(upper).rows) == (set(), False)
