"""A plot axis of steps of equal length in UTC: positions in steps, ticks at round times, times as text."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass

from spark_jobs.publishing.formats import MONTHS

_EPOCH = dt.datetime(1970, 1, 5, tzinfo=dt.UTC)  # a Monday
_DAY = 86_400
_APART = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200,
          *(_DAY * days for days in (1, 2, 7, 14, 28, 91, 182, 364, 728, 1820, 3640, 9100)))  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TimeAxis:
    """Steps of equal length.

    Attributes:
        first: the beginning of step 0, in UTC.
        step: the length of a step.
    """

    first: dt.datetime
    step: dt.timedelta

    def begins(self, number: float) -> dt.datetime:
        """The beginning of a step."""
        return self.first + number * self.step

    def text(self, number: int) -> str:
        """The beginning of a step: ``3 Feb 2026, 08:00``, without the time of day where all steps begin at midnight."""
        at = self.begins(number)
        day = f"{at.day} {MONTHS[at.month - 1][:3]} {at.year}"
        whole_days = self.step % dt.timedelta(days=1) == dt.timedelta(0) and self.first.time() == dt.time()
        return day if whole_days else f"{day}, {_clock(at)}"

    def ticks(self, low: float, high: float, *, limit: int = 6) -> tuple[list[float], list[str]]:
        """Positions of round times between two positions, at most ``limit``, and their labels."""
        seconds = self.step.total_seconds()
        span = max((high - low) * seconds, 1.0)
        apart = next((one for one in _APART if span / one <= limit), _APART[-1])
        begins = (self.begins(low) - _EPOCH).total_seconds()
        times = [apart * number for number in range(math.ceil(begins / apart), math.floor((begins + span) / apart) + 1)]
        labels = [_label(_EPOCH + dt.timedelta(seconds=time), apart) for time in times]
        return [low + (time - begins) / seconds for time in times], labels


def _label(at: dt.datetime, apart: int) -> str:
    month = MONTHS[at.month - 1][:3]
    if apart >= 91 * _DAY:
        return f"{month} {at.year}"
    return f"{at.day} {month}" if apart >= _DAY or at.time() == dt.time() else _clock(at)


def _clock(at: dt.datetime) -> str:
    return f"{at.hour:02}:{at.minute:02}" + (f":{at.second:02}" if at.second else "")
