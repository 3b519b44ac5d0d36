"""Four ways to bring one result up to date after a change, each measured alone."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import DataFrame

from bench.cases import Case, show_feeds
from bench.measured import HEAVY, Sample, Way
from bench.meter import Meter
from bench.shop import Change, Shop
from freshlake import Freshlake

# Rows of a change up to this many are held by the driver and written as one file.
_SMALL = 200_000


class Ways:
    """One case over one shop: a stream table, and a Delta table for each of the other ways."""

    def __init__(self, fl: Freshlake, meter: Meter, shop: Shop, case: Case, folder: Path) -> None:
        self.fl, self.meter, self.shop, self.case = fl, meter, shop, case
        self.table = f"{shop.name}.{case.name}"
        self._folder = folder / shop.name
        self._paths: dict[Way, Path] = {}
        self._changed_rows: DataFrame | None = None
        self._made = 0
        self._merged = False
        self._version = 0

    def create(self) -> None:
        """Load the stream table; the other tables are made when they are first needed."""
        self.fl.create_stream_table(self.table, self.case.sql(self.shop), refresh_mode="DIFFERENTIAL")

    def run(self, way: Way, change: Change, number: int) -> Sample:
        """One way, measured."""
        if way is Way.REFRESH:
            return self._refresh(number)
        frame = self._changed_rows
        with self.meter.measured() as cost:
            if way is Way.RECOMPUTE:
                self._recompute(self._paths[way])
            elif way is Way.MERGE:
                show_feeds(self.shop, change)
                self.shop.spark.sql(self.case.merge(self.shop, change, f"delta.`{self._paths[way]}`"))
            else:
                assert frame is not None
                frame.write.format("delta").mode("append").save(str(self._paths[way]))
        read = self.meter.rows_read(cost.job_ids)
        return Sample(way, number, cost.seconds, cost.cpu_seconds, cost.jobs, read)

    def keep_change(self) -> None:
        """Take the rows that the last refresh changed as those which appends will write from now on."""
        self.forget_change()
        frame = self.fl.changes(self.table, since=self._version - 1)
        if frame.count() <= _SMALL:
            self._changed_rows = self.fl.spark.createDataFrame(frame.toArrow()).coalesce(1)
        else:
            self._changed_rows = frame.persist()
            self._changed_rows.count()
        self._changed_rows.limit(0).write.format("delta").save(str(self._place(Way.APPEND)))

    def forget_change(self) -> None:
        if self._changed_rows is not None:
            self._changed_rows.unpersist()
            self._changed_rows = None

    def align(self) -> None:
        """Bring the table of the MERGE to the newest rows, when it has missed changes."""
        if self._merged:
            return
        self._recompute(self._place(Way.MERGE))
        if Way.RECOMPUTE not in self._paths:
            shutil.copytree(self._paths[Way.MERGE], self._place(Way.RECOMPUTE))
        self._merged = True

    def missed(self) -> None:
        """A change went by without a MERGE."""
        self._merged = False

    def checksums(self) -> dict[Way, tuple[int, str]]:
        """Rows and their sum, per way that keeps the whole result."""
        frames = {Way.REFRESH: self.fl.table(self.table)}
        for way in HEAVY:
            frames[way] = self.fl.spark.read.format("delta").load(str(self._paths[way]))
        return {way: checksum(frame) for way, frame in frames.items()}

    def _refresh(self, number: int) -> Sample:
        with self.meter.measured() as cost:
            result = self.fl.refresh(self.table, mode="DIFFERENTIAL")
        if str(result.action) != "DIFFERENTIAL":
            raise RuntimeError(f"{self.table}: the refresh was {result.action} ({result.reason})")
        self._version = result.version
        folded = result.fold.duration_ms / 1000 if result.fold else 0.0
        read = self.meter.rows_read(cost.job_ids[: result.spark_jobs])
        # What a fold cost the processor cannot be told apart from the refresh before it.
        cpu = cost.cpu_seconds * (1 - folded / cost.seconds)
        seconds, steps = cost.seconds - folded, dict(result.timings)
        return Sample(Way.REFRESH, number, seconds, cpu, result.spark_jobs, read, result.rows_read, folded, steps)

    def _recompute(self, path: Path) -> None:
        rows = self.fl.spark.sql(self.case.sql(self.shop))
        rows.write.format("delta").mode("overwrite").save(str(path))

    def _place(self, way: Way) -> Path:
        """A new folder for a way's table: Delta remembers what it has seen in an old one."""
        if way in self._paths:
            shutil.rmtree(self._paths[way], ignore_errors=True)
        self._made += 1
        self._paths[way] = self._folder / f"{self.case.name}_{way}_{self._made}"
        return self._paths[way]


def checksum(frame: DataFrame) -> tuple[int, str]:
    """Rows and their sum, whatever their order."""
    columns = ", ".join(f"`{name}`" for name in frame.columns)
    row = frame.selectExpr(f"CAST(xxhash64({columns}) AS DECIMAL(38, 0)) AS h").selectExpr("count(*)", "sum(h)").first()
    assert row is not None
    return int(row[0]), str(row[1])
