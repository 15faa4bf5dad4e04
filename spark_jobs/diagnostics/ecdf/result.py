"""The released distribution function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.grids import EARLIEST_ROUNDING
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.results.values import Distance, DistributionFunction, EcdfComparison, Quantile
from spark_jobs.diagnostics.ecdf.noise_model import NoiseModel
from spark_jobs.mechanisms.trees import Tree
from spark_jobs.statistics.value_grid import LOG, ValueGrid

TOLERANCE = 2e-9
"""Fractions are rounded to nine decimals, so a level counts as reached from this far below."""


_ORDER = (
    "status", "rows", "bounds", "bounds_found", "quantiles", "distance", "comparison", "confidence", "named",
    "smoothing", "points", "grid", "searched", "tree", "noise_scale", "rounding", "epsilon", "neighbours", "guarantee",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Ecdf(DistributionFunction):
    """A released distribution function that can be read at any value and level.

    Attributes:
        grid: the public grid.
        cuts: indices of the grid's edges at which the cells begin and end, shape (cells + 1,).
        noise: the public distribution of the noise.
        rounding: the rule of the draw (``contract.grids.ROUNDING``).
        searched: the bounds of the grid on which private bounds were searched; None if they are those of ``grid``.
    """

    grid: ValueGrid
    cuts: Int64Array
    noise: NoiseModel
    rounding: str
    searched: tuple[float, float] | None = None

    @property
    def cdf(self) -> FloatArray:
        """The released fractions."""
        return self.function.value

    def evaluate(self, x: ArrayLike) -> FloatArray:
        """The fraction of rows with a value of at most ``x``, of the same shape; 0 below the bounds, NaN for NaN."""
        return self._read(x, self.cdf)

    def band(self, x: ArrayLike, *, everywhere: bool = False) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of the band at ``x``: pointwise, or simultaneous if ``everywhere``.

        If bounds were found privately, the rows counted at a bound may lie anywhere beyond it: from the last cell on,
        the band reaches down to the fraction below that cell, and below the first cell up to the fraction in it.
        """
        lower, upper = self.function.ends("everywhere" if everywhere else "interval")
        low, high = self._read(x, lower), self._read(x, upper)
        if not self.bounds_found:
            return low, high
        at, under = np.asarray(x, dtype=np.float64), lower[-1] if self.in_cells else lower[-2]
        low, high = np.where(at >= self.values[-1], under, low), np.where(at < self.bounds[0], upper[0], high)
        return low[()], high[()]

    def quantile(self, p: ArrayLike) -> FloatArray:
        """The smallest value of the grid such that at least a fraction ``p`` of the rows is at or below it.

        NaN where the function is undefined.

        Raises:
            ValueError: ``p`` is outside [0, 1].
        """
        return self._places(self.cdf, p)

    def earlier_quantile(self, p: ArrayLike) -> FloatArray:
        """Quantiles of the earlier release that this one is compared with.

        Raises:
            ValueError: ``p`` is outside [0, 1], or the request has no earlier release.
        """
        if self.comparison is None:
            raise ValueError("this release was not compared with an earlier one")
        return self._places(self.comparison.cdf, p)

    @cached_property
    def median(self) -> Quantile:
        """The median, with its interval."""
        low, high = self.quantile_interval(0.5)
        if self.status == UNDEFINED:
            return Quantile(level=0.5, figure=Figure(value=None))
        value = float(self.quantile(0.5))
        return Quantile(level=0.5, figure=Figure(value=value, interval=Ends(float(low), float(high))))

    @property
    def logarithmic(self) -> bool:
        """Whether cells are wider at larger values."""
        widths = np.diff(self.values)
        return self.grid.scale == LOG and bool(widths.max() > 1.9 * np.median(widths))

    def quantile_interval(self, p: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """A confidence interval, at level ``confidence``, of the quantile without noise: the inverted band.

        The cell i of the exact quantile has ``F_i >= p`` and ``F_(i-1) < p``. If the band contains both fractions, then
        ``upper_i >= p`` and ``lower_(i-1) < p``. The interval spans the cells with both properties. If bounds were
        found privately, the cells at the ends also hold all rows beyond: an interval that reaches such a cell extends
        to the end of the public grid.

        Raises:
            ValueError: ``p`` is outside [0, 1].
        """
        levels = _levels(p)
        if self.status == UNDEFINED:
            nothing = np.full(levels.shape, np.nan)
            return nothing, nothing
        first, last = _first_reaching(self.function.upper, levels), self._last_below(levels)
        last = np.maximum(first, last)
        if self.rounding == EARLIEST_ROUNDING:
            low, high = self.values[first], self.values[last]
        else:
            low, high = self.grid.ends(self.cuts[first], self.cuts[last + 1] - 1)
        if self.bounds_found:
            lowest, highest = self.searched or self.grid.edges[[0, -1]].tolist()
            low = np.where(first == 0, lowest, low)
            high = np.where(last == self.values.size - 1, highest, high)
        return low, high

    def _last_below(self, levels: FloatArray) -> Int64Array:
        """The last cell before which the band's lower end does not reach each level."""
        if not self.in_cells:
            return _first_reaching(self.function.lower, levels)
        return np.maximum(np.searchsorted(self.function.lower, _wanted(levels)) - 1, 0).astype(np.int64)

    @property
    def in_cells(self) -> bool:
        """Whether bands must allow for any value within a cell (``in_any_place``)."""
        return self.rounding != EARLIEST_ROUNDING and may_hold_several(self.grid, self.cuts)

    @cached_property
    def summary(self) -> Int64Array:
        """Indices of ``points`` representative cells: evenly spaced in the sum of fraction and position."""
        size = self.cdf.size
        even = np.arange(1, size + 1) / size
        along = even + (even if self.status == UNDEFINED else self.cdf)
        wanted = np.linspace(along[0], along[-1], self.points)
        order = np.arange(self.points)
        index = np.searchsorted(along, wanted - 1e-12)
        index = np.maximum.accumulate(np.minimum(index, size - 1) - order) + order
        return np.clip(index, order, size - 1 - order[::-1]).astype(np.int64)

    def published(self) -> dict[str, Any]:
        """The published fields, with the function at ``points`` cells; the data file has all cells."""
        tree, rows = self.noise.tree, self.summary
        left_out = ("cuts", "noise", *(() if self.searched else ("searched",)))
        fields = {name: value for name, value in super().published().items() if name not in left_out}
        model = {
            "grid": self.grid.fields(),
            "tree": {"cells": tree.cells, "branching": tree.branching, "root": tree.root},
            "noise_scale": self.noise.scale,
        }
        public = {name: value for name, value in {**fields, **model}.items() if not isinstance(value, np.ndarray)}
        arrays = {name: value[rows] for name, value in fields.items() if isinstance(value, np.ndarray)}
        return {**{name: public[name] for name in _ORDER if name in public}, **arrays}

    @classmethod
    def from_release(cls, fields: Mapping[str, Any], columns: Mapping[str, ArrayLike]) -> Ecdf:
        """The function, rebuilt from ``results["ecdf"]`` of ``release.json`` and the columns of ``ecdf.parquet``."""
        compared = fields["comparison"]
        bands = ("lower", "upper", "lower_everywhere", "upper_everywhere")
        names = ("value", "cdf", *bands, *([] if compared is None else ["earlier_cdf"]))
        column = {name: np.asarray(columns[name], dtype=np.float64) for name in names}
        grid = ValueGrid(**fields["grid"])
        last = grid.size if fields["bounds"][1] >= grid.upper else int(grid.cell(fields["bounds"][1]))
        return cls(
            values=column["value"],
            function=cls.specs()["function"].read(column),
            bounds=(fields["bounds"][0], fields["bounds"][1]),
            bounds_found=fields["bounds_found"],
            quantiles=tuple(map(Quantile.from_dict, fields["quantiles"])),
            distance=None if fields["distance"] is None else Distance.from_dict(fields["distance"]),
            comparison=None
            if compared is None
            else EcdfComparison(
                released_by=compared["released_by"],
                named=compared["named"],
                status=compared["status"],
                cdf=column["earlier_cdf"],
                distance=Distance.from_dict(compared["distance"]),
            ),
            rows=fields["rows"],
            named=fields["named"],
            status=fields["status"],
            smoothing=fields["smoothing"],
            confidence=fields["confidence"],
            points=fields["points"],
            grid=grid,
            cuts=np.append(grid.cell(column["value"]), last),
            noise=NoiseModel(tree=Tree(**fields["tree"]), scale=fields["noise_scale"], rows=max(1.0, fields["rows"])),
            rounding=fields.get("rounding", EARLIEST_ROUNDING),
            searched=tuple(fields["searched"]) if fields.get("searched") else None,
            epsilon=Decimal(fields["epsilon"]),
            neighbours=Neighbours(fields["neighbours"]),
            guarantee=fields["guarantee"],
        )

    def _places(self, fractions: FloatArray, p: ArrayLike) -> FloatArray:
        levels = _levels(p)
        if np.isnan(fractions).any():
            return np.full(levels.shape, np.nan)
        return self.values[_first_reaching(fractions, levels)]

    def _read(self, x: ArrayLike, fractions: FloatArray) -> FloatArray:
        place = np.asarray(x, dtype=np.float64)
        known = np.where(np.isnan(place), self.bounds[0], place)
        of_grid = self.grid.cell if self.rounding == EARLIEST_ROUNDING else self.grid.at_most
        cell = np.searchsorted(self.cuts, of_grid(known), side="right") - 1
        read = np.where(known < self.bounds[0], 0.0, fractions[np.clip(cell, 0, self.cdf.size - 1)])
        read = np.where(known >= self.bounds[1], 1.0, read)
        return np.where(np.isnan(place), np.nan, read)[()]  # a number for a number


def _levels(p: ArrayLike) -> FloatArray:
    levels = np.asarray(p, dtype=np.float64)
    if not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError("p: must be levels in [0, 1]")
    return levels


def _first_reaching(fractions: FloatArray, levels: FloatArray) -> Int64Array:
    """The first cell whose fraction reaches each level; for level 0, the first cell with a fraction above 0."""
    return np.minimum(np.searchsorted(fractions, _wanted(levels)), fractions.size - 1).astype(np.int64)


def _wanted(levels: FloatArray) -> FloatArray:
    """What a fraction has to be to reach each level; for level 0, above 0."""
    wanted: FloatArray = np.maximum(levels - TOLERANCE, TOLERANCE / 2)
    return wanted


def may_hold_several(grid: ValueGrid, cuts: Int64Array) -> bool:
    """Whether some cell between cuts may hold several values; all cells can, except on a grid of single values."""
    return grid.step is None or grid.values_in_cell > 1 or bool((np.diff(cuts) > 1).any())


def in_any_place(band: Ends[FloatArray]) -> Ends[FloatArray]:
    """A band for any value within each cell: from the lower end at the cell before to the upper end at this one."""
    return Ends(np.concatenate([[0.0], band.lower[:-1]]), band.upper)
