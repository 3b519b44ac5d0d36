"""Time passes: every table equals its query at the moment its refresh was pinned to, whoever moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.clock import ManualClock
from freshlake.errors import NonDeterministic, NotDifferentiable, UnsupportedQuery
from freshlake.lake import Freshlake
from freshlake.refresh.result import RefreshResult
from tests.integration.lakes import ANY_SHARE, rows

pytestmark = pytest.mark.timeout(1800)

ZONE = "Asia/Tokyo"
START = datetime(2026, 3, 1, 13, 30, tzinfo=UTC)
"""22:30 in Tokyo: the day there ends before it does in UTC."""

SETUP = (
    "CREATE TABLE ev (id INT, ts TIMESTAMP, k INT, d DATE) USING delta",
    "CREATE TABLE dim (k INT, name STRING, hours INT) USING delta",
    "INSERT INTO ev VALUES (1, TIMESTAMP '2026-03-01 20:00:00', 1, DATE '2026-03-01'), "
    "(2, TIMESTAMP '2026-03-01 22:00:00', 1, DATE '2026-03-01'), (2, TIMESTAMP '2026-03-01 22:00:00', 1, DATE "
    "'2026-03-01'), (3, TIMESTAMP '2026-03-01 23:10:00', 2, DATE '2026-03-02'), (4, NULL, 2, NULL), "
    "(5, TIMESTAMP '2026-03-02 00:30:00', NULL, DATE '2026-03-02'), (6, TIMESTAMP '2026-03-02 03:00:00', 3, DATE "
    "'2026-03-03')",
    "INSERT INTO dim VALUES (1, 'ann', 1), (2, 'bob', 4), (2, 'bob', 4), (NULL, 'nil', 0)",
)

CASES = {
    "recent": "SELECT id, ts, k FROM ev WHERE ts > now() - INTERVAL 1 HOUR AND ts <= now()",
    "today": "SELECT id, d FROM ev WHERE d = current_date()",
    "not_yet": "SELECT id FROM ev WHERE NOT (ts <= current_timestamp()) OR ts IS NULL",
    "joined": "SELECT ev.id, dim.name FROM ev JOIN dim ON ev.k = dim.k AND ev.ts <= now()",
    "of_both_sides": "SELECT ev.id, dim.name FROM ev JOIN dim ON ev.k = dim.k "
    "WHERE ev.ts + make_dt_interval(0, dim.hours) > now()",
    "aggregated": "SELECT k, count(*) AS n, sum(id) AS s, max(ts) AS m FROM ev WHERE ts <= now() GROUP BY k",
    "overall": "SELECT count(*) AS n, min(ts) AS m FROM ev WHERE ts > now()",
    "having": "SELECT k, max(ts) AS m FROM ev GROUP BY k HAVING max(ts) > now() - INTERVAL 2 HOURS",
    "of_a_parameter": "WITH today AS (SELECT current_date() AS d) SELECT ev.id FROM ev JOIN today ON ev.d >= today.d",
    "local": "SELECT id FROM ev WHERE CAST(ts AS TIMESTAMP_NTZ) < localtimestamp()",
    "distinct_keys": "SELECT DISTINCT k FROM ev WHERE ts > now()",
    "in_seconds": "SELECT id, current_timezone() AS zone FROM ev WHERE unix_timestamp(ts) < unix_timestamp()",
    "twice": "SELECT id FROM (SELECT id, ts, k FROM ev WHERE ts <= now()) WHERE ts > now() - INTERVAL 90 MINUTES "
    "AND k IN (1, 2)",
    "both_inputs": "SELECT a.id AS i, b.id AS j FROM (SELECT * FROM ev WHERE ts <= now()) AS a "
    "JOIN (SELECT * FROM ev WHERE ts > now()) AS b ON a.id < b.id",
    "in_a_union": "SELECT id FROM ev WHERE ts <= now() UNION ALL SELECT k FROM dim",
    "over_a_temporal_table": "SELECT k, count(*) AS n FROM recent GROUP BY k",
}

ROUNDS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (45 * 60, ()),
    (0, ("INSERT INTO ev VALUES (7, TIMESTAMP '2026-03-01 23:00:00', 2, DATE '2026-03-02')",)),
    (
        50 * 60,  # midnight in Tokyo passes
        (
            "INSERT INTO ev VALUES (8, TIMESTAMP '2026-03-02 00:04:00', 1, DATE '2026-03-02'), "
            "(9, TIMESTAMP '2026-03-02 09:00:00', 2, DATE '2026-03-01')",
            "DELETE FROM ev WHERE id = 2",
            "UPDATE dim SET k = 3, hours = 9 WHERE name = 'ann'",
        ),
    ),
    (1, ()),
    (3600, ("UPDATE ev SET ts = ts + INTERVAL 3 HOURS, d = DATE '2026-03-02' WHERE id IN (1, 3)",)),
    (-3600, ("DELETE FROM dim",)),
    (7200, ("DELETE FROM ev",)),
    (60, ("INSERT INTO ev VALUES (10, TIMESTAMP '2026-03-02 03:30:00', 1, DATE '2026-03-02')",)),
)
_SESSION = {
    "spark.sql.session.timeZone": ZONE,
    # compiling code takes longer than running it over ten rows
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
RECONNECT = 4
"""The round before which the connection is closed and opened again."""


class Story:
    """One lake through all rounds, with what every refresh said."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, ManualClock(START)
        self.fl = self.connect()
        for statement in SETUP:
            self.fl.sql(statement)
        self.results: dict[tuple[str, int], RefreshResult] = {}
        self.wrong: dict[tuple[str, int], str] = {}
        self.verified: dict[str, bool] = {}

    def connect(self) -> Freshlake:
        fl = freshlake.connect(self.folder, settings=ANY_SHARE, clock=self.clock)
        for key, value in _SESSION.items():
            fl.spark.conf.set(key, value)
        return fl

    def tell(self) -> None:
        for name, query in CASES.items():
            self.fl.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
        self.compare(0)
        for number, (seconds, changes) in enumerate(ROUNDS, 1):
            if number == RECONNECT:
                self.fl.close()
                self.fl = self.connect()
            if seconds < 0:
                self.clock.set(datetime.fromtimestamp(self.clock.now().timestamp() + seconds, UTC))
            else:
                self.clock.advance(seconds)
            for statement in changes:
                self.fl.sql(statement)
            for result in self.fl.refresh_all():
                self.results[result.table.removeprefix("default."), number] = result
            self.compare(number)
        for name in CASES:
            self.verified[name] = self.fl.verify(name).equal

    def compare(self, number: int) -> None:
        expected, found = (
            self.contents({n: self.at_this_moment(n) for n in CASES}),
            self.contents({n: n for n in CASES}),
        )
        for name in CASES:
            if expected[name] != found[name]:
                missing, unexpected = expected[name] - found[name], found[name] - expected[name]
                self.wrong[name, number] = f"missing {missing}, unexpected {unexpected}"

    def contents(self, queries: dict[str, str]) -> dict[str, Counter[str]]:
        """The rows of all queries, by one query."""
        shown = "to_json(struct(*), map('ignoreNullFields', 'false'))"
        parts = (f"SELECT '{n}', {shown} FROM {q if ' ' not in q else f'({q})'}" for n, q in queries.items())
        bags: dict[str, Counter[str]] = {name: Counter() for name in queries}
        for name, row in self.fl.sql(" UNION ALL ".join(parts)).collect():
            bags[name][row] += 1
        return bags

    def at_this_moment(self, name: str) -> str:
        """The query with the time written out, as Spark would see it at the clock's time."""
        now = f"timestamp_micros({int(self.clock.now().timestamp() * 1_000_000)}L)"
        query = CASES[name]
        query = query.replace("FROM recent", f"FROM ({CASES['recent']}) AS recent")
        query = query.replace("unix_timestamp()", f"unix_timestamp({now})").replace("current_timestamp()", now)
        query = query.replace("localtimestamp()", f"CAST({now} AS TIMESTAMP_NTZ)").replace("now()", now)
        return query.replace("current_date()", f"CAST({now} AS DATE)")


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    before = {key: spark.conf.get(key) for key in _SESSION}
    told = Story(tmp_path_factory.mktemp("time"))
    told.tell()
    yield told
    told.fl.close()
    for key, value in before.items():
        spark.conf.set(key, str(value))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_equals_its_query_at_its_moment(story: Story, case: str) -> None:
    assert not {number: why for (name, number), why in story.wrong.items() if name == case}
    assert story.verified[case]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_refresh_was_full(story: Story, case: str) -> None:
    """But for the round that empties a source, which is read again on purpose."""
    actions = {(str(r.action), r.reason) for (name, _), r in story.results.items() if name == case}
    assert actions <= {("DIFFERENTIAL", None), ("NO_DATA", None), ("FULL", "truncate-detected")}


