"""`python -m tests.soak.captures --repeats 50`: a PostgreSQL database under load, and deaths of whoever captures it.

Each repeat has a new server (Debian's and that of the Python package in turn), a new lake, eight connections with long
transactions, rollbacks, savepoints and truncations, and processes that refresh or go from triggers to the log and back,
killed at random. After every death all tables are compared with the database at one position.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import freshlake
from tests.faults.captures import SETTINGS, under_load
from tests.integration.capture_database import new_database
from tests.integration.capture_load import SCRIPT, stream_tables
from tests.integration.postgres_server import LOGICAL, binaries, embedded, server
from tests.local_spark import SETTINGS as SPARK


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.captures", description=__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--transactions", type=int, default=200, help="of each of the eight writers")
    parser.add_argument("--deaths", type=int, default=10, help="in each repeat")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for number in range(options.repeats):
        began = time.monotonic()
        _repeat(options, number)
        took = time.monotonic() - began
        sys.stdout.write(f"repeat {number + 1} of {options.repeats}: all as in the database, {took:.0f} s\n")
        sys.stdout.flush()


def _repeat(options: argparse.Namespace, number: int) -> None:
    bin_folder = embedded() if number % 2 else binaries()
    with (
        tempfile.TemporaryDirectory(prefix="freshlake-captures-") as folder,
        server(bin_folder, LOGICAL) as running,
        new_database(running) as database,
        freshlake.connect(Path(folder) / "lake", settings=SETTINGS, spark_settings=SPARK) as fl,
    ):
        database.run(SCRIPT)
        stream_tables(fl, database, "trigger")
        seed = options.seed + number
        under_load(fl, database, seed=seed, transactions=options.transactions, deaths=options.deaths)


if __name__ == "__main__":
    main()
