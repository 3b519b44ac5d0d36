"""One Spark for the whole run, and a fresh folder per test."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshlake.session import start
from tests.integration.postgres_server import Server, server
from tests.local_spark import SETTINGS, SHORT_LIVED

# for the processes that tests start; the one Spark of this run has an option of its own, which goes before
os.environ |= SHORT_LIVED


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A tuned local Spark with Delta; tests share it and make their own tables in `lake_dir`."""
    session = start(tmp_path_factory.mktemp("warehouse"), app_name="freshlake-tests", settings=SETTINGS)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def heard() -> None:
    """Warnings reach the tests that wait for them, whatever libraries and earlier tests did to loggers."""
    for name in ("freshlake", *logging.root.manager.loggerDict):
        if name.split(".")[0] == "freshlake":
            logger = logging.getLogger(name)
            logger.disabled, logger.propagate = False, True
    logging.disable(logging.NOTSET)


@pytest.fixture
def lake_dir(tmp_path: Path) -> Path:
    """A folder for one lake."""
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL with a database `catalogs`, whose text sorts by the rules of a language, as most databases' does."""
    with server() as running:
        try:
            running.run("CREATE DATABASE catalogs TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
        except AssertionError:  # older than 15, or built without ICU
            running.run("CREATE DATABASE catalogs")
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def catalog_url(request: pytest.FixtureRequest) -> str:
    """Where a catalog is: what a test shows with it holds for both."""
    if request.param == "sqlite":
        return "sqlite"
    running: Server = request.getfixturevalue("postgres_server")
    return running.url("catalogs")
