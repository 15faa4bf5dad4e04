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
from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.grids import EARLIEST_ROUNDING
from spark_jobs.contract.privacy import Neighbours, plain
from spark_jobs.diagnostics.ecdf.noise_model import NoiseModel
from spark_jobs.diagnostics.undefined import listed
from spark_jobs.mechanisms.trees import Tree
from spark_jobs.statistics.value_grid import LOG, ValueGrid

TOLERANCE = 2e-9
"""Fractions are rounded to nine decimals, so a level counts as reached from this far below."""
ARRAYS = ("values", "cdf", "lower", "upper", "lower_everywhere", "upper_everywhere")


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """A quantile with its interval: the least value of the grid that a fraction ``level`` of the rows do not exceed.

    If bounds were found privately, an interval that ends beyond a bound is open there: it ends at the public grid's
    end, and the quantile may lie anywhere beyond the bound.
    """

    level: float
    value: float | None
    lower: float | None
    upper: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "level": self.level,
            "value": self.value,
            "interval": None if self.lower is None else [self.lower, self.upper],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Quantile:
        """The quantile that ``to_dict`` described."""
        low, high = fields["interval"] or (None, None)
        return cls(level=fields["level"], value=fields["value"], lower=low, upper=high)


@dataclass(frozen=True, kw_only=True)
class Distance:
    """A Kolmogorov-Smirnov distance, to a reference distribution or to another release.

    Attributes:
        value: the largest difference of the two functions at the edges of cells.
        at: the value at which they differ most.
        interval: confidence interval of the distance without noise.
        p_value: p-value of the hypothesis that the rows are a sample of the reference, or that the rows of both
            releases are samples of one distribution; it accounts for sampling, noise and smoothing.
        p_value_floor: the smallest p-value that its simulation can give.
        confidence: nominal level of the interval.
    """

    value: float | None
    at: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    p_value_floor: float | None
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "value": self.value,
            "at": self.at,
            "interval": None if self.interval is None else list(self.interval),
            "p_value": self.p_value,
            "p_value_floor": self.p_value_floor,
            "confidence": self.confidence,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Distance:
        """The distance that ``to_dict`` described."""
        ends = fields["interval"]
        return cls(
            value=fields["value"],
            at=fields["at"],
            interval=None if ends is None else (ends[0], ends[1]),
            p_value=fields["p_value"],
            p_value_floor=fields.get("p_value_floor"),
            confidence=fields["confidence"],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class EcdfComparison:
    """The comparison of a released distribution function with an earlier release.

    Attributes:
        released_by: release key of the earlier release.
        named: name of the earlier release's values; None for scores.
        status: status of the earlier release, ``ok`` or ``undefined``.
        cdf: its released fractions at the cells of this release, shape (cells,).
        distance: the distance of the two, with a test of the hypothesis that both tables are samples of one
            distribution.
    """

    released_by: str
    named: str | None
    status: str
    cdf: FloatArray
    distance: Distance

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, without the fractions, which are in the request and in the data file."""
        facts = {name: getattr(self, name) for name in ("released_by", "named", "status")}
        return {**facts, "distance": self.distance.to_dict()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Ecdf:
    """A released empirical distribution function on its whole grid.

    Arrays have one entry per cell; their length is fixed by the request. Values beyond the bounds count as the nearer
    bound. Bands and intervals are for the same rows without noise; they do not account for the sampling of the rows.
    The band of a cell holds the fraction up to any value in it: where a cell may hold several values, its lower end is
    that of the cell before.

    Attributes:
        values: start of each cell, ascending.
        cdf: fraction of the rows whose value is in this cell or one before; non-decreasing, and 1 at the last cell.
        lower, upper: pointwise confidence band of ``cdf`` at level ``confidence``.
        lower_everywhere, upper_everywhere: simultaneous confidence band of the whole function at that level.
        bounds: lower and upper bound of the values.
        bounds_found: whether the bounds are private (released) values; otherwise they are public.
        quantiles: the requested quantiles.
        distance: distance to the requested reference; None without a reference.
        comparison: comparison with the requested earlier release; None without one.
        rows: noisy number of rows.
        named: name of the values; None for scores.
        status: ``ok``, or ``undefined`` if the noisy number of rows is below 1 or below three standard deviations of
            its noise: the function and its bands are then NaN, quantiles and distances None.
        smoothing, confidence, points: as requested.
        grid: the public grid.
        cuts: indices of the grid's edges at which the cells begin and end, shape (cells + 1,).
        noise: the public distribution of the noise.
        rounding: the rule of the draw (``contract.grids.ROUNDING``).
        epsilon: privacy cost of the release.
        neighbours: neighbouring relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    values: FloatArray
    cdf: FloatArray
    lower: FloatArray
    upper: FloatArray
    lower_everywhere: FloatArray
    upper_everywhere: FloatArray
    bounds: tuple[float, float]
    bounds_found: bool
    quantiles: tuple[Quantile, ...]
    distance: Distance | None
    comparison: EcdfComparison | None
    rows: float
    named: str | None
    status: str
    smoothing: str
    confidence: float
    points: int
    grid: ValueGrid
    cuts: Int64Array
    noise: NoiseModel
    rounding: str
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str

    def evaluate(self, x: ArrayLike) -> FloatArray:
        """The fraction of rows with a value of at most ``x``, in its shape; 0 below the bounds, NaN for NaN."""
        return self._read(x, self.cdf)

    def band(self, x: ArrayLike, *, everywhere: bool = False) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of the band at ``x``: pointwise, or simultaneous if ``everywhere``.

        If bounds were found privately, the rows counted at a bound may lie anywhere beyond it: from the last cell on,
        the band reaches down to the fraction below that cell, and below the first cell up to the fraction in it.
        """
        lower, upper = (self.lower_everywhere, self.upper_everywhere) if everywhere else (self.lower, self.upper)
        low, high = self._read(x, lower), self._read(x, upper)
        if not self.bounds_found:
            return low, high
        at, under = np.asarray(x, dtype=np.float64), lower[-1] if self.in_cells else lower[-2]
        low, high = np.where(at >= self.values[-1], under, low), np.where(at < self.bounds[0], upper[0], high)
        return low[()], high[()]

    def quantile(self, p: ArrayLike) -> FloatArray:
        """The smallest value of the grid that a fraction ``p`` or more of the rows does not exceed.

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
            return Quantile(level=0.5, value=None, lower=None, upper=None)
        return Quantile(level=0.5, value=float(self.quantile(0.5)), lower=float(low), upper=float(high))

    @property
    def logarithmic(self) -> bool:
        """Whether cells are wider at larger values."""
        widths = np.diff(self.values)
        return self.grid.scale == LOG and bool(widths.max() > 1.9 * np.median(widths))

    def quantile_interval(self, p: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """A confidence interval, at level ``confidence``, of the quantile without noise: the inverted band.

        The cell i of the exact quantile has ``F_i >= p`` and ``F_(i-1) < p``. If the band contains both fractions, then
        ``upper_i >= p`` and ``lower_(i-1) < p``. The interval has the cells with both properties, and ends where the
        last of them ends. If bounds were found privately, the cells at the ends hold all rows beyond: an interval that
        reaches such a cell ends at the public grid's end.

        Raises:
            ValueError: ``p`` is outside [0, 1].
        """
        levels = _levels(p)
        if self.status == UNDEFINED:
            nothing = np.full(levels.shape, np.nan)
            return nothing, nothing
        first, last = _first_reaching(self.upper, levels), self._last_below(levels)
        last = np.maximum(first, last)
        if self.rounding == EARLIEST_ROUNDING:
            low, high = self.values[first], self.values[last]
        else:
            low, high = self.grid.ends(self.cuts[first], self.cuts[last + 1] - 1)
        if self.bounds_found:
            low = np.where(first == 0, self.grid.edges[0], low)
            high = np.where(last == self.values.size - 1, self.grid.edges[-1], high)
        return low, high

    def _last_below(self, levels: FloatArray) -> Int64Array:
        """The last cell before which the band's lower end does not reach each level."""
        if not self.in_cells:
            return _first_reaching(self.lower, levels)
        return np.maximum(np.searchsorted(self.lower, _wanted(levels)) - 1, 0).astype(np.int64)

    @property
    def in_cells(self) -> bool:
        """Whether a value may lie anywhere in a cell, so that bands allow for it (``in_any_place``)."""
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, with the function at ``points`` cells; the data file has all cells."""
        rows = self.summary
        return {
            "status": self.status,
            "rows": self.rows,
            "bounds": list(self.bounds),
            "bounds_found": self.bounds_found,
            "quantiles": [quantile.to_dict() for quantile in self.quantiles],
            "distance": None if self.distance is None else self.distance.to_dict(),
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "confidence": self.confidence,
            "named": self.named,
            "smoothing": self.smoothing,
            "points": self.points,
            "grid": self.grid.fields(),
            "tree": {
                "cells": self.noise.tree.cells,
                "branching": self.noise.tree.branching,
                "root": self.noise.tree.root,
            },
            "noise_scale": self.noise.scale,
            "rounding": self.rounding,
            "epsilon": plain(self.epsilon),
            "neighbours": str(self.neighbours),
            "guarantee": self.guarantee,
            **{name: listed(getattr(self, name)[rows]) for name in ARRAYS},
        }

    @classmethod
    def from_release(cls, fields: Mapping[str, Any], columns: Mapping[str, ArrayLike]) -> Ecdf:
        """The function, rebuilt from ``results["ecdf"]`` of ``release.json`` and the columns of ``ecdf.parquet``."""
        compared = fields["comparison"]
        names = ("value", *ARRAYS[1:], *([] if compared is None else ["earlier_cdf"]))
        column = {name: np.asarray(columns[name], dtype=np.float64) for name in names}
        grid = ValueGrid(**fields["grid"])
        last = grid.size if fields["bounds"][1] >= grid.upper else int(grid.cell(fields["bounds"][1]))
        return cls(
            values=column["value"],
            cdf=column["cdf"],
            lower=column["lower"],
            upper=column["upper"],
            lower_everywhere=column["lower_everywhere"],
            upper_everywhere=column["upper_everywhere"],
            bounds=(fields["bounds"][0], fields["bounds"][1]),
            bounds_found=fields["bounds_found"],
            quantiles=tuple(Quantile.from_dict(quantile) for quantile in fields["quantiles"]),
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
    """Whether a cell between cuts of a grid may hold several values: all do but those of a grid of values."""
    return grid.step is None or grid.values_in_cell > 1 or bool((np.diff(cuts) > 1).any())


def in_any_place(band: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """A band for the fraction up to any value in each cell: between that before the cell, and that at its end."""
    lower, upper = band
    return np.concatenate([[0.0], lower[:-1]]), upper
