"""Python functions in an expression: a digest of the code of each."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from freshlake.compiler.bridge import Bridge
from freshlake.compiler.python_code import digest

TABLE_FUNCTION = "PythonUDTF"
"""Never taken as deterministic: Python keeps one object for many rows, so that one may change what comes of others."""
_PYTHON = frozenset(["PythonUDF", "PythonUDAF", TABLE_FUNCTION])
OWN_FUNCTIONS = _PYTHON | {"ScalaUDF"}


class Digests(dict[str, str]):
    """Name → a digest of the code of all Python functions of that name, in the order in which the query uses them."""

    def note(self, e: Any, bridge: Bridge) -> None:
        for part in _below(e, bridge):
            if part.getClass().getSimpleName() in _PYTHON:
                name, code = str(part.name()), _digest(part.func(), bridge)
                self[name] = hashlib.sha256(f"{self.get(name, '')} {code}".encode()).hexdigest()[:16]


def _below(e: Any, bridge: Bridge) -> Iterator[Any]:
    yield e
    for child in bridge.items(e.children()):
        yield from _below(child, bridge)


def _digest(function: Any, bridge: Bridge) -> str:
    """Spark holds a Python function as bytes that this process has pickled itself."""
    tag = bridge.module("scala.reflect.ClassTag").Byte()
    command = _Unpickler(bytes(function.command().toArray(tag)), _broadcasts(function)).load()
    if isinstance(command, bytes):  # a large one is sent as a broadcast of its own
        command = _Unpickler(command, _broadcasts(function)).load()
    return digest(command[0] if isinstance(command, tuple) else command)


def _broadcasts(function: Any) -> Callable[[int], Any]:
    """What a broadcast variable holds, from the file that the driver keeps of it; nothing if that is encrypted."""
    variables = function.broadcastVars()
    files = {variables.get(i).id(): variables.get(i).value().path() for i in range(variables.size())}

    def value(number: int) -> Any:
        try:
            return pickle.loads(Path(files[number]).read_bytes())
        except (OSError, pickle.UnpicklingError):
            return None

    return value


class _Unpickler(pickle.Unpickler):
    """Broadcast variables are replaced by what they hold: the driver cannot read them in Spark's own way."""

    def __init__(self, data: bytes, broadcast: Callable[[int], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.broadcast = broadcast

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("pyspark.core.broadcast", "_from_id"):
            return self.broadcast
        return super().find_class(module, name)
