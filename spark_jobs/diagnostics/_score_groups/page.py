"""What the pictures of binned residuals and calibration have in common: pools, whiskers, the zone of a true model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.diagnostics.binned_residuals.result import BinnedResiduals
from spark_jobs.diagnostics.calibration.result import Calibration
from spark_jobs.publishing.formats import SPACE, decimals
from spark_jobs.publishing.rendering import Column
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ZONE_OPACITY = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class PoolPoints:
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


def pool_columns(result: BinnedResiduals | Calibration, name: str, *, meaning: str, zone: str) -> dict[str, Column]:
    """The columns of a data file of pools.

    Args:
        result: released.
        name: the field that is released of each pool; its ends are ``<name>_lower`` and ``<name>_upper``.
        meaning: of that field.
        zone: what of a model with true scores would be released within the zone.
    """
    nominal = f"{100 * result.confidence:.4g} %"
    interval = f"{nominal} interval of {name}: where the exact counts of the same rows would put it"
    zone = f"{nominal} zone: where the {zone} of a model with true scores would be released"
    meanings = {
        "lower": "lower edge of the bin, as a score",
        "upper": "upper edge of the bin, as a score",
        "pool": "pool the bin belongs to; bins of a pool share all that follows",
        "predicted": "mean score of the pool",
        name: meaning,
        f"{name}_lower": f"lower end of the {interval}",
        f"{name}_upper": f"upper end of the {interval}",
        "zone_lower": f"lower end of the {zone}",
        "zone_upper": f"upper end of the {zone}",
        "rows": "noisy number of rows of the pool",
    }
    return {field: Column(values=getattr(result, field), meaning=line) for field, line in meanings.items()}


def points(result: BinnedResiduals | Calibration, y: FloatArray, low: FloatArray, high: FloatArray) -> PoolPoints:
    """The pools of a result; ``y``, ``low`` and ``high`` are arrays of bins."""
    first = np.flatnonzero(np.diff(result.pool, prepend=-1))
    last = np.append(first[1:], result.pool.size) - 1
    return PoolPoints(
        x=result.predicted[first],
        y=y[first],
        low=low[first],
        high=high[first],
        zone_low=result.zone_lower[first],
        zone_high=result.zone_upper[first],
        first=result.lower[first],
        last=result.upper[last],
        rows=result.rows[first],
    )


def draw_zone(axes: Axes, at: PoolPoints, *, label: str, slope: float) -> None:
    """The zone, through the pools' mean scores, and on to both ends of the axis along a line of ``slope``."""
    left, right = axes.get_xlim()
    x = np.concatenate([[left], at.x, [right]])
    reach = slope * (x[[0, -1]] - at.x[[0, -1]])
    low, high = (
        np.concatenate([[end[0] + reach[0]], end, [end[-1] + reach[1]]]) for end in (at.zone_low, at.zone_high)
    )
    axes.fill_between(x, low, high, color=light("chance"), alpha=ZONE_OPACITY, linewidth=0, label=label)


def draw_points(axes: Axes, at: PoolPoints, *, inside: str, outside: str) -> None:
    """Points with whiskers: round ones inside the zone, and others, in another colour, beyond it."""
    beyond = at.outside
    for mask, token, marker, size, label in (
        (~beyond, "curve", "o", 5.0, inside),
        (beyond, "spent", "D", 5.5, outside),
    ):
        axes.vlines(at.x[mask], at.low[mask], at.high[mask], color=light(token), linewidth=1.6, zorder=3)
        axes.plot(
            at.x[mask],
            at.y[mask],
            color=light(token),
            marker=marker,
            markersize=size,
            markeredgecolor="white",
            markeredgewidth=0.8,
            linestyle="none",
            label=label,
            zorder=4,
        )


def score_limits(at: PoolPoints) -> tuple[float, float]:
    """Ends of the score axis: the released scores with some room, within [0, 1]."""
    room = 0.06 * max(float(at.x.max() - at.x.min()), 0.05)
    return max(0.0, float(at.x.min()) - room), min(1.0, float(at.x.max()) + room)


def score_range(first: float, last: float, *, whole: bool) -> str:
    """Scores of a bin: ``0.12 to 0.31``, with as many places as it takes to tell its ends apart."""
    places = next((n for n in range(2, 6) if round(last, n) - round(first, n) > 10.0**-n / 2), 5)
    return f"{decimals(first, places)} to {decimals(last, places)}" + ("" if whole else f"{SPACE}*")
