"""Find a Java that can run Spark 4: version 17 or newer, with the module jdk.incubator.vector."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from freshlake.errors import JavaNotFound

MINIMUM = 17
_VECTOR = "jdk.incubator.vector"
_INSTALL = "install Java 17 or newer (Debian and Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME to one"


@dataclass(frozen=True)
class Java:
    """One Java runtime; `modules` is None where the runtime does not list them."""

    home: Path
    version: int
    modules: frozenset[str] | None

    @property
    def problem(self) -> str | None:
        """Why Spark cannot run on it, or None."""
        if self.version < MINIMUM:
            return f"{self.home} is Java {self.version}, Spark needs {MINIMUM} or newer"
        if self.modules is not None and _VECTOR not in self.modules:
            return f"{self.home} is a slim runtime without the module {_VECTOR}, which Spark needs"
        return None


def find_java() -> Java:
    """JAVA_HOME when set (the user's word is final), else `java` on the PATH, else the usual folders."""
    chosen = os.environ.get("JAVA_HOME")
    if chosen:
        return _accept([Path(chosen)], "JAVA_HOME is set, but no usable Java is there")
    return _accept(_installed(), f"no Java {MINIMUM} or newer was found")


def _accept(homes: Iterator[Path] | list[Path], failure: str) -> Java:
    problems = []
    for home in homes:
        java = inspect(home)
        problem = java.problem if java else f"{home / 'bin' / 'java'} does not run"
        if java and problem is None:
            return java
        problems.append(str(problem))
    raise JavaNotFound(failure, detail="; ".join(problems) or None, hint=_INSTALL)


def _installed() -> Iterator[Path]:
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for folder in (Path("/usr/lib/jvm"), Path("/opt/java"), Path("/Library/Java/JavaVirtualMachines")):
        for executable in sorted(folder.glob("*/bin/java")) + sorted(folder.glob("*/Contents/Home/bin/java")):
            yield executable.parent.parent


def inspect(home: Path) -> Java | None:
    """What runtime lives at `home`: from its release file, which costs nothing, otherwise by asking it."""
    if not (home / "bin" / "java").exists():
        return None
    try:
        release = (home / "release").read_text(encoding="utf-8")
    except OSError:
        release = ""
    version = _major(_quoted("JAVA_VERSION", release)) or _major(_ask(home))
    if version is None:
        return None
    modules = _quoted("MODULES", release)
    return Java(home, version, frozenset(modules.split()) if modules else None)


def _quoted(key: str, release: str) -> str:
    found = re.search(rf'^{key}="([^"]*)"', release, re.MULTILINE)
    return found.group(1) if found else ""


def _ask(home: Path) -> str:
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([^"]+)"', answer.stderr)
    return found.group(1) if found else ""


def _major(version: str) -> int | None:
    """17.0.15 → 17, and 1.8.0_292 → 8."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found.group(1)) if found else None
