"""Released figures beside exact ones: whether an interval holds, and by how much it could be narrower."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.mechanisms.noise import SeededNoise

LEVEL = 0.9
SLACK = 1e-6


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A released figure with its interval, and the exact figure.

    Attributes:
        value, low, high: released.
        exact: what the interval is for.
        cell: 1 if figures and ends are numbers of cells of a grid, from the cell of the lower end to that of the upper
            one; 0 for any other figure.
        whole: 1 if the interval is all that the figure may be, which says nothing, or allows for what the grid hides of
            a ``coarse`` figure; otherwise 0.
    """

    value: float
    low: float
    high: float
    exact: float
    cell: float = 0.0
    whole: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the interval holds the exact figure."""
        return self.low - SLACK <= self.exact <= self.high + SLACK

    @property
    def is_one_exact_cell(self) -> bool:
        """Whether the interval is a single cell, and holds."""
        return bool(self.cell) and self.holds and self.width() == 1.0

    @property
    def can_miss(self) -> bool:
        """Whether the interval could be narrower, and could be wrong."""
        return not (self.whole or self.is_one_exact_cell)

    @property
    def factor(self) -> float:
        """The smallest factor by which the interval can be scaled about the figure and still hold."""
        off = self.exact - self.value
        reach = self.high - self.value if off > 0 else self.value - self.low
        return 0.0 if abs(off) <= SLACK else abs(off) / max(reach, 1e-12)

    def width(self, factor: float = 1.0) -> float:
        """The width of the interval, scaled about the figure; whole cells, and the figure's own, on a grid."""
        sides = factor * (self.high - self.value), factor * (self.value - self.low)
        return sum(sides) if not self.cell else 1.0 + sum(math.floor(side + SLACK) for side in sides)


Intervals = dict[str, Shown | None]
"""Kind of interval -> what a release shows of it; None if undefined."""
Kind = Callable[[np.random.Generator, float], Intervals]
"""Draws a table of a cell of the law, and releases it."""
Ends = tuple[FloatArray, FloatArray, FloatArray]
"""Values, and the lower and upper ends of their intervals."""


def shown_at(place: int, ends: Ends, exact: FloatArray) -> Shown:
    """One figure of several."""
    value, low, high = (float(one[place]) for one in ends)
    return Shown(value=value, low=low, high=high, exact=float(exact[place]))


def worst_of(ends: Ends, exact: FloatArray) -> Shown:
    """The figure of a simultaneous band that is hardest to hold."""
    value, low, high = (np.asarray(one) for one in ends)
    off = exact - value
    reach = np.where(off > 0, high - value, value - low)
    factor = np.where(np.abs(off) <= SLACK, 0.0, np.abs(off) / np.maximum(reach, 1e-12))
    inside = (low - SLACK <= exact) & (exact <= high + SLACK)
    return shown_at(int(np.lexsort((factor, ~inside))[-1]), (value, low, high), exact)


def shown_of(
    value: float | None, interval: Sequence[float] | None, exact: float, *, coarse: bool = False
) -> Shown | None:
    """A figure that may be undefined, or ``coarse``; a coarse one that does not hold counts like any other."""
    if value is None or interval is None:
        return None
    shown = Shown(value=value, low=interval[0], high=interval[1], exact=exact)
    return replace(shown, whole=float(coarse and shown.holds))


def in_cells(starts: FloatArray, value: float, interval: Sequence[float], exact: float) -> Shown:
    """A figure on a grid whose cells have these starts; what lies before the first is in a cell of its own."""
    value, low, high, exact = (
        float(np.searchsorted(starts, one, side="right") - 1) for one in (value, *interval, exact)
    )
    return Shown(value=value, low=low, high=high, exact=exact, cell=1.0)


def noise_of(random: np.random.Generator) -> SeededNoise:
    """The noise of a release, whose seed comes from ``random``."""
    return SeededNoise(int(random.integers(2**62)))
