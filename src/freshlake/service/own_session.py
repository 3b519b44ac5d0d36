"""A session of Freshlake's own for the texts of the lake's catalog, so that the user's session stays as it is.

The views and functions of a text are looked up in the schema it was written in. To make that the current schema of the
user's session, even for a moment, would change what a name means in another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from freshlake.catalog.names import SESSION_CATALOG
from freshlake.compiler.bridge import Bridge
from freshlake.refresh.session_names import SessionNames, forget_function
from freshlake.session import own_catalog


@dataclass
class OwnSession:
    user: SparkSession
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def in_schema(self, name: str) -> Iterator[SparkSession]:
        """The session, looking unqualified names up in this schema, under the user's settings; for one thread."""
        with self._lock:
            session = self._bridge.spark
            self._names.forget()
            theirs, ours = (s._jsparkSession.sessionState().conf().settings() for s in (self.user, session))
            ours.clear()
            ours.putAll(theirs)
            session.catalog.setCurrentDatabase(name)
            yield session

    def frame(self, plan: Any, to: SparkSession) -> DataFrame:
        """A DataFrame of a session; the plan may have been analyzed in another one."""
        with self._lock:
            dataset = self._bridge.dataset
        return cast(DataFrame, ClassicDataFrame(dataset.ofRows(to._jsparkSession, plan), to))

    def moved(self, frame: DataFrame, to: SparkSession) -> DataFrame:
        """The same rows as a DataFrame of another session."""
        return self.frame(frame._jdf.queryExecution().analyzed(), to)

    def tell_of_function(self, schema: str, name: str) -> None:
        """The user's session would go on with the function that it has used before."""
        with self._lock:
            forget_function(self._bridge, self.user, f"{SESSION_CATALOG}.{schema}.{name}")

    @cached_property
    def _bridge(self) -> Bridge:
        return Bridge(own_catalog(self.user.newSession()))

    @cached_property
    def _names(self) -> SessionNames:
        return SessionNames.of(self._bridge)
