"""`run`: keep the stream tables of a lake fresh until told to stop."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Annotated

import typer

from freshlake.cli.invocation import Invocation, invocation
from freshlake.cli.logs import logged
from freshlake.errors import FreshlakeError

if TYPE_CHECKING:
    from freshlake.lake import Freshlake
    from freshlake.refresh.result import RefreshResult

Seconds = Annotated[
    float | None, typer.Option("--for", min=0.0, help="Stop by itself after so many seconds.", show_default="never")
]
_STOP, _RELOAD = "stop", "reload"
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing of refreshes that went well.")]


def run(context: typer.Context, seconds: Seconds = None, quiet: Quiet = False) -> None:
    """Refresh stream tables on their schedules: SIGTERM and Ctrl-C finish what runs, SIGHUP reloads settings."""
    run = invocation(context)
    with logged(), run.open() as fl:
        asked = _listen()
        fl.on_refresh(lambda result: _say(run, result, quiet))
        fl.start_scheduler()
        run.terminal.note(f"keeping {run.lake} fresh; Ctrl-C stops")
        until = None if seconds is None else time.monotonic() + seconds
        while _next(asked, until) == _RELOAD:
            _reload(fl, run)
        run.terminal.note("stopping: waiting for refreshes that run")
        fl.stop_scheduler()


def _listen() -> SimpleQueue[str]:
    """What signals ask for. A handler may interrupt anything, so it only writes down what was asked."""
    asked: SimpleQueue[str] = SimpleQueue()
    for name, word in (("SIGTERM", _STOP), ("SIGINT", _STOP), ("SIGHUP", _RELOAD)):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_, word=word: asked.put(word))
    return asked


def _next(asked: SimpleQueue[str], until: float | None) -> str:
    try:
        return asked.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
    except Empty:
        return _STOP


def _reload(fl: Freshlake, run: Invocation) -> None:
    try:
        fl.reload_settings()
        run.terminal.note("settings read again")
    except FreshlakeError as error:
        run.terminal.error(error)


def _say(run: Invocation, result: RefreshResult, quiet: bool) -> None:
    """One line a refresh, JSON with --json; that nothing had changed is not worth a line."""
    if str(result.action) == "NO_DATA" or (quiet and str(result.action) != "SKIPPED"):
        return
    at = datetime.now(UTC)
    if run.terminal.as_json:
        run.terminal.data({"at": at.isoformat(), **_fields(result)})
        return
    rows = f"+{result.rows_inserted} -{result.rows_deleted}"
    why = f"  {result.reason}" if result.reason else ""
    detail = f": {result.detail}" if result.reason and result.detail else ""
    line = f"{at:%H:%M:%S}  {result.table}  {result.action}  {rows}  {result.duration_ms:.0f} ms{why}{detail}"
    run.terminal.text(line)


def _fields(result: RefreshResult) -> dict[str, object]:
    names = ("table", "action", "reason", "detail", "rows_inserted", "rows_deleted", "duration_ms", "version")
    return {name: getattr(result, name) for name in names}
