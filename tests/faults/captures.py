"""Deaths at random of whoever refreshes mirrors or moves a database to its log and back, while others write."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from freshlake.lake import Freshlake
from freshlake.sources.postgres.capture import Mode
from tests.faults.processes import Order, kill
from tests.integration.capture_database import Database
from tests.integration.capture_load import SOURCE, refresh_to_one_moment
from tests.integration.capture_mirror import Load
from tests.integration.lakes import ANY_SHARE

SETTINGS: dict[str, Any] = {**ANY_SHARE, "wal_transition_timeout": 60}
_EFFECTS = 25
"""About as many as a refresh of everything has; who is told a larger number survives."""


def under_load(fl: Freshlake, database: Database, *, seed: int, transactions: int, deaths: int) -> None:
    """Eight writers; after every death all tables are those of the database at one position, by changes alone."""
    random, work = Random(seed), Load(database, writers=8, transactions=transactions, seed=seed)
    done = 0
    while done < deaths or not work.is_over:
        if done < deaths:
            kill(fl, _order(random))
            done += 1
        if random.random() < 0.3:
            tidied(fl)
        actions = refresh_to_one_moment(fl, database)
        copied = {name for name, action in actions.items() if action not in ("DIFFERENTIAL", "NO_DATA")}
        assert copied <= {f"{SOURCE}.public.archive"}, "only what was truncated is computed as a whole"
    work.wait()
    refresh_to_one_moment(fl, database)


def tidied(fl: Freshlake) -> None:
    """As a scheduler does it when a transition has had its time."""
    fl._upkeep.run(fl._engine.clock.now() + timedelta(seconds=SETTINGS["wal_transition_timeout"] + 1))


def _order(random: Random) -> Order:
    at = random.randrange(_EFFECTS)
    if random.random() < 0.5:
        return Order("refresh_all", at=at, settings=SETTINGS)
    mode = random.choice(list(Mode))
    # writers may keep their locks for too long, or somebody who died may still be taken for one who is on his way
    order = Order("alter_source", (SOURCE,), {"cdc_mode": str(mode)}, at=at % 8, settings=SETTINGS)
    return replace(order, may_fail="capture-busy")
