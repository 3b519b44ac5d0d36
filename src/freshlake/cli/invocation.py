"""One run of the command: which lake, and where the output goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from freshlake.cli.terminal import Terminal
from freshlake.errors import LakeNotFound

if TYPE_CHECKING:
    from freshlake.lake import Freshlake


@dataclass(frozen=True)
class Invocation:
    """The global options, and the lake they lead to."""

    lake: Path
    terminal: Terminal

    def require_lake(self) -> None:
        """Raises LakeNotFound where there is no folder."""
        if not self.lake.is_dir():
            raise LakeNotFound(
                f"there is no lake at {self.lake}",
                hint="name another with --lake or FRESHLAKE_LAKE; `freshlake sql` and `freshlake create` make one",
            )

    @contextmanager
    def open(self, create: bool = False) -> Iterator[Freshlake]:
        """The lake, closed at the end; only commands that can fill a lake make one."""
        if not create:
            self.require_lake()
        # Late: --help and usage errors need no Spark.
        from freshlake import connect

        with self.terminal.working(f"opening {self.lake}"):
            fl = connect(self.lake)
        try:
            yield fl
        finally:
            fl.close()


def invocation(context: typer.Context) -> Invocation:
    """What the global options of this run say."""
    found = context.find_object(Invocation)
    assert found is not None, "the callback of the application makes it"
    return found


def require_choice(names: list[str] | None, everything: bool) -> None:
    """Names or --all, not both and not neither: said before anything is opened."""
    if everything == bool(names):
        raise typer.BadParameter("give names of stream tables, or --all")


def one_by_one(
    run: Invocation, names: Sequence[str], doing: str, work: Callable[[str], Any], columns: Sequence[str]
) -> list[Any]:
    """Work on tables in turn; when one fails, what was done before it is shown all the same."""
    done: list[Any] = []
    try:
        for name in names:
            with run.terminal.working(f"{doing} {name}"):
                done.append(work(name))
    except Exception:
        if done:
            run.terminal.records(done, columns, "")
        raise
    return done


def chosen(fl: Freshlake, names: list[str] | None) -> list[str]:
    """The tables a command works on: those named, otherwise all."""
    return list(names) if names else [table.name for table in fl.status()]
