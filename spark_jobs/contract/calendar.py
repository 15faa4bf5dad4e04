"""Calendar periods in UTC between two public moments."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Literal, NamedTuple

from spark_jobs.contract.domains import moment
from spark_jobs.contract.errors import InvalidRequest

Every = Literal["day", "week", "month", "quarter", "year"]
"""The length of a calendar period; weeks begin on Mondays."""
_EPOCH = dt.datetime(1970, 1, 1)


class Periods(NamedTuple):
    """Consecutive calendar periods.

    Attributes:
        labels: the name of each: ``2026-03-01`` for a day, or for a week by its Monday; ``2026-03``; ``2026-Q1``;
            ``2026``.
        edges: where each begins, and where the last one ends, in microseconds since 1970.
    """

    labels: tuple[str, ...]
    edges: tuple[int, ...]


@lru_cache(maxsize=64)
def periods(start: str, end: str, every: Every) -> Periods:
    """The periods that overlap the time from ``start``, included, to ``end``, excluded; the ends may cut them short.

    Raises:
        InvalidRequest: the two are not moments without a time zone in ascending order.
    """
    first, last = moment(start), moment(end)
    if not first < last:
        raise InvalidRequest("end", end, "must be after start", "write the earlier moment as start")
    labels, edges, begins = [], [first], _floor(first, every)
    while begins < last:
        labels.append(_label(begins, every))
        begins = _next(begins, every)
        edges.append(min(begins, last))
    return Periods(tuple(labels), tuple((edge - _EPOCH) // dt.timedelta(microseconds=1) for edge in edges))


def _floor(time: dt.datetime, every: Every) -> dt.datetime:
    day = time.replace(hour=0, minute=0, second=0, microsecond=0)
    match every:
        case "day":
            return day
        case "week":
            return day - dt.timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=day.month - (day.month - 1) % 3, day=1)
        case "year":
            return day.replace(month=1, day=1)


def _next(begins: dt.datetime, every: Every) -> dt.datetime:
    # the first day of a period plus more days than it has, and fewer than two have
    reach = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}[every]
    return _floor(begins + dt.timedelta(days=reach), every)


def _label(begins: dt.datetime, every: Every) -> str:
    match every:
        case "month":
            return f"{begins:%Y-%m}"
        case "quarter":
            return f"{begins:%Y}-Q{(begins.month + 2) // 3}"
        case "year":
            return f"{begins:%Y}"
    return f"{begins:%Y-%m-%d}"
