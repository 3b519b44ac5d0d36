"""What can be wrong with a scenario, and how it is told: what was expected, and what was found."""

from __future__ import annotations

from collections import Counter

from pyspark.sql import DataFrame, Row

from freshlake.errors import FreshlakeError
from freshlake.lake import Freshlake
from freshlake.refresh.result import RefreshResult
from tests.bags import canonical
from tests.scenarios.story import NO_ROWS, Facts, Scenario


class Wrong(AssertionError):
    """Something is not as it should be."""


def refused(fl: Freshlake, scenario: Scenario) -> None:
    try:
        fl.create_stream_table(scenario.name, scenario.query, refresh_mode=scenario.mode)
    except FreshlakeError as error:
        if error.code != scenario.refused:
            raise Wrong(f"expected the error {scenario.refused}, found {error.code}: {error}") from None
        told = f"{error} {error.hint or ''}"
        if missing := [text for text in scenario.says if text not in told]:
            raise Wrong(f"expected the error to say {missing}, found: {told}") from None
    else:
        raise Wrong(f"expected the error {scenario.refused}, but the table was created")


def fails(fl: Freshlake, scenario: Scenario, code: str) -> None:
    try:
        result = fl.refresh(scenario.name)
    except FreshlakeError as error:
        if error.code != code:
            raise Wrong(f"expected the error {code}, found {error.code}: {error}") from None
    else:
        raise Wrong(f"expected the error {code}, but the refresh was {result.action}")


def acted(result: RefreshResult, scenario: Scenario, facts: Facts, usual: set[str]) -> None:
    """DIFFERENTIAL unless the file says otherwise; NO_DATA where nothing that the scenario reads was written."""
    said = facts if facts.action else scenario.always
    allowed = {facts.action} if facts.action else usual
    if str(result.action) not in allowed:
        raise Wrong(f"expected the action {' or '.join(sorted(allowed))}, found {result.action} ({result.reason})")
    if said.reason and str(result.action) == said.action and result.reason != said.reason:
        raise Wrong(f"expected the reason {said.reason}, found {result.reason}: {result.detail}")


def changed(result: RefreshResult, found: tuple[int, int], facts: Facts) -> None:
    """What the refresh reports is what a reader sees, except that rows whose hidden state changed are counted too."""
    added, removed = result.rows_inserted, result.rows_deleted
    if added - removed != found[0] - found[1] or added < found[0]:
        raise Wrong(f"+{found[0]} -{found[1]} rows changed, but the refresh reports +{added} -{removed}")
    if facts.changed and facts.changed != found:
        raise Wrong(f"expected +{facts.changed[0]} -{facts.changed[1]} rows to change, found +{found[0]} -{found[1]}")
    if facts.unwritten and (added, removed) != (0, 0):
        raise Wrong(f"expected nothing to be written, found +{added} -{removed}")


def same(expected: list[tuple[str, ...]], found: list[tuple[str, ...]], why: str) -> None:
    missing, unexpected = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    if missing or unexpected:
        lines = [f"the rows are not {why}", f"  expected: {_listed(expected)}", f"  found:    {_listed(found)}"]
        lines += [f"  missing     {'  '.join(row)}" for row in missing.elements()]
        lines += [f"  unexpected  {'  '.join(row)}" for row in unexpected.elements()]
        raise Wrong("\n".join(lines))


def _listed(rows: list[tuple[str, ...]]) -> str:
    return "; ".join("  ".join(row) for row in sorted(rows)) or NO_ROWS


def shape(frame: DataFrame) -> list[tuple[str, str]]:
    return [(f.name, f.dataType.simpleString()) for f in frame.schema]


def unordered(row: Row) -> Row:
    """Collected lists come in any order."""
    return Row(*(sorted(v, key=canonical) if isinstance(v, list) else v for v in row))