@pytest.mark.slow
def test_rows_come_and_go_while_no_table_changes(story: Story) -> None:
    result = story.results["recent", 1]
    assert (str(result.action), result.rows_inserted, result.rows_deleted) == ("DIFFERENTIAL", 1, 2)


@pytest.mark.slow
def test_what_does_not_change_is_not_written(story: Story) -> None:
    result = story.results["recent", 4]
    assert (result.rows_inserted, result.rows_deleted) == (0, 0)
    assert result.version == story.results["recent", 3].version


@pytest.mark.slow
def test_a_date_is_the_same_all_day(story: Story) -> None:
    result = story.results["today", 1]
    assert (str(result.action), result.spark_jobs) == ("NO_DATA", 0)
    assert story.results["today", 3].rows_inserted > 0


@pytest.mark.slow
def test_a_moment_that_stands_still_is_no_change(story: Story) -> None:
    assert str(story.results["having", 2].action) == "DIFFERENTIAL"
    assert story.fl._engine.refresh(story.fl._engine.catalog.get("default.having"), {}).action == "NO_DATA"


@pytest.mark.slow
def test_a_round_has_one_moment(story: Story) -> None:
    for number in range(1, len(ROUNDS) + 1):
        found = [r.frontier["sources"].get("now") for (_, n), r in story.results.items() if n == number]
        assert len({moment["version"] for moment in found if moment}) == 1


