"""`run`: keep the stream tables of a lake fresh until told to stop."""

from __future__ import annotations

import signal
import threading
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from freshlake.cli.invocation import Invocation, invocation
from freshlake.errors import FreshlakeError

if TYPE_CHECKING:
    from freshlake.lake import Freshlake
    from freshlake.refresh.result import RefreshResult

Seconds = Annotated[
    float | None, typer.Option("--for", min=0.0, help="Stop by itself after so many seconds.", show_default="never")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing of refreshes that went well.")]


def run(context: typer.Context, seconds: Seconds = None, quiet: Quiet = False) -> None:
    """Refresh stream tables on their schedules: SIGTERM and Ctrl-C finish what runs, SIGHUP reloads settings."""
    run = invocation(context)
    stop = threading.Event()
    with run.open() as fl:
        _listen(fl, run, stop)
        fl.on_refresh(lambda result: _say(run, result, quiet))
        fl.start_scheduler()
        run.terminal.note(f"keeping {run.lake} fresh; Ctrl-C stops")
        stop.wait(seconds)
        run.terminal.note("stopping: waiting for refreshes that run")
        fl.stop_scheduler()


def _listen(fl: Freshlake, run: Invocation, stop: threading.Event) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    def reload(number: int, frame: FrameType | None) -> None:
        try:
            fl.reload_settings()
            run.terminal.note("settings read again")
        except FreshlakeError as error:
            run.terminal.error(error)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, reload)


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
