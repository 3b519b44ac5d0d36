"""The start of the README, run as a user would run it: its own process, an empty folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.markdown import ROOT, blocks, sections

START = sections((ROOT / "README.md").read_text(encoding="utf-8"))["Start"]


def test_the_start_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    code, expected = (block.text for block in blocks(START))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == expected.split()
    assert "Exception" not in done.stderr
    assert (tmp_path / "lake").is_dir()


def test_the_start_is_short() -> None:
    code = blocks(START)[0].text
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
