"""A name that a query cannot find because it exists in the user's Spark session alone."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import SparkSession

from freshlake.compiler.refusals import TEMPORARY
from freshlake.errors import FreshlakeError

_MISSING = re.compile(r"\[(UNRESOLVED_ROUTINE|TABLE_OR_VIEW_NOT_FOUND)[^\]]*\][^`]*`([^`]+)`")


def only_in_session(error: FreshlakeError, spark: SparkSession) -> FreshlakeError | None:
    """What to say instead when the missing name is a temporary view or function of `spark`."""
    missing = _MISSING.search(f"{error.message} {error.detail or ''}")
    if missing is None:
        return None
    kind, name = ("function" if missing[1] == "UNRESOLVED_ROUTINE" else "view"), missing[2]
    if not _is_temporary(kind, name, spark):
        return None
    return TEMPORARY.raised(error.position, message=f"the temporary {kind} {name} cannot be part of a stream table")


def _is_temporary(kind: str, name: str, spark: SparkSession) -> bool:
    jvm: Any = spark._jvm
    state = spark._jsparkSession.sessionState().catalog()
    if kind == "view":
        return bool(state.isTempView(jvm.PythonUtils.toSeq([name])))
    return bool(state.isTemporaryFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)))
