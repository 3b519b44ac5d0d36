"""Every `.slt` file of this folder is collected: one test per scenario, one lake per file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.player import Player
from tests.scenarios.story import FormatError, Scenario, read


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    return StoryFile.from_parent(parent, path=file_path) if file_path.suffix == ".slt" else None


class StoryFile(pytest.File):
    """A file is played once, when its first scenario is asked for, with only the scenarios that were selected."""

    def collect(self) -> Iterator[pytest.Item]:
        try:
            self.story = read(self.path)
        except FormatError as error:
            raise self.CollectError(str(error)) from None
        self.played: Player | None = None
        for scenario in self.story.scenarios:
            item = ScenarioItem.from_parent(
                self, name=scenario.name, callobj=_test(self, scenario), keywords={"scenario": scenario}
            )
            if scenario.slow:
                item.add_marker(pytest.mark.slow)
            yield item

    def play(self, folder: Path) -> Player:
        if self.played is None:
            selected = {item.name for item in self.session.items if item.parent is self}
            self.played = Player(self.story, folder, selected)
            self.played.play()
        return self.played


def _test(file: StoryFile, scenario: Scenario) -> Any:
    # The whole file is charged to its first scenario.
    @pytest.mark.timeout(1800)
    def holds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
        played = file.play(tmp_path_factory.mktemp(file.path.stem))
        if scenario.name in played.failures:
            pytest.fail(played.failures[scenario.name], pytrace=False)

    return holds


class ScenarioItem(pytest.Function):
    """Reported where it stands in its file."""

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.keywords["scenario"].line - 1, self.name
