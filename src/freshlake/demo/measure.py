"""The same query done the usual way: computed in full and written over the old result."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from freshlake.demo.shop import View

if TYPE_CHECKING:
    from freshlake.lake import Freshlake


@dataclass(frozen=True)
class Recompute:
    """What a full recompute cost."""

    duration_ms: int
    spark_jobs: int


def recompute(fl: Freshlake, view: View, scratch: Path) -> Recompute:
    """Run the query over the same tables and overwrite a Delta table with the result."""
    context = fl.spark.sparkContext
    group = f"recompute-{view.name}-{time.monotonic_ns()}"
    started = time.monotonic()
    context.setJobGroup(group, f"recompute {view.name}")
    try:
        fl.sql(view.query).write.format("delta").mode("overwrite").save(str(scratch / view.name))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    duration = int((time.monotonic() - started) * 1000)
    return Recompute(duration, len(context.statusTracker().getJobIdsForGroup(group)))
