"""`python -m tests.soak --minutes 30`: forty stream tables, random writers, two daemons, one killed every minute."""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from deltalake import write_deltalake

import freshlake
from freshlake.errors import FreshlakeError, NotAligned
from freshlake.schedule.effective import effective_schedules
from freshlake.schedule.state import Limits
from tests.local_spark import SETTINGS
from tests.soak.checking import differences
from tests.soak.dag import SOURCES, tables
from tests.soak.writer import Writer, first_rows

TOML = "min_schedule_seconds = 5\nlease_seconds = 15\nscheduler_interval_ms = 500\n"
DAEMON = "from tests.soak.daemon import main; main()"


@dataclass
class Soak:
    """What happened, for the figures at the end."""

    lake: Path
    fl: freshlake.Freshlake
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kills: int = 0
    checks: int = 0
    not_aligned: int = 0
    wrong: list[str] = field(default_factory=list)
    looked: Counter[str] = field(default_factory=Counter)
    fresh: Counter[str] = field(default_factory=Counter)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--checks", type=int, default=20, help="random moments at which snapshots are checked")
    parser.add_argument("--pause", type=float, default=1.5, help="seconds between two writes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="freshlake-soak-") as folder:
        return _soak(options, Path(folder) / "lake")


def _soak(options: argparse.Namespace, lake: Path) -> int:
    chance = random.Random(options.seed)
    lake.mkdir(parents=True)
    (lake / "freshlake.toml").write_text(TOML, encoding="utf-8")
    fl = freshlake.connect(lake, spark_settings={**SETTINGS, "spark.driver.memory": "2g"})
    paths = {source: lake / "outside" / source for source in SOURCES}
    for source, path in paths.items():
        write_deltalake(str(path), first_rows(source, chance))
        fl.sql(f"CREATE TABLE {source} USING delta LOCATION '{path}'")
    for table in tables():
        fl.create_stream_table(table.name, table.query, schedule=table.schedule)
    print(f"{len(tables())} stream tables made", flush=True)
    soak = Soak(lake, fl)
    writer = Writer(paths, options.seed, options.pause)
    try:
        soak.daemons = [_daemon(lake), _daemon(lake)]
        writer.start()
        _run(soak, options, chance)
        writer.stop.set()
        writer.join()
        _settle(soak)
    finally:
        writer.stop.set()
        for daemon in soak.daemons:
            daemon.kill()
            daemon.wait()
    return _report(soak, writer)


def _daemon(lake: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DAEMON, str(lake)], stdout=subprocess.DEVNULL)


def _run(soak: Soak, options: argparse.Namespace, chance: random.Random) -> None:
    began = time.monotonic()
    until = began + 60 * options.minutes
    moments = sorted(chance.uniform(began + 20, until) for _ in range(options.checks))
    next_kill = began + 60
    while (now := time.monotonic()) < until:
        _look(soak)
        if now >= next_kill:
            _kill(soak, chance)
            next_kill += 60
        while moments and moments[0] <= now:
            moments.pop(0)
            _check(soak, chance, 6)
        time.sleep(2)


def _kill(soak: Soak, chance: random.Random) -> None:
    which = chance.randrange(len(soak.daemons))
    soak.daemons[which].send_signal(signal.SIGKILL)
    soak.daemons[which].wait()
    soak.daemons[which] = _daemon(soak.lake)
    soak.kills += 1


def _check(soak: Soak, chance: random.Random, count: int) -> None:
    try:
        found = differences(soak.fl, tables(), chance, count)
    except NotAligned as error:
        soak.not_aligned += 1
        print(f"not aligned: {error.detail}", flush=True)
        return
    soak.checks += 1
    soak.wrong.extend(found)
    for line in found:
        print(f"DIFFERENT: {line}", flush=True)


def _look(soak: Soak) -> None:
    """How many tables are within their schedule now."""
    now = datetime.now(UTC)
    scheduler = soak.fl._scheduler
    dag = scheduler._known.current()
    state = scheduler._state(soak.fl._engine.catalog.look(), dag, now)
    schedules = effective_schedules(dag.graph, state.tables, Limits(floor_seconds=5))
    for name, schedule in schedules.items():
        at = state.tables[name].data_timestamp
        if at is None:
            continue
        due = schedule.moment_after(at, 1)
        soak.looked[name] += 1
        # a refresh may begin when it is due and needs its time
        soak.fresh[name] += due is None or (now - due).total_seconds() <= max(5.0, schedule.shortest_seconds or 0)


def _settle(soak: Soak) -> None:
    """With quiet sources all tables catch up; then everything is compared."""
    until = time.monotonic() + 180
    behind: list[str] = []
    while time.monotonic() < until:
        behind = [s.stream_table for s in soak.fl.sources() if s.pending]
        if not behind:
            break
        time.sleep(2)
    for daemon in soak.daemons:
        daemon.terminate()
        daemon.wait(60)
    if behind:
        soak.wrong.append(f"not caught up after three minutes: {', '.join(sorted(set(behind)))}")
    for table in tables():
        try:
            found = soak.fl.verify(table.name)
        except FreshlakeError as error:
            soak.wrong.append(f"{table.name} cannot be verified: {error}")
            continue
        if not found.equal:
            soak.wrong.append(f"{table.name} at the end: {found.missing} missing, {found.unexpected} unexpected")
    stuck = [t.name for t in soak.fl.status() if str(t.status) != "ACTIVE"]
    if stuck:
        soak.wrong.append(f"stuck: {', '.join(stuck)}")


def _report(soak: Soak, writer: Writer) -> int:
    history = soak.fl._engine.catalog.history(None, None)
    actions = Counter(str(r.action or r.status) for r in history)
    share = sum(soak.fresh.values()) / max(1, sum(soak.looked.values()))
    print(
        f"{writer.written} commits of the writers, {soak.kills} daemons killed, {len(history)} refreshes: "
        f"{', '.join(f'{n} {a}' for a, n in actions.most_common())}\n"
        f"{soak.checks} snapshots checked, {soak.not_aligned} without a common point in time\n"
        f"within the schedule: {100 * share:.1f} % of {sum(soak.looked.values())} looks\n"
        f"{len(soak.wrong)} differences"
    )
    for line in soak.wrong:
        print(f"  {line}")
    soak.fl.close()
    return 1 if soak.wrong or share < 0.95 else 0


if __name__ == "__main__":
    sys.exit(main())
