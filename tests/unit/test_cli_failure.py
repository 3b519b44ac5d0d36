"""What libraries write about a failure beside raising it does not reach the user."""

from __future__ import annotations

import logging

from freshlake.cli.failure import silence_spark


def record(path: str) -> logging.LogRecord:
    return logging.LogRecord("root", logging.ERROR, path, 1, "while sending command", None, None)


def test_a_call_that_was_interrupted_is_not_logged() -> None:
    silence_spark()
    assert not logging.getLogger().filter(record("/site-packages/py4j/java_gateway.py"))
    assert logging.getLogger().filter(record("/src/freshlake/refresh/recover.py"))
