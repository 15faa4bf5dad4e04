"""The geometry of the burn-down chart, which the templates draw as inline SVG with HTML text around it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from dp_operators.budget.burn_down import RATE_DAYS, BurnDown

WIDTH, HEIGHT = 1000, 240
_STEPS = 500
"""The maximum number of steps that are drawn; more could not be seen."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A burn-down as paths in a box of ``WIDTH`` by ``HEIGHT``, from 0% left at its bottom to 100% at its top.

    Attributes:
        line: the path of the share left, in steps.
        area: the closed path below it.
        projection: the path from today on at the latest rate of spending; empty without a rate.
        today: the horizontal position of today; None if it is the right edge.
        dates: the days at the left edge, in the middle and at the right edge.
        description: what the chart shows, for screen readers.
    """

    line: str
    area: str
    projection: str
    today: float | None
    dates: tuple[str, str, str]
    description: str

    @classmethod
    def of(cls, burn_down: BurnDown) -> Chart:
        """The chart of a burn-down; it shows at most as many days ahead as behind."""
        since = min(burn_down.since, burn_down.today - timedelta(days=1))
        past = (burn_down.today - since).days
        ahead = 0 if burn_down.days_left is None else min(burn_down.days_left + 1, max(past, RATE_DAYS))
        days = past + ahead

        def x(day: date) -> float:
            return round(WIDTH * (day - since).days / days, 1)

        def y(left: float) -> float:
            return round(HEIGHT * (1 - left), 1)

        line = [f"M0 {y(burn_down.start)}"]
        drawn = -1.0
        for day, left in burn_down.points[-1:] if past == 0 else burn_down.points:
            place = x(day)
            if place - drawn >= WIDTH / _STEPS:
                line.append(f"H{place}")
                drawn = place
            line.append(f"V{y(left)}")
        line.append(f"H{x(burn_down.today)}")
        path = " ".join(_without_repetitions(line))
        end = burn_down.left - burn_down.rate * ahead
        now = x(burn_down.today)
        return cls(
            line=path,
            area=f"{path} V{HEIGHT} H0 Z",
            projection="" if ahead == 0 else f"M{now} {y(burn_down.left)} L{WIDTH} {y(max(end, 0.0))}",
            today=now if ahead else None,
            dates=(words(since), words(since + timedelta(days=days // 2)), words(since + timedelta(days=days))),
            description=f"Left of the cap: {burn_down.start:.0%} on {words(since)}, {burn_down.left:.0%} today.",
        )


def words(day: date) -> str:
    """A day, as it is written in a sentence."""
    return f"{day.day} {day:%b %Y}"


def _without_repetitions(line: list[str]) -> list[str]:
    """The path without vertical moves that another one follows at once."""
    return [move for move, after in zip(line, [*line[1:], ""], strict=True) if not (move[0] == after[:1] == "V")]
