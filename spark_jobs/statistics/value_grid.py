"""Public grids of real values between two bounds, linear or logarithmic.

A grid maps a value to a *position*, an increasing real function of it, and a cell is the interval of positions between
two consecutive whole numbers: closed below and open above, except that the last one is closed. Positions are computed
with operations whose rounding IEEE 754 fixes (no result depends on a logarithm), so that numpy and Java agree on every
cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.grids import check_grid, steps_of_log, unit_of_log
from spark_jobs.statistics.grid import require_cells

LINEAR, LOG = "linear", "log"


@dataclass(frozen=True, kw_only=True)
class ValueGrid:
    """Cells between ``lower`` and ``upper``, fixed independently of the data.

    ``linear``: ``cells`` cells of equal width. ``log``: from ``unit`` outwards, in both directions, each doubling of
    the size is divided into ``steps`` cells of equal width, so that the cells grow with their values and are within a
    factor of two of equal width in logarithms; sizes below the unit are one cell on either side of 0. ``steps`` is as
    large as ``cells`` allows.

    Attributes:
        lower, upper: the bounds; values beyond them belong to the cells at the ends.
        cells: the largest number of cells, a power of two from 2 to 2^20.
        scale: ``linear`` or ``log``.
        unit: for ``log``, the smallest size that is distinguished from 0. None stands for the bound nearer to 0, or, if
            0 is between the bounds or equal to one, for 2^-20 of the larger bound in size.

    Raises:
        InvalidRequest: the bounds are not finite and ascending, or there are too few cells.
    """

    lower: float
    upper: float
    cells: int = 32768
    scale: str = LINEAR
    unit: float | None = None

    def __post_init__(self) -> None:
        require_cells(self.cells)
        for name in ("lower", "upper"):
            object.__setattr__(self, name, float(getattr(self, name)) + 0.0)
        check_grid(lower=self.lower, upper=self.upper, cells=self.cells, scale=self.scale, unit=self.unit)
        if self.scale == LOG:
            object.__setattr__(self, "unit", unit_of_log(self.lower, self.upper, self.unit))

    @cached_property
    def steps(self) -> int:
        """The number of cells of one doubling of a logarithmic grid; 0 for a linear grid."""
        if self.scale == LINEAR:
            return 0
        return steps_of_log(self.lower, self.upper, self.cells, self._unit)

    @property
    def _unit(self) -> float:
        return 1.0 if self.unit is None else self.unit

    def position(self, values: ArrayLike) -> FloatArray:
        """The positions of values, in cells from the start of the first one, beyond the grid too; NaN stays NaN."""
        array = np.asarray(values, dtype=np.float64)
        if self.scale == LINEAR:
            with np.errstate(over="ignore"):
                return (array - self.lower) / (self.upper - self.lower) * self.cells
        return self._signed(array) - self.origin

    def _signed(self, values: FloatArray) -> FloatArray:
        """The positions on the logarithmic scale, relative to 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(values) / self._unit
            mantissa, exponent = np.frexp(size)
            within = (2.0 * mantissa - 1.0) * self.steps
            large = 1.0 + ((exponent - 1.0) * self.steps + within)
        large = np.where(np.isinf(size), np.inf, large)
        return np.where(np.signbit(values), -1.0, 1.0) * np.where(size < 1.0, size, large)

    @cached_property
    def origin(self) -> float:
        """The whole number at or below the position of the lower bound relative to 0; 0 for a linear grid."""
        return float(np.floor(self._signed(np.array(self.lower)))) if self.scale == LOG else 0.0

    @cached_property
    def size(self) -> int:
        """The number of cells: ``cells`` for a linear grid, at most ``cells`` for a logarithmic one."""
        return self.cells if self.scale == LINEAR else max(1, math.ceil(float(self.position(self.upper))))

    def cell(self, values: ArrayLike) -> Int64Array:
        """The cell of each value; values beyond the bounds count in the cells at the ends. NaN is not allowed."""
        within = np.clip(np.asarray(values, dtype=np.float64), self.lower, self.upper)
        return np.clip(np.floor(self.position(within)), 0, self.size - 1).astype(np.int64)

    def value(self, positions: ArrayLike) -> FloatArray:
        """The inverse of ``position``, within the bounds."""
        place = np.asarray(positions, dtype=np.float64)
        if self.scale == LINEAR:
            values = self.lower + (self.upper - self.lower) * (place / self.cells)
        else:
            signed = place + self.origin
            outside = np.maximum(np.abs(signed) - 1.0, 0.0)
            doubling = np.floor(outside / self.steps)
            large = np.ldexp(1.0 + (outside - doubling * self.steps) / self.steps, doubling.astype(np.int64))
            values = np.sign(signed) * self._unit * np.where(np.abs(signed) < 1.0, np.abs(signed), large)
        return np.where(place >= self.size, self.upper, np.clip(values, self.lower, self.upper))

    @cached_property
    def edges(self) -> FloatArray:
        """The starts of the cells, and the upper bound; shape (size + 1,). Each start is a value of its own cell."""
        number = np.arange(self.size + 1)
        edges = self.value(number)
        step = np.spacing(max(abs(self.lower), abs(self.upper))) if self.scale == LINEAR else 0.0
        for _ in range(4):  # correct the last bits, which ``value`` rounds
            early = (self.cell(edges) < number) & (number < self.size)
            edges[early] = np.maximum(np.nextafter(edges[early], np.inf), edges[early] + step)
        edges.flags.writeable = False
        return edges