@pytest.mark.slow
def test_a_reader_takes_the_change_from_the_log(story: Story) -> None:
    reader = story.results["over_a_temporal_table", 1]
    assert (str(reader.action), "now" in reader.frontier["sources"]) == ("DIFFERENTIAL", False)
    assert str(story.results["over_a_temporal_table", 4].action) == "NO_DATA"


@pytest.mark.slow
def test_the_time_is_shown_as_a_source(story: Story) -> None:
    (source,) = [s for s in story.fl.sources("recent") if s.source_type == "TIME"]
    assert (source.source, source.columns_used, source.problem) == ("current time", ("current_timestamp",), None)
    assert [s.columns_used for s in story.fl.sources("today") if s.source_type == "TIME"] == [(f"current_date {ZONE}",)]
    assert "current time" in str(story.fl.explain("recent"))
    assert [f.code for f in story.fl.health() if f.name == "current time"] == []
    assert story.fl.history("recent")[0].decision["sources"]["now"]["name"] == "current time"


# Where the time is not in a condition --------------------------------------------------------------------------------


@pytest.fixture
def fl(spark: SparkSession, lake_dir: Path) -> Iterator[tuple[Freshlake, ManualClock]]:
    clock = ManualClock(START)
    lake = freshlake.connect(lake_dir, settings=ANY_SHARE, clock=clock)
    lake.sql("CREATE TABLE t (id INT) USING delta")
    lake.sql("INSERT INTO t VALUES (1), (2), (NULL)")
    yield lake, clock
    lake.close()


