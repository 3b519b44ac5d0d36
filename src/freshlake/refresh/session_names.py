"""The names that a session keeps beside the catalog: temporary views, and functions that it has looked up before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from freshlake.compiler.bridge import Bridge


@dataclass(frozen=True)
class SessionNames:
    """Of a session of Freshlake's own."""

    bridge: Bridge
    builtin: tuple[frozenset[str], ...]
    """Functions that a session has from the start, by registry."""

    @classmethod
    def of(cls, bridge: Bridge) -> SessionNames:
        return cls(bridge, tuple(_names(registry.listFunction()) for registry in _registries(bridge.spark)))

    def forget(self) -> None:
        """Only names of the catalog count, as they are now: what an earlier text left in the session is dropped, and
        functions of the catalog that the session has kept, since another session may have replaced them."""
        self.bridge.spark._jsparkSession.sessionState().catalog().clearTempTables()
        for registry, builtin in zip(_registries(self.bridge.spark), self.builtin, strict=True):
            known = registry.listFunction()
            if known.size() == len(builtin):
                continue  # to write down 600 names takes Spark longer than all else here
            for name in _names(known) - builtin:
                registry.dropFunction(self.bridge.function_identifier(name))


def forget_function(bridge: Bridge, session: SparkSession, name: str) -> None:
    """Let a session look up a function again that another session has replaced."""
    for registry in _registries(session):
        registry.dropFunction(bridge.function_identifier(name))


def _registries(session: SparkSession) -> tuple[Any, Any]:
    """Of scalar and aggregate functions, and of table functions."""
    state = session._jsparkSession.sessionState()
    return state.functionRegistry(), state.tableFunctionRegistry()


def _names(functions: Any) -> frozenset[str]:
    return frozenset(functions.mkString("\n").splitlines())
