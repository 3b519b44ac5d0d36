"""A daemon of the soak: `freshlake run` with a smaller Spark, since three of them share a machine, and with a log."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import freshlake
from freshlake.refresh.result import RefreshResult
from tests.local_spark import SETTINGS

_START = "from tests.soak.daemon import main; main()"
_TROUBLE = ("Traceback", "a tick failed", "in a way that was not expected", "Exception")
# These live for a minute or two: the second compiler of Java would work for the time after that.
_SPARK = {
    **SETTINGS,
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": f"{SETTINGS['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1",
}


def main() -> None:
    """Run until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    began = time.monotonic()
    with freshlake.connect(Path(sys.argv[1]), spark_settings=_SPARK) as fl:
        logging.info("connected after %.1f s", time.monotonic() - began)
        fl.on_refresh(_log)
        fl.start_scheduler()
        stop.wait()


def _log(result: RefreshResult) -> None:
    fold = f" fold {result.fold.reason} {result.fold.duration_ms:.0f} ms" if result.fold else ""
    timings = " ".join(f"{phase} {ms:.0f}" for phase, ms in result.timings.items() if ms >= 1)
    logging.info(
        "%s %s %s +%s -%s %.0f ms, %s jobs (%s)%s",
        *(result.table, result.action, result.reason or "", result.rows_inserted, result.rows_deleted),
        *(result.duration_ms, result.spark_jobs, timings, fold),
    )


@dataclass
class Daemons:
    """Two processes; each start has a log file of its own."""

    lake: Path
    logs: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: dict[int, float] = field(default_factory=dict)
    """Process number → when it was started, by the clock of the wall."""
    used: float = 0.0
    """Seconds of processors that daemons used which have ended."""

    def start(self) -> None:
        self.running = [self._new(), self._new()]

    def kill(self, which: int) -> None:
        """End one without warning and start another in its place; its Spark ends when it notices."""
        daemon = self.running[which]
        self.used += _seconds(daemon.pid)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        self.running[which] = self._new()

    def stop(self, seconds: float = 90) -> list[str]:
        """End all as an operator would; what went wrong with that."""
        wrong = []
        for daemon in self.running:
            self.used += _seconds(daemon.pid)
            daemon.terminate()
        for daemon in self.running:
            try:
                if daemon.wait(seconds):
                    wrong.append(f"daemon {daemon.pid} ended with {daemon.returncode}")
            except subprocess.TimeoutExpired:
                wrong.append(f"daemon {daemon.pid} did not stop within {seconds:.0f} s")
        self.end()
        return wrong

    def end(self) -> None:
        for daemon in self.running:
            daemon.kill()
            daemon.wait()
        self.running = []

    def processor_seconds(self) -> float:
        """What all of them have used so far."""
        return self.used + sum(_seconds(daemon.pid) for daemon in self.running)

    def own_seconds(self) -> float:
        """What the process that started them has used."""
        return _seconds(os.getpid()) - sum(_seconds(daemon.pid) for daemon in self.running)

    def troubles(self) -> list[str]:
        """Lines of the logs that no daemon should write."""
        found = []
        for log in sorted(self.logs.glob("daemon-*.log")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            found += [f"{log.name}:{n}: {line}" for n, line in enumerate(lines, 1) if any(t in line for t in _TROUBLE)]
        return found

    def _new(self) -> subprocess.Popen[bytes]:
        number = len(self.started) + 1
        with (self.logs / f"daemon-{number}.log").open("wb") as log:
            new = subprocess.Popen(
                [sys.executable, "-c", _START, str(self.lake)], stdout=subprocess.DEVNULL, stderr=log
            )
        self.started[new.pid] = time.time()
        return new


class Killer(threading.Thread):
    """Ends one of the daemons every minute, whatever else goes on."""

    def __init__(self, daemons: Daemons, seed: int, pause: float = 60.0) -> None:
        super().__init__(daemon=True, name="soak-killer")
        self.daemons, self.chance, self.pause = daemons, random.Random(seed), pause
        self.stop, self.kills = threading.Event(), 0

    def run(self) -> None:
        while not self.stop.wait(self.pause):
            self.daemons.kill(self.chance.randrange(2))
            self.kills += 1


def _seconds(pid: int) -> float:
    """Processor time of a process and its Spark; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return 0.0
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_seconds(int(child)) for child in children)
