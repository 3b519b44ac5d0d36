"""Java is found without starting it, and a Java that cannot run Spark is named with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshlake.errors import JavaNotFound
from freshlake.session import java
from freshlake.session.__main__ import NO_JAVA, main

GOOD = "java.base java.sql jdk.incubator.vector"


def make_home(folder: Path, version: str | None, modules: str = GOOD, program: str = "exit 1") -> Path:
    (folder / "bin").mkdir(parents=True)
    executable = folder / "bin" / "java"
    executable.write_text(f"#!/bin/sh\n{program}\n")
    executable.chmod(0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_installed", list)


@pytest.mark.parametrize(("written", "major"), [("17.0.15", 17), ("1.8.0_292", 8), ("21", 21), ("25.0.3", 25)])
def test_the_release_file_tells_the_version(tmp_path: Path, written: str, major: int) -> None:
    found = java.inspect(make_home(tmp_path / "jdk", written))
    assert found is not None
    assert found.version == major


def test_a_runtime_without_release_file_is_asked(tmp_path: Path) -> None:
    home = make_home(tmp_path / "jdk", None, program="echo 'openjdk version \"17.0.1\"' >&2")
    assert java.inspect(home) == java.Java(home, 17, None)


def test_a_folder_without_java_is_none(tmp_path: Path) -> None:
    assert java.inspect(tmp_path) is None


def test_java_home_is_the_users_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_home(tmp_path / "old", "11.0.2")))
    monkeypatch.setattr(java, "_installed", lambda: [make_home(tmp_path / "new", "17.0.2")])
    with pytest.raises(JavaNotFound) as caught:
        java.find_java()
    assert "JAVA_HOME" in caught.value.message
    assert "is Java 11" in str(caught.value.detail)


def test_the_first_usable_java_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = make_home(tmp_path / "old", "11.0.2"), make_home(tmp_path / "new", "21.0.2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_installed", lambda: [old, new])
    assert java.find_java().home == new


def test_a_slim_runtime_is_refused_by_name_of_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slim = make_home(tmp_path / "slim", "17.0.2", modules="java.base java.sql")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_installed", lambda: [slim])
    with pytest.raises(JavaNotFound) as caught:
        java.find_java()
    assert "jdk.incubator.vector" in str(caught.value.detail)


@pytest.mark.usefixtures("nothing_installed")
def test_no_java_at_all_says_how_to_get_one() -> None:
    with pytest.raises(JavaNotFound) as caught:
        java.find_java()
    assert "openjdk-17-jre-headless" in str(caught.value.hint)


@pytest.mark.usefixtures("nothing_installed")
def test_the_setup_command_tells_missing_java_by_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["java"]) == NO_JAVA
    assert "java-not-found" in capsys.readouterr().err
