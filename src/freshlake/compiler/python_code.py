"""A digest of a Python function: another one when its code, its constants or what it uses of its module change.

Comments, names of files and line numbers do not count. What comes from other modules counts by name alone: a new
version of a library is not noticed.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

_NUMBERS = (bool, int, float, complex, Decimal, Fraction)
_PLAIN = (*_NUMBERS, str, bytes, type(None), date, time, timedelta, UUID, PurePath, range, Enum)
"""Types whose text says all about a value, and is the same in every process."""

_NO_MEANING = frozenset(
    [
        *("__dict__", "__weakref__", "__module__", "__doc__"),
        *("__qualname__", "__firstlineno__", "__static_attributes__", "__annotations__"),
    ]
)


def digest(function: object) -> str:
    return hashlib.sha256("\n".join(_parts(function, None, set())).encode()).hexdigest()[:16]


def _parts(value: Any, module: str | None, seen: set[int]) -> Iterator[str]:
    """What makes up a value, as text that is the same in every process; a part that was seen is not described again."""
    if isinstance(value, _PLAIN):
        yield repr(value)
    elif isinstance(value, tuple):
        yield from _all(value, module, seen)
    elif id(value) not in seen:
        # an empty mapping may live for this call alone, and its id be another value's later
        if not isinstance(value, Mapping) or value:
            seen.add(id(value))
        yield from _held(value, module, seen)


def _held(value: Any, module: str | None, seen: set[int]) -> Iterator[str]:
    if isinstance(value, list):
        yield from _all(value, module, seen)
    elif isinstance(value, set | frozenset):
        # each as if it came first: their order is another one in every process
        yield from ("set", *sorted("\n".join(_parts(item, module, set(seen))) for item in value))
    elif isinstance(value, Mapping):
        yield from _all([pair for item in value.items() for pair in item], module, seen)
    elif isinstance(value, re.Pattern):
        yield f"{value.pattern!r} {value.flags}"
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, value.keywords), module, seen)
    elif isinstance(value, MethodType):
        yield from _parts((value.__func__, value.__self__), module, seen)
    elif isinstance(value, FunctionType):
        yield from _function(value, module, seen)
    elif isinstance(value, type):
        yield from _class(value, module, seen)
    else:
        yield from _object(value, module, seen)


def _all(values: list[Any] | tuple[Any, ...], module: str | None, seen: set[int]) -> Iterator[str]:
    yield f"{len(values)} values"
    for value in values:
        yield from _parts(value, module, seen)


def _function(function: FunctionType, module: str | None, seen: set[int]) -> Iterator[str]:
    if module is not None and function.__module__ != module:
        yield f"{function.__module__}.{function.__qualname__}"
        return
    module = function.__module__
    yield from _code(function.__code__, module, seen)
    yield from _parts((function.__defaults__ or (), function.__kwdefaults__ or {}), module, seen)
    for cell in function.__closure__ or ():
        yield from _parts(_contents(cell), module, seen)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield name
            yield from _parts(function.__globals__[name], module, seen)


def _class(kind: type, module: str | None, seen: set[int]) -> Iterator[str]:
    yield f"{kind.__module__}.{kind.__qualname__}"
    if module is not None and kind.__module__ != module:
        return
    yield from _parts(kind.__bases__, kind.__module__, seen)
    for name, item in sorted(vars(kind).items()):
        if name not in _NO_MEANING:
            yield name
            own = (item.fget, item.fset) if isinstance(item, property) else getattr(item, "__func__", item)
            yield from _parts(own, kind.__module__, seen)


def _object(value: Any, module: str | None, seen: set[int]) -> Iterator[str]:
    """An object of the module counts with all that it holds; one that stands for a function counts as that function."""
    kind = type(value)
    held = getattr(value, "__dict__", {})
    # only what it holds: there are objects that have every attribute one asks for
    stands_for = [held[name] for name in ("__wrapped__", "func") if isinstance(held, dict) and name in held]
    yield f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, ModuleType | BuiltinFunctionType):
        yield value.__name__
    elif kind.__module__ == module or (module is None and not stands_for):
        yield from _parts((kind, held), kind.__module__, seen)
    else:
        yield from _parts(tuple(stands_for), module, seen)


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # of a name that was never given a value
        return None


def _code(code: CodeType, module: str, seen: set[int]) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant, module, seen)
        else:
            yield from _parts(constant, module, seen)


def _names(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*(_names(c) for c in inner))
