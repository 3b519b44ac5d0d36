"""What a refresh will take is learned from those before it, and slow ones on a busy machine do not fool it."""

from __future__ import annotations

import json
import math
import random
import statistics
from dataclasses import dataclass, field, replace

import pytest

from freshlake.compiler.complexity import Complexity
from freshlake.refresh.cost import Basis, Costs, Estimate, Sample, Volume, Way, estimate, kept, verdict
from freshlake.refresh.line import Line, Point, fit

ROWS = 1_000_000
SHAPE = ("orders:MUTATING",)


def volume(changed: int, rows: int = ROWS, target: int = ROWS) -> Volume:
    return Volume(changed, rows, target, SHAPE)


def diff(changed: int, ms: float, **other: bool) -> Sample:
    return Sample(Way.DIFFERENTIAL, ms, volume(changed), **other)


def whole(ms: float, way: Way = Way.FULL, rows: int = ROWS, **other: bool) -> Sample:
    return Sample(way, ms, volume(0, rows, rows), **other)


def costs(*samples: Sample, changed: int, kind: Complexity = Complexity.JOIN) -> Costs:
    found = estimate(samples, len(samples), volume(changed), kind)
    assert found is not None
    return found


DIFFS = tuple(diff(changed, 100 + changed / 50) for changed in (100, 1_000, 10_000, 50_000, 100_000, 200_000) * 2)
"""100 ms and 20 ms for a thousand rows."""


# The line ------------------------------------------------------------------------------------------------------------


def test_a_line_is_found_through_noise_and_slow_outliers() -> None:
    drawn = random.Random(1)
    points = [Point(x, (100 + x / 50) * drawn.uniform(0.95, 1.05)) for x in range(0, 200_000, 5_000)]
    slow = [replace(p, y=p.y * 8) if n % 4 == 0 else p for n, p in enumerate(points)]
    line = fit(slow)
    assert line.at(0) == pytest.approx(100, rel=0.15)
    assert line.at(200_000) == pytest.approx(4_100, rel=0.1)


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ([Point(10, 5)], Line(5, 0)),
        ([Point(10, 5), Point(10, 5)], Line(5, 0)),
        ([Point(0, 10), Point(10, 9), Point(20, 10)], Line(10, 0)),
        ([Point(10, 10), Point(20, 20), Point(30, 40)], Line(0, 1)),
        ([Point(0, 10), Point(10, 20)], Line(10, 1)),
    ],
    ids=["one point", "one place", "never falls", "never begins below zero", "two points"],
)
def test_a_line_has_no_negative_part(points: list[Point], line: Line) -> None:
    found = fit(points)
    assert (found.fixed, found.per_row) == pytest.approx((line.fixed, line.per_row), abs=0.3)


# Estimates -----------------------------------------------------------------------------------------------------------


def test_nothing_measured_gives_no_estimate() -> None:
    assert estimate((), 0, volume(1), Complexity.SCAN) is None


def test_both_ways_are_estimated_from_what_was_measured() -> None:
    found = costs(*DIFFS, whole(3_000), whole(3_100), whole(2_900), changed=60_000)
    assert found.differential.ms == pytest.approx(1_300, rel=0.05)
    assert found.full.ms == pytest.approx(3_000, rel=0.1)
    assert (found.differential.basis, found.full.basis) == (Basis.MEASURED, Basis.MEASURED)


@pytest.mark.parametrize(
    ("changed", "way"), [(100, Way.DIFFERENTIAL), (100_000, Way.DIFFERENTIAL), (190_000, Way.FULL)]
)
def test_the_crossover_is_where_the_times_meet(changed: int, way: Way) -> None:
    """DIFFERENTIAL takes as long as FULL at 145,000 changed rows."""
    found = costs(*DIFFS, *(whole(3_000) for _ in range(4)), changed=changed)
    assert verdict(found, margin=0.8) is way


def test_differential_wins_when_it_is_close_unless_much_was_measured() -> None:
    few = costs(*DIFFS, whole(3_000), whole(3_000), changed=165_000)
    many = costs(*DIFFS, *(whole(3_000) for _ in range(4)), changed=165_000)
    assert (few.settled, many.settled) == (False, True)
    assert (verdict(few, 0.8), verdict(many, 0.8)) == (Way.DIFFERENTIAL, Way.FULL)


def test_slow_refreshes_and_first_ones_of_a_process_do_not_count_as_the_usual() -> None:
    disturbed = (diff(60_000, 9_000), diff(200, 4_000, cold=True), diff(60_000, 7_000, cold=True), *DIFFS)
    found = costs(*disturbed, whole(30_000, cold=True), whole(3_000), whole(3_100), whole(25_000), changed=60_000)
    assert found.differential.ms == pytest.approx(1_300, rel=0.25)
    assert found.full.ms == pytest.approx(3_100, rel=0.3)


