"""Processes with their own Spark on one lake, for tests that tell them what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Process:
    """A worker that does what it is told."""

    def __init__(self, lake: Path) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")}
        self._running = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.process_worker", str(lake)],
            cwd=ROOT,
            env=clean,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, line: str) -> None:
        assert self._running.stdin is not None
        self._running.stdin.write(line + "\n")
        self._running.stdin.flush()

    def hear(self) -> Any:
        assert self._running.stdout is not None
        return json.loads(self._running.stdout.readline())

    def ask(self, line: str) -> Any:
        self.tell(line)
        return self.hear()

    def refresh(self, name: str) -> Any:
        return self.ask(f"str(fl.refresh({name!r}).action)")

    def rows(self, query: str) -> Any:
        return self.ask(f"sorted([list(r) for r in fl.sql({query!r}).collect()], key=str)")

    def kill(self) -> None:
        self._running.kill()
        self._running.wait(60)

    def end(self) -> None:
        assert self._running.stdin is not None
        self._running.stdin.close()
        self._running.wait(60)
