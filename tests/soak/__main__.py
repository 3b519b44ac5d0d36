"""`python -m tests.soak --minutes 30`: forty stream tables, random writers, two daemons, one killed every minute.

At random moments, and at the end, everything that is published is compared with its query at the state of the sources
that it says it shows. Fails on any difference, on a table that is stuck, on anything unexpected in a daemon's log, and
when less than 95 % of looks find a table within its schedule.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deltalake import write_deltalake

import freshlake
from freshlake.errors import FreshlakeError
from tests.local_spark import SETTINGS
from tests.soak import figures
from tests.soak.checking import Checker
from tests.soak.daemon import Daemons, Killer
from tests.soak.dag import SOURCES, groups, tables
from tests.soak.writer import Customer, Writer, first_rows

TOML = "min_schedule_seconds = 30\nlease_seconds = 15\nscheduler_interval_ms = 500\n"
SHARE = 0.95
WORK_EVERY, LOOK_EVERY, SETTLE = 20.0, 2.0, 240.0


@dataclass
class Soak:
    fl: freshlake.Freshlake
    daemons: Daemons
    killer: Killer
    writer: Writer
    customer: Customer
    checker: Checker
    looks: figures.Looks
    began: datetime | None = None
    elapsed: float = 0.0
    used: float = 0.0
    """Seconds of processors that the daemons used."""

    @property
    def wrong(self) -> list[str]:
        return [*self.checker.wrong, *self.customer.wrong]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--checks", type=int, default=20, help="random moments at which everything is checked")
    parser.add_argument("--pause", type=float, default=1.5, help="seconds between two writes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the lake and the logs go; otherwise they go at the end")
    options = parser.parse_args(arguments)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="freshlake-soak-"))
    code = _soak(options, folder)
    if options.folder is None and code == 0:
        shutil.rmtree(folder)
    else:
        print(f"the lake and the logs of the daemons are in {folder}")
    return code


def _soak(options: argparse.Namespace, folder: Path) -> int:
    soak = _prepared(options, folder)
    try:
        soak.daemons.start()
        for thread in (soak.writer, soak.killer):
            thread.start()
        _run(soak, options)
        found = _settle(soak)
    finally:
        soak.writer.stop.set()
        soak.killer.stop.set()
        soak.daemons.end()
    code = _report(soak, [*soak.wrong, *found])
    soak.fl.close()
    return code


def _prepared(options: argparse.Namespace, folder: Path) -> Soak:
    lake = folder / "lake"
    lake.mkdir(parents=True)
    (lake / "freshlake.toml").write_text(TOML, encoding="utf-8")
    fl = freshlake.connect(lake, spark_settings={**SETTINGS, "spark.driver.memory": "2g"})
    paths, chance = {source: lake / "outside" / source for source in SOURCES}, random.Random(options.seed)
    for source, path in paths.items():
        write_deltalake(str(path), first_rows(source, chance))
        fl.sql(f"CREATE TABLE {source} USING delta LOCATION '{path}'")
    defined, began = tables(), time.monotonic()
    for table in defined:
        fl.create_stream_table(table.name, table.query, **table.options)
    for name, members in groups(defined).items():
        fl.create_refresh_group(name, members)
    print(f"{len(defined)} stream tables made in {time.monotonic() - began:.0f} s", flush=True)
    daemons = Daemons(lake, folder)
    return Soak(
        fl,
        daemons,
        Killer(daemons, options.seed),
        Writer(paths, options.seed, options.pause),
        Customer(fl, options.seed),
        Checker(fl, defined, paths),
        figures.Looks(fl, figures.kinds(defined)),
    )


def _run(soak: Soak, options: argparse.Namespace) -> None:
    chance = random.Random(options.seed)
    began, soak.began = time.monotonic(), datetime.now(UTC)
    own = soak.daemons.own_seconds()
    until = began + 60 * options.minutes
    moments = sorted(chance.uniform(began + 20, until) for _ in range(options.checks))
    next_work = began + WORK_EVERY
    while (now := time.monotonic()) < until:
        soak.looks.look()
        if now >= next_work:
            soak.customer.work()
            next_work += WORK_EVERY
        if moments and moments[0] <= now:
            moments.pop(0)
            soak.checker.check(chance)
        time.sleep(LOOK_EVERY)
    for thread in (soak.writer, soak.killer):
        thread.stop.set()
        thread.join()
    soak.elapsed, soak.used = time.monotonic() - began, soak.daemons.processor_seconds()
    print(figures.machine(soak.used, soak.daemons.own_seconds() - own, soak.elapsed), flush=True)


def _settle(soak: Soak) -> list[str]:
    """With quiet sources all tables catch up; then everything is compared."""
    until = time.monotonic() + SETTLE
    rare = {table.name for table in tables() if table.kind in ("alias", "cold")}
    behind: set[str] = set()
    while time.monotonic() < until:
        behind = {s.stream_table for s in soak.fl.sources() if s.pending} - rare
        if not behind:
            break
        time.sleep(LOOK_EVERY)
    wrong = [f"not caught up after {SETTLE:.0f} s: {', '.join(sorted(behind))}"] if behind else []
    wrong += soak.daemons.stop()
    soak.checker.published()
    wrong += soak.checker.wrong[len(soak.wrong) :]
    for table in soak.fl.status():
        try:
            found = soak.fl.verify(table.name)
        except FreshlakeError as error:
            wrong.append(f"{table.name} cannot be verified: {error}")
            continue
        if not found.equal:
            wrong.append(f"{table.name} at the end: {found.missing} missing, {found.unexpected} unexpected")
        if str(table.status) != "ACTIVE" or table.consecutive_errors:
            wrong.append(f"{table.name} is {table.status} after {table.consecutive_errors} errors")
    return wrong


def _report(soak: Soak, wrong: list[str]) -> int:
    assert soak.began is not None
    history = [r for r in soak.fl._engine.catalog.history(None, None) if r.start_time >= soak.began]
    wrong = [*wrong, *figures.failures(history), *soak.daemons.troubles()]
    ages = sorted(soak.checker.ages)
    lines = [
        figures.load(soak.writer.written, history, soak.began, soak.elapsed, soak.used),
        f"{soak.writer.written} commits of the writer ({soak.writer.conflicts} conflicts)",
        f"{soak.killer.kills} daemons killed",
        ", ".join(f"{n} {what}" for what, n in soak.customer.done.most_common()),
        *figures.refreshes(history),
        *figures.starts(history, soak.daemons.started),
        f"{soak.checker.states} states compared; {soak.checker.snapshots} snapshots of random tables, "
        f"superseded {', '.join(f'{age:.0f}' for age in ages)} s ago",
        *soak.looks.lines(),
        f"{len(wrong)} differences",
        *(f"  {line}" for line in wrong),
    ]
    print("\n".join(lines), flush=True)
    return 1 if wrong or soak.looks.share < SHARE else 0


if __name__ == "__main__":
    sys.exit(main())
