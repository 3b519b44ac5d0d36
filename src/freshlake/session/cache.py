"""Where this user's downloaded jars and Spark logs are kept."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

_LOG_DAYS = 7


def cache_dir() -> Path:
    """FRESHLAKE_CACHE, or freshlake/ under XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("FRESHLAKE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "freshlake"


def log_file() -> Path:
    """The file this process's Spark writes to; logs of a week ago are removed."""
    folder = _writable(cache_dir() / "logs")
    _forget_old(folder)
    return folder / f"spark-{os.getpid()}.log"


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="freshlake-logs-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="freshlake-logs-"))


def _forget_old(folder: Path) -> None:
    oldest = time.time() - _LOG_DAYS * 86400
    for log in folder.glob("spark-*"):
        try:
            if log.stat().st_mtime < oldest:
                log.unlink()
        except OSError:
            continue
