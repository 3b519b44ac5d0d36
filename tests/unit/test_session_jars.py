"""The Delta jars are fetched once, kept whole or not at all, and never fetched when they are there."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from freshlake.errors import DeltaJarUnavailable
from freshlake.session import jars
from freshlake.session.cache import cache_dir


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRESHLAKE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / f"delta-{version('delta-spark')}" / "jars"


@pytest.fixture
def resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretend that Ivy found two jars; the list holds one entry per resolution."""
    calls: list[str] = []
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_bytes(b"jar")

    def resolve() -> list[Path]:
        calls.append("resolved")
        return [tmp_path / "a.jar", tmp_path / "b.jar"]

    monkeypatch.setattr(jars, "_resolve", resolve)
    return calls


def test_jars_are_fetched_once_and_the_wait_is_announced(cache: Path, resolved: list[str]) -> None:
    said: list[str] = []
    assert jars.delta_jars(said.append) == (cache / "a.jar", cache / "b.jar")
    assert jars.delta_jars(said.append) == (cache / "a.jar", cache / "b.jar")
    assert (len(resolved), len(said)) == (1, 1)


def test_a_race_with_another_process_leaves_one_whole_set(cache: Path, resolved: list[str]) -> None:
    cache.mkdir(parents=True)
    (cache / "a.jar").write_bytes(b"jar")
    jars._keep(jars._resolve(), cache)
    assert [jar.name for jar in cache.parent.iterdir()] == ["jars"]


def test_a_cache_that_cannot_be_made_is_named(cache: Path, resolved: list[str]) -> None:
    cache.parent.parent.write_text("a file where the folder should be")
    with pytest.raises(DeltaJarUnavailable) as caught:
        jars.delta_jars()
    assert "FRESHLAKE_CACHE" in str(caught.value.hint)


def test_without_network_the_reason_is_ivys(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        said = "Ivy Default Cache set to: somewhere\n\t\t::::\n :: io.delta: not found\nunresolved dependency: x\n"
        return subprocess.CompletedProcess([], 1, "", said)

    monkeypatch.setattr(subprocess, "run", offline)
    with pytest.raises(DeltaJarUnavailable) as caught:
        jars.delta_jars()
    assert caught.value.detail == "unresolved dependency: x"
    assert not cache.exists()


def test_a_repository_that_never_answers_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("spark-submit", 1)

    monkeypatch.setattr(subprocess, "run", silent)
    with pytest.raises(DeltaJarUnavailable, match="could not be fetched"):
        jars.delta_jars()


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRESHLAKE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "freshlake"
    monkeypatch.setenv("FRESHLAKE_CACHE", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"