def test_newer_refreshes_count_more() -> None:
    """The machine became twice as slow."""
    slower = tuple(replace(s, ms=2 * s.ms) for s in DIFFS)
    found = costs(*slower[:6] * 4, *DIFFS * 2, whole(6_000), whole(6_000), whole(3_000), changed=60_000)
    assert found.differential.ms == pytest.approx(2_600, rel=0.15)


def test_a_rare_large_change_is_not_forgotten_among_small_ones() -> None:
    large = (diff(400_000, 9_000), diff(450_000, 10_000))
    found = kept((*(diff(10, 90) for _ in range(500)), *large))
    assert set(large) <= set(found)
    assert len(found) < 20


def test_a_change_of_other_sources_counts_less() -> None:
    other = tuple(Sample(Way.DIFFERENTIAL, 5_000, Volume(1_000, ROWS, ROWS, ("customers:MUTATING",))) for _ in range(3))
    found = costs(*other, *(diff(1_000, 200) for _ in range(2)), whole(3_000), changed=1_000)
    assert found.differential.ms == pytest.approx(200, rel=0.1)


def test_a_table_that_grew_takes_longer_in_full_and_one_that_shrank_no_less() -> None:
    samples = (*DIFFS, *(whole(3_000) for _ in range(4)))
    grown = estimate(samples, 16, Volume(100, 4 * ROWS, 4 * ROWS, SHAPE), Complexity.SCAN)
    shrunk = estimate(samples, 16, Volume(100, ROWS // 4, ROWS // 4, SHAPE), Complexity.SCAN)
    assert grown is not None
    assert shrunk is not None
    assert grown.full.ms == pytest.approx(12_000, rel=0.05)
    assert shrunk.full.ms == pytest.approx(3_000, rel=0.05)


def test_both_sizes_of_full_give_a_line_between_them() -> None:
    samples = (*(whole(1_000, rows=100_000) for _ in range(3)), *(whole(4_000) for _ in range(3)))
    found = estimate(samples, 6, Volume(0, 550_000, 550_000, SHAPE), Complexity.SCAN)
    assert found is not None
    assert found.full.ms == pytest.approx(2_500, rel=0.05)


# Only one kind was ever seen -----------------------------------------------------------------------------------------


def test_a_load_stands_for_full_until_there_is_one_and_is_doubted() -> None:
    found = costs(*DIFFS, whole(2_000, Way.LOAD, cold=True), changed=100_000)
    assert found.full.basis is Basis.DERIVED
    assert found.full.ms > 2_000, "a FULL also reads what is stored and compares"
    assert verdict(found, 0.8) is None, "the fixed ratio decides"


def test_a_load_is_enough_where_the_difference_is_large() -> None:
    assert verdict(costs(*DIFFS, whole(60_000, Way.LOAD), changed=1_000), 0.8) is Way.DIFFERENTIAL
    assert verdict(costs(*DIFFS, whole(200, Way.LOAD), changed=200_000), 0.8) is Way.FULL


@pytest.mark.parametrize("kind", list(Complexity))
def test_differential_that_was_never_seen_follows_from_full_and_the_class(kind: Complexity) -> None:
    fulls = tuple(whole(3_000) for _ in range(10))
    small, large = costs(*fulls, changed=100, kind=kind), costs(*fulls, changed=ROWS, kind=kind)
    assert small.differential.basis is Basis.DERIVED
    assert (small.differential.samples, verdict(small, 0.8)) == (0, Way.DIFFERENTIAL)
    assert verdict(large, 0.8) in (None, Way.FULL)


def test_joins_are_taken_to_cost_more_per_changed_row() -> None:
    fulls = tuple(whole(3_000) for _ in range(10))
    times = [costs(*fulls, changed=100_000, kind=kind).differential.ms for kind in Complexity]
    assert times == sorted(times)
    assert times[-1] > 2 * times[0]


def test_full_that_was_never_seen_follows_from_differential() -> None:
    found = costs(*DIFFS, changed=100)
    assert (found.full.basis, found.full.samples) == (Basis.DERIVED, 0)
    assert verdict(found, 0.8) is Way.DIFFERENTIAL


def test_small_changes_say_little_about_large_ones() -> None:
    small = tuple(diff(100, 100) for _ in range(20))
    found = costs(*small, *(whole(3_000) for _ in range(4)), changed=500_000)
    assert found.differential.basis is Basis.DERIVED
    assert found.differential.ms > 1_000, "not 100 ms, as the line through small changes would have it"


def test_only_first_fulls_of_processes_do_not_keep_full_out() -> None:
    """Each was slowed down by compiling; a fast one was never seen."""
    found = costs(*DIFFS, whole(4_500, cold=True), whole(4_700, cold=True), changed=200_000)
    assert found.full.basis is Basis.COLD
    assert verdict(found, 0.8) is None


def test_costs_and_samples_survive_json() -> None:
    for sample in (*DIFFS, whole(3_000.5, Way.LOAD, cold=True)):
        assert Sample.from_json(json.loads(json.dumps(sample.to_json()))) == sample
    found = costs(*DIFFS, whole(3_000), changed=12_345)
    again = Costs.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    assert again.differential.ms == found.differential.ms


def test_an_estimate_is_its_coefficients() -> None:
    assert Estimate(100.0, 0.02, 1_000, 3, Basis.MEASURED).ms == 120.0


# A simulated world ---------------------------------------------------------------------------------------------------

SHARES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


@dataclass
class World:
    """A table whose true times are known: its crossover lies anywhere between 0.5 % and 300 % of changed rows."""

    seed: int
    drawn: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.drawn = r = random.Random(self.seed)
        self.rows = int(10 ** r.uniform(4.5, 7.5))
        self.target = int(self.rows * 10 ** r.uniform(-4, 0))
        self.kind = r.choice(list(Complexity))
        self.fixed = r.uniform(60, 500)
        self.whole = self.fixed * 10 ** r.uniform(0.1, 2)
        self.slope = (self.whole - self.fixed) / 10 ** r.uniform(-2.3, 0.5)
        self.bend = r.choice((1, 1, 1, 0.8, 1.15))
        self.written = r.choice((0, 0, 0.3))

    def truth(self, way: Way, share: float) -> float:
        if way is Way.DIFFERENTIAL:
            return self.fixed + self.slope * share**self.bend
        return self.whole * (1 + self.written * share)

    def volume(self, share: float) -> Volume:
        return Volume(int(share * self.rows), self.rows, self.target, SHAPE)

    def run(self, way: Way, share: float, cold: bool = False) -> Sample:
        """Measured on a machine with other work: noise, one in twenty far too slow, first ones slower still."""
        r = self.drawn
        ms = self.truth(way, share) * math.exp(r.gauss(0, 0.08)) * (r.uniform(2, 8) if r.random() < 0.05 else 1)
        return Sample(way, ms * r.uniform(1.3, 3) + r.uniform(0, 1_000) if cold else ms, self.volume(share), cold)

    def load(self) -> Sample:
        ms = self.run(Way.FULL, 0, cold=True).ms * self.drawn.uniform(0.5, 1.1)
        return Sample(Way.LOAD, ms, Volume(0, self.rows, self.target), cold=True)

    def chosen(self, samples: list[Sample], share: float) -> Way:
        fixed = Way.FULL if share > 0.15 else Way.DIFFERENTIAL
        found = estimate(samples, len(samples), self.volume(share), self.kind)
        return (verdict(found, 0.8) if found and len(samples) >= 10 else None) or fixed

    def excess(self, way: Way, share: float) -> float:
        """How much longer than the better of the two."""
        return self.truth(way, share) / min(self.truth(w, share) for w in (Way.DIFFERENTIAL, Way.FULL)) - 1


def test_once_both_ways_were_measured_the_choice_is_hardly_ever_more_than_a_tenth_worse() -> None:
    """1,000 histories; sizes that are asked for lie between those that were measured."""
    found = []
    for seed in range(1_000):
        world = World(seed)
        samples = [world.load()]
        for _ in range(4):
            for share in SHARES:
                ways = (Way.DIFFERENTIAL, Way.FULL)
                samples = [*(world.run(way, share, world.drawn.random() < 0.1) for way in ways), *samples]
        for share in random.Random(seed).sample(SHARES, 4):
            asked = share * 0.8
            found.append(world.excess(world.chosen(samples, asked), asked))
    assert sum(excess > 0.1 for excess in found) / len(found) < 0.01
    assert statistics.mean(found) < 0.003
    assert max(found) < 0.5


def test_what_auto_learns_by_itself_is_far_better_than_the_fixed_ratio() -> None:
    """No refresh is made only to learn; processes start anew now and then."""
    learned, fixed = [], []
    for seed in range(60):
        world = World(seed)
        samples, warm = [world.load()], set[Way]()
        for number in range(80):
            warm = set() if number % 17 == 0 else warm
            share = 10 ** world.drawn.uniform(-4, math.log10(0.5))
            way = world.chosen(samples, share)
            samples.insert(0, world.run(way, share, way not in warm))
            warm.add(way)
        for share in SHARES:
            learned.append(world.excess(world.chosen(samples, share), share))
            fixed.append(world.excess(Way.FULL if share > 0.15 else Way.DIFFERENTIAL, share))
    assert statistics.mean(learned) < 0.03
    assert statistics.mean(learned) < statistics.mean(fixed) / 10
    assert sum(excess > 0.1 for excess in learned) / len(learned) < 0.03
