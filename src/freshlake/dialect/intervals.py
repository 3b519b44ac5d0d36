"""PostgreSQL's interval literals: months, days and microseconds, which are added in this order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

_MONTHS = {"month": 1, "mon": 1, "year": 12, "yr": 12, "y": 12, "decade": 120}
_DAYS = {"day": 1, "d": 1, "week": 7, "w": 7}
_MICROS = {
    "hour": 3_600_000_000,
    "hr": 3_600_000_000,
    "h": 3_600_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_PART = re.compile(
    r"\s*(?:(?P<sign>[+-]?)(?P<h>\d+):(?P<m>\d\d)(?::(?P<s>\d\d(?:\.\d{1,6})?))?|(?P<n>[+-]?\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+))\s*"
)
DAY = 86_400_000_000


@dataclass(frozen=True)
class Interval:
    months: int = 0
    days: int = 0
    micros: int = 0

    def spark(self) -> list[str]:
        """As Spark's two kinds of interval, the months first."""
        found = []
        if self.months:
            found.append(f"INTERVAL '{self.months}' MONTH")
        if self.days and not self.micros:
            found.append(f"INTERVAL '{self.days}' DAY")
        elif self.micros:
            found.append(_day_to_second(self.days * DAY + self.micros))
        return found or ["INTERVAL '0' SECOND"]


def parse_interval(text: str) -> Interval | None:
    """None when it has a part that is not known, or whose fraction PostgreSQL would spread over smaller units."""
    months, days, micros = 0, 0, Decimal(0)
    rest, ago = re.subn(r"\s+ago\s*$", "", text.strip().lower())
    position = 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None or match.end() == position:
            return None
        position = match.end()
        if match["h"] is not None:
            clock = Decimal(match["h"]) * 3600 + Decimal(match["m"]) * 60 + Decimal(match["s"] or 0)
            micros += clock * 1_000_000 * (-1 if match["sign"] == "-" else 1)
            continue
        amount, unit = Decimal(match["n"]), match["unit"]
        unit = unit if unit in (_MONTHS | _DAYS | _MICROS) else unit.removesuffix("s")
        whole = amount == amount.to_integral_value()
        if unit in _MICROS:
            micros += amount * _MICROS[unit]
        elif unit in _DAYS and whole:
            days += int(amount) * _DAYS[unit]
        elif unit in _MONTHS and whole:
            months += int(amount) * _MONTHS[unit]
        else:
            return None
    if not rest or micros != micros.to_integral_value():
        return None
    sign = -1 if ago else 1
    return Interval(sign * months, sign * days, sign * int(micros))


def _day_to_second(micros: int) -> str:
    sign, left = ("-" if micros < 0 else ""), abs(micros)
    days, left = divmod(left, DAY)
    hours, left = divmod(left, 3_600_000_000)
    minutes, left = divmod(left, 60_000_000)
    seconds, left = divmod(left, 1_000_000)
    fraction = f".{left:06d}" if left else ""
    return f"INTERVAL '{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}{fraction}' DAY TO SECOND"
