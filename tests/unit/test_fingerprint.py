"""A query has the same fingerprint in every process."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from freshlake.compiler import plan as p
from freshlake.compiler.fingerprint import fingerprint

scan = p.Scan((p.Column("a"),), "t", ("a",))
facts = frozenset({p.TIES, p.PLACE, "third", "fourth"})
number = p.Item("n", p.Expr("row_number()", ("a",), facts=facts))
plan = p.Window((*scan.columns, p.Column("n")), scan, (number,), ("a",), ())
print(fingerprint(plan, plan.columns))
"""


def test_it_does_not_depend_on_how_a_process_orders_sets() -> None:
    environments = [{**os.environ, "PYTHONHASHSEED": str(seed)} for seed in range(1, 6)]
    calls = [[sys.executable, "-c", PROGRAM] for _ in environments]
    started = [
        subprocess.Popen(call, env=env, stdout=subprocess.PIPE, text=True)
        for call, env in zip(calls, environments, strict=True)
    ]
    assert len({process.communicate(timeout=120)[0] for process in started}) == 1
