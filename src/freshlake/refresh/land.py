"""The change of a captured table is that of its mirror: a small one is added up on the driver, without Spark."""

from __future__ import annotations

from freshlake.catalog.enums import DefinitionKind
from freshlake.compiler.split import ROOT
from freshlake.refresh.definition import Definition
from freshlake.refresh.run import Runner
from freshlake.storage.netting import net_lists
from freshlake.storage.relation import Relation


def land(runner: Runner, definition: Definition) -> bool:
    """Whether the change of a mirror is among the runner's results now; otherwise its program has to be run."""
    if definition.kind is not DefinitionKind.CAPTURE:
        return False
    (span,) = runner.inputs.spans.values()
    assert span.start is not None
    change = span.source.changes(runner.worker.running, span.start, span.end)
    rows = net_lists(change.arrow) if change.arrow is not None else None
    if rows is None:
        return False
    runner.rows_in += change.rows or 0
    runner.results[ROOT] = Relation.of_arrow(rows, change.schema, insert_only=False)
    return True
