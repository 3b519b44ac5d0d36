"""Quotas: how many refreshes may run here when several daemons or lakes share the workers of one installation.

Who has work to do and runs less than its quota claims it, and then everybody keeps to theirs. Without a claim one may
burst to half as much again, as far as workers are free. What bursts is not stopped: nothing new is started above the
quota from the next tick on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """What somebody runs and would like to run; a quota of 0 is an equal part of what others have not fixed."""

    running: int = 0
    waiting: int = 0
    quota: int = 0


def allowance(lake: str, daemon: str, claims: Mapping[str, Mapping[str, Claim]], most: int) -> int:
    """How many refreshes a daemon may run: first lakes share the workers, then the daemons of a lake its part.

    `claims` are those of all daemons, by lake.
    """
    lakes = {name: _together(tuple(found.values())) for name, found in claims.items()}
    return room(daemon, _without_quota(claims[lake]), room(lake, lakes, most))


def room(mine: str, claims: Mapping[str, Claim], most: int) -> int:
    """How many may run for one of those who share `most`."""
    quotas = shares(claims, most)
    quota = quotas[mine]
    others = [(claim, quotas[name]) for name, claim in claims.items() if name != mine]
    if any(claim.waiting and claim.running < due for claim, due in others):
        return quota
    free = most - sum(claim.running for claim, _ in others)
    return max(quota, min(quota + (quota + 1) // 2, free))


def shares(claims: Mapping[str, Claim], most: int) -> dict[str, int]:
    """The quota of each: its own, or an equal part of the rest; at least one, so that nobody starves."""
    fixed = {name: claim.quota for name, claim in claims.items() if claim.quota}
    others = sorted(claims.keys() - fixed.keys())
    part, over = divmod(max(most - sum(fixed.values()), 0), len(others) or 1)
    return fixed | {name: max(1, part + (place < over)) for place, name in enumerate(others)}


def _together(claims: Sequence[Claim]) -> Claim:
    """A lake's claim; daemons that were told other quotas of it are not believed beyond the largest."""
    running, waiting = sum(c.running for c in claims), sum(c.waiting for c in claims)
    return Claim(running, waiting, max(c.quota for c in claims))


def _without_quota(claims: Mapping[str, Claim]) -> dict[str, Claim]:
    return {name: Claim(claim.running, claim.waiting) for name, claim in claims.items()}
