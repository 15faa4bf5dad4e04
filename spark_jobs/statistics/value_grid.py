"""Public grids of real values between two bounds, linear or logarithmic.

A grid maps a value to a *position* by an increasing real function. A cell is the interval of positions between two
consecutive whole numbers, closed below and open above; the last cell is closed at both ends. Positions are computed
with operations whose rounding IEEE 754 fixes (no result depends on a logarithm), so that numpy and Java agree on every
cell.

One rule rounds values and the thresholds that they are compared with. Without a step, ``v >= t`` counts as
``cell(v) >= cell(t)`` and ``v <= t`` as ``cell(v) <= cell(t)``: every row at a threshold counts, and so does a row less
than a cell beside it. With a step the values form a lattice, and a value off the lattice is moved to the nearest
lattice value. A threshold t may be any number: ``v >= t`` counts from the first lattice value at or above t, and
``v <= t`` up to the last lattice value at or below t, so that comparisons are exact (``at_least``, ``at_most``). A
result that is read off a grid is a cell, which a release states by its first and its last value (``ends``); an interval
of several cells ends at the last value of its last cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.grids import (
    NEAR,
    SCORE_CELLS,
    check_grid,
    steps_of_log,
    unit_of_log,
    values_in_cell,
    values_of_steps,
)
from spark_jobs.score_grid import cells_of, edges_of
from spark_jobs.statistics.grid import MAX_VALUE_CELLS, require_cells

LINEAR, LOG, SCORE = "linear", "log", "score"


@dataclass(frozen=True, kw_only=True)
class ValueGrid:
    """Cells between ``lower`` and ``upper``, fixed independently of the data; for scores, the bounds are 0 and 1.

    ``linear``: ``cells`` cells of equal width. ``log``: from ``unit`` outwards, in both directions, each doubling of
    the size is divided into ``steps`` cells of equal width, so that the cells grow with their values and are within a
    factor of two of equal width in logarithms; sizes below the unit are one cell on either side of 0. ``steps`` is as
    large as ``cells`` allows. ``score``: the refined grid of ``score_grid``, finer towards both bounds.

    With a ``step``, the values are ``lower``, ``lower + step``, ..., ``upper``, and a cell is one of them, or several
    neighbouring ones, as many as are needed for at most ``cells`` cells.

    Attributes:
        lower, upper: the bounds; values beyond them belong to the cells at the ends.
        cells: the largest number of cells, a power of two from 2 to 2^21.
        scale: ``linear``, ``log`` or ``score``.
        unit: for ``log``, the smallest size that is distinguished from 0. None stands for the size of the bound nearer
            to 0. If 0 is one of the bounds or between them, None stands for 2^-20 of the larger size of the two bounds.
        step: for ``linear``, the distance of neighbouring values; None where values may be any numbers.

    Raises:
        InvalidRequest: the bounds are not finite and ascending, there are too few cells, or the step does not divide
            the range.
    """

    lower: float
    upper: float
    cells: int = 32768
    scale: str = LINEAR
    unit: float | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        require_cells(self.cells, MAX_VALUE_CELLS)
        for name in ("lower", "upper"):
            object.__setattr__(self, name, float(getattr(self, name)) + 0.0)
        check_grid(**self.fields())
        if self.scale == LOG:
            object.__setattr__(self, "unit", unit_of_log(self.lower, self.upper, self.unit))

    def fields(self) -> dict[str, Any]:
        """The grid as plain JSON types, from which it can be made again; without a step, that field is absent."""
        named = {name: getattr(self, name) for name in ("lower", "upper", "cells", "scale", "unit")}
        return named if self.step is None else {**named, "step": self.step}

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
        if self.step is not None:
            with np.errstate(over="ignore"):
                return ((array - self.lower) / self.step + 0.5) / self.values_in_cell
        if self.scale == LINEAR:
            with np.errstate(over="ignore"):
                return (array - self.lower) / (self.upper - self.lower) * self.cells
        if self.scale == SCORE:
            return np.interp(self._share(array), edges_of(SCORE_CELLS), np.arange(SCORE_CELLS + 1))
        return self._signed(array) - self.origin

    def _share(self, values: FloatArray) -> FloatArray:
        """Where values lie between the bounds, from 0 to 1; exact if these are the bounds."""
        return (values - self.lower) / (self.upper - self.lower)

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
        """The position of the lower bound, counted from the value 0 and rounded down; 0 for a linear grid."""
        return float(np.floor(self._signed(np.array(self.lower)))) if self.scale == LOG else 0.0

    @cached_property
    def values_in_cell(self) -> int:
        """With a step, the number of neighbouring values in a cell: the smallest with which ``cells`` cells suffice."""
        return 1 if self.step is None else values_in_cell(self.lower, self.upper, self.step, self.cells)

    @cached_property
    def size(self) -> int:
        """The number of cells: ``cells`` for a linear grid, at most ``cells`` for a logarithmic one or with a step."""
        if self.step is not None:
            return -(-values_of_steps(self.lower, self.upper, self.step) // self.values_in_cell)
        if self.scale == SCORE:
            return SCORE_CELLS
        return self.cells if self.scale == LINEAR else max(1, math.ceil(float(self.position(self.upper))))

    def cell(self, values: ArrayLike) -> Int64Array:
        """The cell of each value; values beyond the bounds count in the cells at the ends. NaN is not allowed."""
        within = np.clip(np.asarray(values, dtype=np.float64), self.lower, self.upper)
        if self.step is not None:
            nearest = np.floor((within - self.lower) / self.step + 0.5).astype(np.int64)
            return np.clip(nearest // self.values_in_cell, 0, self.size - 1)
        if self.scale == SCORE:
            return cells_of(self._share(within), SCORE_CELLS)
        return np.clip(np.floor(self.position(within)), 0, self.size - 1).astype(np.int64)

    def at_least(self, thresholds: ArrayLike) -> Int64Array:
        """The first cell that counts for ``value >= t``; the threshold in force is its first value (``ends``).

        Rows below it are those of ``value < t``. Thresholds beyond the bounds count as the nearer bound.
        """
        return self._threshold(thresholds, np.ceil)

    def at_most(self, thresholds: ArrayLike) -> Int64Array:
        """The last cell that counts for ``value <= t``; the threshold in force is its end (``ends``).

        Rows above it are those of ``value > t``. Thresholds beyond the bounds count as the nearer bound.
        """
        return self._threshold(thresholds, np.floor)

    def _threshold(self, thresholds: ArrayLike, to_lattice: np.ufunc) -> Int64Array:
        if self.step is None:
            return self.cell(thresholds)
        within = np.clip(np.asarray(thresholds, dtype=np.float64), self.lower, self.upper)
        place = (within - self.lower) / self.step
        on = np.abs(place - np.rint(place)) <= NEAR
        number = np.where(on, np.rint(place), to_lattice(place)).astype(np.int64)
        return np.clip(number // self.values_in_cell, 0, self.size - 1)

    def ends(self, first: ArrayLike, last: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The first value of each cell in ``first`` and the end of each cell in ``last``, as a release states them.

        If the grid has a step, the end of a cell is its last value. Otherwise it is the cell's upper edge, which its
        values stay below; only the last cell holds its upper edge too, the upper bound.
        """
        lows, highs = self.edges[np.asarray(first)], np.asarray(last) + 1
        if self.step is None:
            return lows, self.edges[highs]
        return lows, self._on_lattice(np.minimum(highs * self.values_in_cell, self._values) - 1)

    @property
    def _values(self) -> int:
        return values_of_steps(self.lower, self.upper, float(self.step or 1.0))

    def _on_lattice(self, numbers: ArrayLike) -> FloatArray:
        """The values of these numbers of steps from the lower bound, as people write them."""
        step = float(self.step or 1.0)
        places = np.asarray(numbers, dtype=np.float64)
        values: FloatArray = np.where(places >= self._values - 1, self.upper, self.lower + places * step)
        # 0.35, not the 0.35000000000000003 of 35 * 0.01: as many decimals as the step and the bound have
        decimals = max(-_last_place(step), -_last_place(self.lower), 0)
        largest = max(abs(self.lower), abs(self.upper))
        if largest * 10.0**decimals < 2.0**52:
            np.round(values, decimals, out=values)
        return values

    def value(self, positions: ArrayLike) -> FloatArray:
        """The inverse of ``position``, within the bounds."""
        place = np.asarray(positions, dtype=np.float64)
        if self.step is not None:
            values = self.lower + self.step * (place * self.values_in_cell - 0.5)
        elif self.scale == SCORE:
            share = np.interp(place, np.arange(SCORE_CELLS + 1), edges_of(SCORE_CELLS))
            values = self.lower + (self.upper - self.lower) * share
        elif self.scale == LINEAR:
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
        """The starts of the cells, and the upper bound; shape (size + 1,). Each start is a value of its own cell.

        With a step the last cell may hold the upper bound alone, which then is its start, too.
        """
        number = np.arange(self.size + 1)
        if self.step is not None:
            edges = self._on_lattice(np.minimum(number * self.values_in_cell, self._values - 1))
            edges.flags.writeable = False
            return edges
        edges = self.value(number)
        step = np.spacing(max(abs(self.lower), abs(self.upper))) if self.scale != LOG else 0.0
        for _ in range(4):  # correct the last bits, which ``value`` rounds
            early = (self.cell(edges) < number) & (number < self.size)
            edges[early] = np.maximum(np.nextafter(edges[early], np.inf), edges[early] + step)
        edges.flags.writeable = False
        return edges


def _last_place(number: float) -> int:
    """The exponent of the last decimal digit that Python prints of a number; -2 for 0.25."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0