def test_a_time_that_is_shown_makes_every_refresh_full(fl: tuple[Freshlake, ManualClock]) -> None:
    lake, clock = fl
    for number, query in enumerate(
        (
            "SELECT id, now() AS at FROM t",
            "SELECT count(*) AS n, date_format(current_date(), 'y') AS y FROM t GROUP BY current_date()",
            "SELECT id, x FROM t LATERAL VIEW explode(array(current_timestamp())) AS x",
            "SELECT id, row_number() OVER (PARTITION BY localtimestamp() ORDER BY id) AS r FROM t",
        )
    ):
        word = ("now()", "current_date()", "current_timestamp()", "localtimestamp()")[number]
        with pytest.raises(NotDifferentiable, match="cannot be refreshed") as caught:
            lake.create_stream_table("shown", query, refresh_mode="DIFFERENTIAL")
        assert word in str(caught.value)
        lake.create_stream_table("shown", query)
        clock.advance(86_400)
        result = lake.refresh("shown")
        assert (str(result.action), result.reason) == ("FULL", "not-differentiable")
        assert word in str(result.detail)
        assert lake.verify("shown").equal
        lake.drop_stream_table("shown")
    lake.create_stream_table("shown", "SELECT id, now() AS at FROM t")
    assert {row["at"].timestamp() for row in lake.table("shown").collect()} == {clock.now().timestamp()}


@pytest.mark.parametrize("join", ["LEFT", "RIGHT", "LEFT SEMI", "LEFT ANTI", "FULL"])
def test_a_condition_of_an_outer_join_may_read_the_time(fl: tuple[Freshlake, ManualClock], join: str) -> None:
    lake, clock = fl
    lake.sql("CREATE TABLE ev (id INT, ts TIMESTAMP) USING delta")
    lake.sql("INSERT INTO ev SELECT id, timestamp_micros(1772371800000000 + (id - 2) * 60000000) FROM range(6)")
    sides = "ev JOIN t" if join == "RIGHT" else "t JOIN ev"
    shown = "t.id" if "SEMI" in join or "ANTI" in join else "t.id, ev.ts"
    query = f"SELECT {shown} FROM {sides.replace('JOIN', f'{join} JOIN')} ON t.id = ev.id AND ev.ts <= now()"
    lake.create_stream_table("joined", query)
    for _ in range(2):
        clock.advance(60)
        lake.refresh("joined")
        assert lake.verify("joined").equal
        now = f"timestamp_micros({int(clock.now().timestamp() * 1_000_000)}L)"
        assert rows(lake, query.replace("now()", now)) == rows(lake, "joined")


def test_functions_of_a_session_are_refused_by_name(fl: tuple[Freshlake, ManualClock]) -> None:
    lake, _ = fl
    for function, shown in {
        "current_user()": "current_user",
        "session_user()": "session_user",
        "current_database()": "current_schema",
        "current_catalog()": "current_catalog",
        "current_time()": "current_time",
    }.items():
        with pytest.raises(UnsupportedQuery, match=rf"^{shown}\(\)"):
            lake.create_stream_table("refused", f"SELECT id, upper(CAST({function} AS STRING)) AS x FROM t")
    for function in ("rand", "uuid", "randn", "monotonically_increasing_id"):
        with pytest.raises(NonDeterministic, match=rf"^{function}\(\)"):
            lake.create_stream_table("refused", f"SELECT id FROM t WHERE concat({function}(), 'x') > 'a'")
    with pytest.raises(NonDeterministic, match=r"^shuffle\(\)"):
        lake.create_stream_table("refused", "SELECT id, shuffle(array(1, 2)) AS s FROM t")


SPOKEN = {
    "compared": "SELECT id FROM ev WHERE ts > 'yesterday'",
    "cast": "SELECT id FROM ev WHERE ts <= CAST('now' AS TIMESTAMP) AND ts > to_timestamp(concat('to', 'day'))",
    "typed": "SELECT id FROM ev WHERE d = DATE 'today'",
    "viewed": "SELECT id FROM soon",
    "local": "SELECT id FROM ev WHERE CAST(ts AS TIMESTAMP_NTZ) < TIMESTAMP_NTZ 'now' AND d IN ('epoch', 'Today ')",
    "only text": "SELECT id FROM ev WHERE CAST(named_struct('a', 'now') AS STRUCT<b: STRING>).b = 'now'",
}


