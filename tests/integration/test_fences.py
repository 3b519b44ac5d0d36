"""Fences: whoever takes a table over shuts its last holder out, also from a commit that is on its way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable as SparkDeltaTable
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from freshlake.errors import LeaseLost
from freshlake.storage import append as appending
from freshlake.storage import cleanup as cleaning
from freshlake.storage import fold as folding
from freshlake.storage.certificate import Note, NoteKind
from freshlake.storage.commits import notes
from freshlake.storage.log import Log
from freshlake.storage.table import FoldForm
from tests.integration.change_logged_model import BY_DRIVER, BY_SPARK, Modelled, Rows, certificate

LATE, NEXT = 3, 4
"""The lease of a worker that was stopped, and of the one that took the table over."""


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Rows:
    return Rows(spark, "id BIGINT, s STRING", [f"{i}L, 's{i % 2}'" for i in range(9)])


@pytest.fixture
def model(spark: SparkSession, tmp_path: Path, rows: Rows) -> Modelled:
    """Version 1 is loaded, 2 and 3 are in the log; 2 is folded, so that there is something to clean up."""
    made = Modelled(spark, tmp_path, rows)
    made.table.limits = BY_DRIVER
    made.load({0: 3, 1: 1})
    made.append({0: -1, 2: 1})
    made.fold()
    made.append({1: -1, 3: 2})
    return made


def append(model: Modelled, epoch: int, driver: bool) -> None:
    model.table.append(model.spark, model.rows.relation({4: 1}, driver=driver), certificate(4, "late", epoch))


def fold(model: Modelled, epoch: int, form: FoldForm, driver: bool) -> None:
    model.table.limits = BY_DRIVER if driver else BY_SPARK
    model.table.fold(model.spark, 3, model.point, epoch, form)


WRITES: dict[str, Callable[[Modelled, int], Any]] = {
    "append by the driver": lambda model, epoch: append(model, epoch, driver=True),
    "append by Spark": lambda model, epoch: append(model, epoch, driver=False),
    "fold by the driver": lambda model, epoch: fold(model, epoch, FoldForm.REWRITE, driver=True),
    "fold by Spark": lambda model, epoch: fold(model, epoch, FoldForm.REWRITE, driver=False),
    "fold by MERGE": lambda model, epoch: fold(model, epoch, FoldForm.MERGE, driver=False),
    "clean-up": lambda model, epoch: model.table.cleanup(2, folded=2, epoch=epoch),
    "rollback": lambda model, epoch: model.table.rollback(2, epoch=epoch),
}


def commits(model: Modelled) -> tuple[int, int]:
    """How many commits log and base have."""
    log, base = (DeltaTable(f"{model.table.path}/{part}").version() for part in ("log", "base"))
    return log, base


def test_a_worker_that_was_shut_out_changes_nothing(model: Modelled) -> None:
    model.table.fence(NEXT)
    before = commits(model)
    for name, write in WRITES.items():
        with pytest.raises(LeaseLost, match="came too late"):
            write(model, LATE)
        assert commits(model) == before, name
    model.check(3)


def test_a_commit_that_is_on_its_way_fails(model: Modelled, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker has looked, found nothing wrong, and is stopped right before it commits."""
    lease, fenced = LATE, []

    def stopped(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def late(*arguments: Any, **named: Any) -> Any:
            if not fenced:
                model.table.fence(lease + 1)
                fenced.append(commits(model))
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, late)

    for owner, name in ((appending, "_commit"), (folding, "_write"), (cleaning, "_removals")):
        stopped(owner, name)
    for name, write in WRITES.items():
        with pytest.raises(LeaseLost, match="came too late"):
            write(model, lease)
        assert fenced == [commits(model)], name
        lease += 1
        fenced.clear()
    model.check(3)


def test_who_set_the_fence_goes_on(model: Modelled) -> None:
    """Also when it was set twice, and when the one before had set it already."""
    for epoch in (2, LATE, NEXT):
        for _ in range(2):
            model.table.fence(epoch)
        model.table.cleanup(2, folded=2, epoch=epoch)
        model.append({5: 1}, epoch=epoch)
        model.append({6: 1, 5: -1}, driver=False, epoch=epoch)
        model.fold(form=FoldForm.MERGE if epoch == NEXT else FoldForm.REWRITE, epoch=epoch)
        model.table.limits = BY_SPARK
        model.table.append(model.spark, model.rows.relation({7: 1}), certificate(model.head + 1, "orphan", epoch))
        model.table.rollback(model.head, epoch=epoch)
    model.check(model.head)


def test_a_fence_leaves_the_base_as_it_was_for_the_next_fold(model: Modelled) -> None:
    model.append({5: 1})
    model.fold(3)
    model.table.fence(NEXT)
    model.fold(4, epoch=NEXT)
    _, note = next(notes(f"{model.table.path}/base"))
    assert note is not None
    assert (note.kind, note.parent) == (NoteKind.FOLD, model.point.base_version - 1), "appended, not written anew"
    model.check(4)


def test_a_version_that_a_node_left_out_is_not_free_for_a_late_worker(model: Modelled) -> None:
    """The log of an internal node has only the versions that changed it."""
    model.table.append(model.spark, model.rows.relation({4: 1}), certificate(6, "next", NEXT))
    with pytest.raises(LeaseLost):
        model.table.append(model.spark, model.rows.relation({5: 1}), certificate(5, "late", LATE))
    assert Log(model.table.path).head == 6


def test_a_compaction_that_comes_too_late_changes_no_rows(model: Modelled) -> None:
    """It has no number: a worker was stopped before it, and another one has folded since."""
    folded = model.fold(3)
    model.append({5: 1})
    model.fold(4, epoch=NEXT)
    base = f"{model.table.path}/base"
    late = Note(NoteKind.COMPACT, model.table.certificate(3), 3, parent=folded.base_version)
    model.spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", late.to_text())
    try:
        SparkDeltaTable.forPath(model.spark, base).optimize().executeCompaction()
    finally:
        model.spark.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
    assert next(notes(base))[1] == late
    model.append({6: 1})
    model.fold(5, epoch=NEXT)
    model.check(5)
    model.check_rows(model.spark.read.format("delta").load(base), model.states[5])
