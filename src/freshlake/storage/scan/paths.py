"""Where files are: Delta's URL-encoded paths to plain local paths or URIs."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+):")


def plain(path: str) -> str:
    """A table path as an absolute local path, without `file:`; other URIs stay as they are."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return os.path.abspath(path) if is_local(path) else path.rstrip("/")


def is_local(path: str) -> bool:
    """Whether the path names a file of this machine."""
    return not _SCHEME.match(path)


def locate(table: str, encoded: str) -> str:
    """A file of the log (relative or absolute, URL-encoded) as a plain path or URI."""
    if encoded.startswith("/") or _SCHEME.match(encoded):
        return plain(unquote(encoded))
    return f"{table}/{unquote(encoded)}"
