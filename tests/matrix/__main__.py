"""`make matrix`: execute every cell and write the record and its page; what fails is listed and left out."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from freshlake.session import start
from tests.local_spark import SETTINGS
from tests.matrix import page, record

spark = start(Path(tempfile.mkdtemp()), app_name="freshlake-matrix", settings=SETTINGS)
played = record.play(Path(tempfile.mkdtemp()))
made = record.record(played)
record.write(made)
page.FILE.write_text(page.render(made), encoding="utf-8")
for message in played.player.failures.values():
    print(message, file=sys.stderr)
print(f"{len(page.claims(page.render(made)))} cells proven, {len(played.player.failures)} stream tables failed")
sys.exit(1 if played.player.failures else 0)
