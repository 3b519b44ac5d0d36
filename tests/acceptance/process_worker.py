"""One of several processes on a lake; started by test_processes.py, told what to do by lines on its input.

Each line is Python over `fl` and what earlier lines named with `:=`; the answer is one line of JSON. `pause STEP` makes
the next refresh wait at a step until the next line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import freshlake
from freshlake.errors import FreshlakeError


def answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value, default=str) + "\n")
    sys.stdout.flush()


def main() -> None:
    spark_settings = {"spark.master": "local[1]", "spark.driver.memory": "1g"}
    settings = {"differential_max_change_ratio": 0.0}
    fl = freshlake.connect(Path(sys.argv[1]), settings=settings, spark_settings=spark_settings)
    names = {"fl": fl}
    answer("ready")
    for line in sys.stdin:
        if line.startswith("pause "):
            wanted = line.removeprefix("pause ").strip()

            def observe(step: str, wanted: str = wanted) -> None:
                if step == wanted:
                    answer(f"at {step}")
                    sys.stdin.readline()

            fl._engine.observer = observe
            continue
        try:
            answer(eval(line, names))
        except FreshlakeError as error:
            answer({"error": error.code})
    fl.close()


if __name__ == "__main__":
    main()
