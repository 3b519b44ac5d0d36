"""What `run` writes to stderr of what Freshlake logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger("freshlake")
_FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


@contextmanager
def logged() -> Iterator[None]:
    """Within the block, what passes the setting `log_level` is on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_FORMAT)
    handler.addFilter(_is_news)
    _LOGGER.addHandler(handler)
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)


def _is_news(record: logging.LogRecord) -> bool:
    """Refreshes that went well have a line of their own on stdout."""
    is_alert = record.name == "freshlake.alerts"
    return not (is_alert and isinstance(record.args, tuple) and str(record.args[0]) == "refresh_completed")