def test_moments_that_are_written_as_text_pass(fl: tuple[Freshlake, ManualClock]) -> None:
    lake, clock = fl
    lake.sql("CREATE TABLE ev (id INT, ts TIMESTAMP, d DATE) USING delta")
    times = ("02-28 12:00", "03-01 13:00", "03-02 08:00", "03-02 20:00")
    for number, time in enumerate(times, 1):
        lake.sql(f"INSERT INTO ev VALUES ({number}, TIMESTAMP '2026-{time}:00Z', DATE '2026-{time[:5]}')")
    lake.sql("CREATE VIEW soon AS SELECT id FROM ev WHERE d >= DATE 'Tomorrow'")
    query = " UNION ALL ".join(q.replace("id", f"'{name}' AS what, id", 1) for name, q in SPOKEN.items())
    lake.create_stream_table("spoken", query, refresh_mode="DIFFERENTIAL")

    def found() -> dict[str, list[int]]:
        shown = lake.table("spoken").collect()
        return {name: sorted(row["id"] for row in shown if row["what"] == name) for name in SPOKEN}

    every = [1, 2, 3, 4]
    assert list(found().values()) == [every, [2], [2], [3, 4], [2], every]
    clock.advance(86_400)
    assert str(lake.refresh("spoken").action) == "DIFFERENTIAL"
    assert list(found().values()) == [[2, 3, 4], [3], [3, 4], [], [3], every]
    clock.advance(86_400)
    lake.sql("DELETE FROM ev WHERE id IN (2, 3)")
    lake.refresh("spoken")
    assert list(found().values()) == [[4], [], [], [], [], [1, 4]]
    assert lake.verify("spoken").equal


def test_a_moment_as_text_among_rows_of_values_is_refused(fl: tuple[Freshlake, ManualClock]) -> None:
    lake, _ = fl
    with pytest.raises(UnsupportedQuery, match="DATE 'today'"):
        lake.create_stream_table("refused", "SELECT id FROM t JOIN VALUES (DATE 'today') AS x(d)")


def test_the_check_of_a_new_table_is_made_at_one_moment(
    fl: tuple[Freshlake, ManualClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that reads the time otherwise than Spark does is found, although the time moves all the while."""
    lake, _ = fl
    lake.sql("CREATE TABLE days (d DATE) USING delta")
    lake.sql("INSERT INTO days SELECT explode(sequence(DATE '2026-01-01', DATE '2046-01-01', INTERVAL 1 DAY))")
    lake.create_stream_table("past", "SELECT d FROM days WHERE d <= current_date()")
    from freshlake.sources import current_time

    honest: Any = current_time._value
    monkeypatch.setattr(current_time, "_value", lambda f, m: f"date_add({honest(f, m)}, 1)")
    with pytest.raises(freshlake.errors.NotReproducible):
        lake.create_stream_table("wrong", "SELECT d FROM days WHERE d < current_date()")


def test_a_crash_after_the_append_keeps_the_moment(fl: tuple[Freshlake, ManualClock]) -> None:
    lake, clock = fl
    lake.sql("CREATE TABLE due (id INT, ts TIMESTAMP) USING delta")
    lake.sql("INSERT INTO due VALUES (1, TIMESTAMP_MILLIS(1772400600000)), (2, TIMESTAMP_MILLIS(1772371860000))")
    lake.create_stream_table("open", "SELECT id FROM due WHERE ts <= now()")

    def crash(step: str) -> None:
        if step == "appended":
            raise RuntimeError("the process died")

    clock.advance(60)
    lake._engine.observer = crash
    with pytest.raises(freshlake.errors.FreshlakeError):
        lake.refresh("open")
    lake._engine.observer = None
    pinned = clock.now()
    clock.advance(1)
    result = lake.refresh("open")
    assert (result.rows_inserted, result.rows_deleted) == (0, 0)
    assert Counter(r["id"] for r in lake.table("open").collect()) == {2: 1}
    assert lake.verify("open").equal
    assert result.frontier["sources"]["now"]["fingerprint"] == clock.now().isoformat() != pinned.isoformat()
