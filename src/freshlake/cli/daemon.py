"""`run`: keep the stream tables of a lake fresh until told to stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
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
_STOP, _RELOAD, _DRAINED = "stop", "reload", "drained"
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing of refreshes that went well.")]


def run(context: typer.Context, seconds: Seconds = None, quiet: Quiet = False) -> None:
    """Refresh stream tables on their schedules.

    SIGTERM and Ctrl-C finish what runs, a second one ends at once, SIGHUP reloads settings.
    """
    run = invocation(context)
    with logged(), run.open() as fl:
        asked = _listen()
        fl.on_refresh(lambda result: _say(run, result, quiet))
        fl.start_scheduler()
        run.terminal.note(f"keeping {run.lake} fresh; Ctrl-C stops")
        until = None if seconds is None else time.monotonic() + seconds
        while _next(asked, until) == _RELOAD:
            _reload(fl, run)
        run.terminal.note("stopping: waiting for refreshes that run; Ctrl-C ends them")
        if not _drained(fl, asked):
            run.terminal.note("ended before refreshes were finished; they are done again where they stood")
            _end(1)


def _drained(fl: Freshlake, asked: SimpleQueue[str]) -> bool:
    """Wait for what runs; False when somebody asks for the end once more."""
    ended: Future[bool] = Future()

    def drain() -> None:
        try:
            ended.set_result(fl.stop_scheduler())
        except BaseException as error:
            ended.set_exception(error)
        asked.put(_DRAINED)

    threading.Thread(target=drain, name="freshlake-drain", daemon=True).start()
    while (word := asked.get()) == _RELOAD:
        pass  # nothing begins any more that it could be for
    if word == _DRAINED:
        ended.result()
    return word == _DRAINED


def _end(code: int) -> None:
    """Without waiting for any thread: a refresh that is cut off is as safe as one whose machine lost its power."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


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
