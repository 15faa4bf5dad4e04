"""What the pictures of binned residuals and calibration have in common: pools, whiskers, the zone of a true model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.publishing.formats import SPACE, decimals
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ZONE_OPACITY = 0.3
LEAST_SIMULATED = 0.003
"""One over 400 and one, rounded up."""
LEGEND_SIZE = 8.5


class PoolValues(Protocol):
    """What both results have: values of bins, of which neighbouring ones may share a pool."""

    @property
    def lower(self) -> FloatArray: ...  # noqa: D102
    @property
    def upper(self) -> FloatArray: ...  # noqa: D102
    @property
    def pool(self) -> NDArray[Any]: ...  # noqa: D102
    @property
    def predicted(self) -> FloatArray: ...  # noqa: D102
    @property
    def zone_lower(self) -> FloatArray: ...  # noqa: D102
    @property
    def zone_upper(self) -> FloatArray: ...  # noqa: D102
    @property
    def rows(self) -> FloatArray: ...  # noqa: D102
    @property
    def positives(self) -> float: ...  # noqa: D102
    @property
    def negatives(self) -> float: ...  # noqa: D102
    @property
    def p_value(self) -> float: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def confidence(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """One value for each pool, from left to right.

    Attributes:
        x: mean scores. y, low, high: the points with their whiskers. zone_low, zone_high: where a true model's lie.
        first, last: scores at which the pools begin and end. rows: noisy numbers of rows.
    """

    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray
    zone_low: FloatArray
    zone_high: FloatArray
    first: FloatArray
    last: FloatArray
    rows: FloatArray

    @property
    def outside(self) -> BoolArray:
        """Which points lie beyond the zone."""
        beyond: BoolArray = (self.y < self.zone_low) | (self.y > self.zone_high)
        return beyond


def points(found: PoolValues, y: FloatArray, low: FloatArray, high: FloatArray) -> Points:
    """The pools of a result; ``y``, ``low`` and ``high`` are arrays of bins."""
    first = np.flatnonzero(np.diff(found.pool, prepend=-1))
    last = np.append(first[1:], found.pool.size) - 1
    return Points(
        x=found.predicted[first],
        y=y[first],
        low=low[first],
        high=high[first],
        zone_low=found.zone_lower[first],
        zone_high=found.zone_upper[first],
        first=found.lower[first],
        last=found.upper[last],
        rows=found.rows[first],
    )


def draw_zone(axes: Axes, at: Points, *, label: str, slope: float) -> None:
    """The zone, through the pools' mean scores, and on to both ends of the axis along a line of ``slope``."""
    left, right = axes.get_xlim()
    x = np.concatenate([[left], at.x, [right]])
    reach = slope * (x[[0, -1]] - at.x[[0, -1]])
    low, high = (
        np.concatenate([[end[0] + reach[0]], end, [end[-1] + reach[1]]]) for end in (at.zone_low, at.zone_high)
    )
    axes.fill_between(x, low, high, color=light("chance"), alpha=ZONE_OPACITY, linewidth=0, label=label)


def draw_points(axes: Axes, at: Points, *, inside: str, outside: str) -> None:
    """Points with whiskers: round ones inside the zone, and others, in another colour, beyond it."""
    beyond = at.outside
    for chosen, token, marker, size, label in (
        (~beyond, "curve", "o", 5.0, inside),
        (beyond, "spent", "D", 5.5, outside),
    ):
        axes.vlines(at.x[chosen], at.low[chosen], at.high[chosen], color=light(token), linewidth=1.6, zorder=3)
        axes.plot(
            at.x[chosen],
            at.y[chosen],
            color=light(token),
            marker=marker,
            markersize=size,
            markeredgecolor="white",
            markeredgewidth=0.8,
            linestyle="none",
            label=label,
            zorder=4,
        )


def score_limits(at: Points) -> tuple[float, float]:
    """Ends of the score axis: the released scores with some room, within [0, 1]."""
    room = 0.06 * max(float(at.x.max() - at.x.min()), 0.05)
    return max(0.0, float(at.x.min()) - room), min(1.0, float(at.x.max()) + room)


def set_ticks(axes: Axes, across: tuple[float, float], upwards: tuple[float, float]) -> None:
    """Both axes' ends, and round ticks within them."""
    axes.set_xlim(across)
    axes.set_ylim(upwards)
    for axis, (low, high) in ((axes.xaxis, across), (axes.yaxis, upwards)):
        ticks = MaxNLocator(nbins=7, steps=[1, 2, 5, 10]).tick_values(low, high)
        axis.set_ticks([tick for tick in ticks if low <= tick <= high])


def p_text(p: float) -> str:
    """A p-value as printed."""
    return "below 0.001" if p < 0.001 else decimals(p, 3)


def p_figure(p: float) -> str:
    """A p-value as a headline: short."""
    return f"<{SPACE}0.001" if p < 0.001 else decimals(p, 3)


def simulated_p(p: float) -> str:
    """A p-value by rank among some 400 simulated copies, which can show none below that, after ``p``."""
    return f"= {decimals(p, 3)}" if p > LEAST_SIMULATED else f"≤ {LEAST_SIMULATED:g}"


def score_range(first: float, last: float, *, whole: bool) -> str:
    """Scores of a bin: ``0.12 to 0.31``, with as many places as it takes to tell its ends apart."""
    places = next((n for n in range(2, 6) if round(last, n) - round(first, n) > 10.0**-n / 2), 5)
    return f"{decimals(first, places)} to {decimals(last, places)}" + ("" if whole else f"{SPACE}*")
