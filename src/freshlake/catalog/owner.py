"""Who holds a lease: a process that others on its machine can find dead before the lease runs out."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4


@dataclass(frozen=True)
class Owner:
    """One worker. `machine` tells process numbers of different hosts and containers apart."""

    host: str
    pid: int
    machine: str
    started: str
    worker: str

    @classmethod
    def new(cls) -> Owner:
        """A new worker of this process."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _machine(), _start_time(pid) or "", uuid4().hex[:8])

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Read what str() wrote; None when it was written in another form."""
        parts = text.split("|")
        if len(parts) != 5 or not parts[1].isdigit():
            return None
        return cls(parts[0], int(parts[1]), parts[2], parts[3], parts[4])

    def is_dead(self) -> bool:
        """True only when the process certainly ended; an unknown or foreign one counts as alive."""
        if os.name != "posix" or self.machine != _machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        # the number may have been given to another process
        return bool(self.started) and _start_time(self.pid) != self.started

    def __str__(self) -> str:
        return "|".join((self.host, str(self.pid), self.machine, self.started, self.worker))


def describe(owner: str) -> str:
    """The owner in words."""
    known = Owner.parse(owner)
    return f"process {known.pid} on {known.host}" if known else owner


def is_dead(owner: str) -> bool:
    """Whether the owner's process certainly ended."""
    known = Owner.parse(owner)
    return known is not None and known.is_dead()


@cache
def _machine() -> str:
    return "/".join((_text("/proc/sys/kernel/random/boot_id") or f"host-{socket.gethostname()}", _pid_namespace()))


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    stat = _text(f"/proc/{pid}/stat")
    # the command in parentheses may contain spaces; the start time is field 22
    return stat.rpartition(")")[2].split()[19] if stat else None


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
