"""Types of captured columns: what the documentation names is what Spark gets."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import from_arrow_type

from freshlake.sources.postgres.types import MONEY, OPEN_NUMERIC, TYPES, LakeType


@pytest.mark.parametrize("lake", [row.lake for row in TYPES] + [MONEY, OPEN_NUMERIC], ids=lambda lake: lake.spark)
def test_a_type_has_in_spark_the_name_that_its_page_gives(lake: LakeType) -> None:
    assert from_arrow_type(lake.arrow, prefer_timestamp_ntz=True).simpleString().upper() == lake.spark
