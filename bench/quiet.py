"""NO_DATA: what a refresh costs when nothing changed."""

from __future__ import annotations

import statistics
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

import freshlake
from bench.grid import say
from bench.measured import Measurements, Quiet
from bench.meter import Meter
from bench.options import Options
from freshlake import Freshlake

_ROUNDS = 15


def measure(options: Options, meter: Meter, folder: Path, found: Measurements) -> None:
    """One table over many sources, and many tables over one source each."""
    sources = _sources(folder / "sources", max(*options.quiet_sources, *options.quiet_tables))
    with freshlake.connect(folder / "quiet") as fl:
        for count in options.quiet_sources:
            found.quiet.append(_one_table(fl, meter, sources[:count]))
    with freshlake.connect(folder / "quiet_many") as fl:
        made = 0
        for count in options.quiet_tables:
            say(f"nothing changed: {count} stream tables")
            for number in range(made, count):
                fl.create_stream_table(f"t{number}", f"SELECT id, value FROM delta.`{sources[number]}`")
            made = count
            found.quiet.append(_many_tables(fl, meter, count))


def _sources(folder: Path, count: int) -> list[str]:
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "value": [f"v{n}" for n in range(10)]})
    paths = [str(folder / f"s{number}") for number in range(count)]
    for path in paths:
        write_deltalake(path, rows)
    return paths


def _one_table(fl: Freshlake, meter: Meter, sources: list[str]) -> Quiet:
    say(f"nothing changed: one stream table over {len(sources)} sources")
    name = f"over_{len(sources)}"
    fl.create_stream_table(name, " UNION ALL ".join(f"SELECT id, value FROM delta.`{path}`" for path in sources))
    actions = {str(fl.refresh(name).action) for _ in range(2)}
    took, jobs = [], 0
    for _ in range(_ROUNDS):
        with meter.measured() as cost:
            actions.add(str(fl.refresh(name).action))
        took.append(cost.seconds * 1000)
        jobs += cost.jobs
    _expect_no_data(actions)
    return Quiet(1, len(sources), statistics.median(took), jobs)


def _many_tables(fl: Freshlake, meter: Meter, count: int) -> Quiet:
    actions = {str(result.action) for _ in range(2) for result in fl.refresh_all()}
    took, jobs = [], 0
    for _ in range(_ROUNDS):
        with meter.measured() as cost:
            actions |= {str(result.action) for result in fl.refresh_all()}
        took.append(cost.seconds * 1000 / count)
        jobs += cost.jobs
    _expect_no_data(actions)
    return Quiet(count, 1, statistics.median(took), jobs)


def _expect_no_data(actions: set[str]) -> None:
    if actions != {"NO_DATA"}:
        raise RuntimeError(f"nothing changed, but refreshes were {', '.join(sorted(actions))}")
