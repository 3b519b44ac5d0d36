"""Functions that Catalyst takes for deterministic, and that are not."""

from __future__ import annotations

import json
from typing import Any

from freshlake.compiler.origin import place_of
from freshlake.compiler.refusals import RANDOM_VECTOR, SESSION_VALUE

_VERSION, _ENCRYPTION = "getSparkVersion", "aesEncrypt"


def refuse_hidden(e: Any, written: str) -> None:
    """`written` is the expression in Spark's JSON."""
    if f'"functionName":"{_VERSION}"' in written:
        raise SESSION_VALUE.raised(place_of(e, "version"), message="version() cannot be part of a stream table")
    if f'"functionName":"{_ENCRYPTION}"' not in written:
        return
    for place, node in enumerate(json.loads(written)):
        if node.get("functionName") == _ENCRYPTION and _is_random(e.apply(place).arguments()):
            raise RANDOM_VECTOR.raised(place_of(e.apply(place), "aes_encrypt"))


def _is_random(arguments: Any) -> bool:
    """An encryption draws its initialization vector itself where it is not given one, or an empty one."""
    mode, vector = arguments.apply(2), arguments.apply(4)
    if mode.foldable() and str(mode.eval(None)).upper() == "ECB":
        return False
    given = vector.eval(None) if vector.foldable() else b""
    return given is not None and len(given) == 0
