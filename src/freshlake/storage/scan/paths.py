"""Where files are: Delta's URL-encoded paths to plain local paths or URIs."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+):")
# delta-rs decodes such a path, and would use another table if there is one there.
_DECODED = re.compile(r"%[0-9A-Fa-f]{2}|\\")
# It refuses to write to these, or falls over.
_NOT_WRITTEN = re.compile(rf"{_DECODED.pattern}|[\x00-\x1f\x7f\[\]^|]")


def plain(path: str) -> str:
    """A table path as an absolute local path, without `file:`; other URIs stay as they are."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return os.path.abspath(path) if is_local(path) else path.rstrip("/")


def is_local(path: str) -> bool:
    """Whether the path names a file of this machine."""
    return not _SCHEME.match(path)


def misread(path: str) -> str | None:
    """What a local path has in it for which delta-rs takes it for another one; None if it does not."""
    return _found(_DECODED, path)


def not_written(path: str) -> str | None:
    """What a local path has in it for which delta-rs cannot write there; None if it can."""
    return _found(_NOT_WRITTEN, path)


def _found(pattern: re.Pattern[str], path: str) -> str | None:
    found = pattern.search(path) if is_local(path) else None
    return None if found is None else found[0]


def locate(table: str, encoded: str) -> str:
    """A file of the log (relative or absolute, URL-encoded) as a plain path or URI."""
    if encoded.startswith("/") or _SCHEME.match(encoded):
        return plain(unquote(encoded))
    return f"{table}/{unquote(encoded)}"
