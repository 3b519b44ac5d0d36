"""The fingerprint of a query: equal in every process, and for two queries only if they mean the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from freshlake.compiler import plan as p

LAYOUT = 2
"""Raised when stored columns change meaning, so that tables written before are rebuilt."""

DRAWN = r"#\d+L?|(?<=_common_expr)_\d+"
"""Numbers that Spark draws for the expressions it makes: other ones each time a query is analyzed."""


def fingerprint(plan: p.Plan, output: tuple[p.Column, ...], functions: Mapping[str, str] | None = None) -> str:
    shown = [LAYOUT, _Shown().of(plan), [[c.name, c.label, c.type] for c in output], sorted((functions or {}).items())]
    return _hash(shown)


def former_fingerprint(plan: p.Plan, output: tuple[p.Column, ...], functions: Mapping[str, str] | None = None) -> str:
    """The one that earlier versions stored. Queries that differ may share it: Spark prints less than they mean."""
    shown = re.sub(DRAWN, "#", f"{LAYOUT} {plan!r} {[(c.name, c.label, c.type) for c in output]!r}")
    shown = re.sub(r"frozenset\(\{(.*?)\}\)", lambda facts: str(sorted(facts[1].split(", "))), shown)
    shown += "".join(f" {name} {code}" for name, code in sorted((functions or {}).items()))
    return hashlib.sha256(shown.encode()).hexdigest()[:32]


class _Shown:
    """Values as JSON. A part of a plan is a hash of its parts, so one that is read twice is written once."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}

    def of(self, value: Any) -> Any:
        match value:
            case p.Values(digest=str()):
                return [self.of(value.columns), value.digest]
            case p.Plan():
                if id(value) not in self.known:
                    self.known[id(value)] = _hash(self._parts(value))
                return self.known[id(value)]
            case p.Expr(digest=str()) | p.Call(digest=str()):
                return [value.digest, *value.columns, *self._slot(value)]
            case p.Expr(text=str(text)) if re.search(DRAWN, text):
                # the result of a call, which has a digest where it is made
                return self._parts(replace(value, text=re.sub(DRAWN, "#", text)))
            case p.Column():
                return [value.name, value.type, value.nullable, value.metadata]
            case tuple():
                return [self.of(part) for part in value]
            case frozenset():
                return sorted(self.of(part) for part in value)
        return self._parts(value) if is_dataclass(value) else value

    def _parts(self, value: Any) -> list[Any]:
        parts = [self.of(getattr(value, f.name)) for f in fields(value) if f.compare]
        return [type(value).__name__, *parts]

    def _slot(self, value: p.Expr | p.Call) -> list[Any]:
        return [value.name, value.slot] if isinstance(value, p.Call) else []


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
