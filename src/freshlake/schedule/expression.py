"""Schedules as text: a duration ('1h30m'), a cron expression in UTC ('*/5 * * * *', '@hourly') or 'calculated'."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise, takewhile

from cronsim import CronSim, CronSimError

from freshlake.errors import InvalidSchedule, ScheduleTooShort

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(?:[0-9]{1,9}[smhdw])+")
_PART = re.compile(r"([0-9]{1,9})([smhdw])")
_MAX_SECONDS = 366 * 86_400

_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

# A day has at most 1,440 firings and day patterns repeat within a year, so these show the shortest gap.
_FIRINGS_LOOKED_AT = 1_500
_FIRST_LOOK = datetime(2024, 1, 1, tzinfo=UTC)
_LAST_LOOK = _FIRST_LOOK + timedelta(days=400)


@dataclass(frozen=True)
class Every:
    """Refresh when the contents are older than this many seconds."""

    seconds: int

    @property
    def shortest_seconds(self) -> int:
        return self.seconds

    def next_after(self, moment: datetime) -> datetime:
        return moment + timedelta(seconds=self.seconds)

    def __str__(self) -> str:
        rest, parts = self.seconds, []
        for unit in "dhms":
            count, rest = divmod(rest, _UNITS[unit])
            if count:
                parts.append(f"{count}{unit}")
        return "".join(parts)


@dataclass(frozen=True)
class Cron:
    """Refresh at the moments of a cron expression, evaluated in UTC so that daylight saving never shifts it."""

    expression: str

    @property
    def shortest_seconds(self) -> int:
        return _shortest_gap(self._fields)

    def next_after(self, moment: datetime) -> datetime:
        return next(CronSim(self._fields, moment.astimezone(UTC)))

    @property
    def _fields(self) -> str:
        return _ALIASES.get(self.expression, self.expression)

    def __str__(self) -> str:
        return self.expression


@dataclass(frozen=True)
class Calculated:
    """Follow the stream tables that read this one."""

    def __str__(self) -> str:
        return "calculated"


Schedule = Every | Cron | Calculated


# A scheduler reads the same few texts every second.
@lru_cache(maxsize=1024)
def _shortest_gap(fields: str) -> int:
    firings = takewhile(lambda at: at < _LAST_LOOK, islice(CronSim(fields, _FIRST_LOOK), _FIRINGS_LOOKED_AT))
    gaps = (later - earlier for earlier, later in pairwise(firings))
    return int(min(gaps, default=timedelta(seconds=_MAX_SECONDS)).total_seconds())


def parse_schedule(text: str | None, *, floor_seconds: int = 1) -> Schedule:
    """Read a schedule; None means calculated. Refuses what is not a schedule, or is shorter than the floor."""
    schedule = _parse(text)
    if isinstance(schedule, Calculated):
        return schedule
    shortest = schedule.shortest_seconds
    if shortest < floor_seconds:
        raise ScheduleTooShort(
            f"schedule '{text}' is shorter than {floor_seconds} seconds",
            detail=f"it runs every {shortest} seconds; the setting min_schedule_seconds is {floor_seconds}",
        )
    return schedule


@lru_cache(maxsize=1024)
def _parse(text: str | None) -> Schedule:
    if text is None:
        return Calculated()
    words = " ".join(text.split())
    if words.lower() == "calculated":
        return Calculated()
    if words.startswith("@") or " " in words:
        return _cron(text, words)
    return _every(text, words.lower())


def _every(text: str, words: str) -> Every:
    if not _DURATION.fullmatch(words):
        raise InvalidSchedule(f"'{text}' is not a schedule")
    units = [unit for _, unit in _PART.findall(words)]
    if len(set(units)) != len(units):
        raise InvalidSchedule(f"'{text}' is not a schedule", detail="it gives a unit twice")
    seconds = sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(words))
    if not 1 <= seconds <= _MAX_SECONDS:
        raise InvalidSchedule(f"'{text}' is not a schedule", detail="a duration is from 1 second to 366 days")
    return Every(seconds)


def _cron(text: str, words: str) -> Cron:
    expression = words.lower() if words.startswith("@") else words
    fields = _ALIASES.get(expression, expression)
    if len(fields.split()) != 5:
        detail = f"aliases are {', '.join(_ALIASES)}" if fields.startswith("@") else "a cron expression has five fields"
        raise InvalidSchedule(f"'{text}' is not a schedule", detail=detail)
    try:
        next(CronSim(fields, _FIRST_LOOK))
    except (CronSimError, AssertionError) as error:
        raise InvalidSchedule(f"'{text}' is not a schedule", detail=str(error).lower() or None) from None
    except StopIteration:
        raise InvalidSchedule(f"'{text}' is not a schedule", detail="it never comes due") from None
    return Cron(expression)
