"""The figures of one measure in every cell of a table, with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.figure import Ends, Figure, Numbers
from spark_jobs.contract.options import Measured
from spark_jobs.contract.options.measures import AggregateFigure, Power
from spark_jobs.diagnostics.aggregates.estimates import CellEstimates
from spark_jobs.diagnostics.aggregates.plugged import plugged_intervals
from spark_jobs.diagnostics.aggregates.population import FROM_ROWS, population_means
from spark_jobs.diagnostics.aggregates.ratios import ratio_intervals
from spark_jobs.mechanisms.noise import SeededNoise

DIGITS = 12
"""Significant digits of published numbers; further ones differ between machines."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredCells:
    """One measure in the cells of a table, of which figures are computed.

    Attributes:
        of: the numbers of the cells.
        measure: the measure.
        terms: the places of its sums among the design's terms.
        level: how often intervals hold.
        strong: the cells whose figures are shown.
        effect: the design effect of the sampling of rows.
        seed: of simulations of sampling.
    """

    of: CellEstimates
    measure: Measured
    terms: Mapping[Power, int]
    level: float
    strong: BoolArray
    effect: float
    seed: int

    def figure(self, name: AggregateFigure) -> Numbers:
        """The figure of this name."""
        figures: Mapping[AggregateFigure, Callable[[], Numbers]] = {
            "mean": self._mean,
            "sum": self._sum,
            "variance": self._variance,
            "sd": self._sd,
            "units": self._units,
        }
        return figures[name]()

    def _sum(self) -> Numbers:
        """Sums of values: of ``middle + half a`` over the rows."""
        measure, rows, law = self.measure, self.of.rows, self.of.law(self.terms["value"])
        values = measure.middle * rows + measure.half * self.of.centred[self.terms["value"]]
        reach = measure.half * law.quantile(self.level, np.array([measure.middle / measure.half]), np.ones(1))
        # rounding moves each row; there are no more rows than the end of their interval says, but for the error below
        moved = measure.off * np.maximum(rows + law.quantile(self.level, np.ones(1), np.zeros(1)), 0.0)
        return Figure(
            value=published(values), interval=Ends(published(values - reach - moved), published(values + reach + moved))
        )

    def _units(self) -> Numbers:
        """Sums of 0 and 1, which are known to be 0 at least."""
        counts = self._sum()
        lower, upper = counts.ends()
        interval = Ends(np.minimum(np.maximum(lower, 0.0), counts.value), np.maximum(upper, 0.0))
        return Figure(value=counts.value, interval=interval)

    def _mean(self) -> Numbers:
        lower, upper = self._ratio_intervals("value")
        off = self.measure.off
        interval = Ends(self._as_values(lower, -off), self._as_values(upper, off))
        return Figure(
            value=self._shown(self._as_values(self._ratios("value"))),
            interval=interval,
            population=self._population(interval),
        )

    def _as_values(self, ratios: FloatArray, off: float = 0.0) -> FloatArray:
        first, last = self.measure.bounds
        return published(np.clip(self.measure.middle + self.measure.half * ratios + off, first, last))

    def _population(self, interval: Ends[FloatArray]) -> Ends[FloatArray] | None:
        """The mean of the population, where the variance is known and rows are many."""
        if "square" not in self.terms:
            return None
        place, rows = self.terms["value"], np.maximum(self.of.rows, 2.0)
        of_sums = self._variances * rows**2 / (rows - 1) * self.effect
        law, noise = self.of.copies.along(self.of.axis(place)), SeededNoise(self.seed)
        lower, upper = population_means(self.of.centred[place], self.of.rows, of_sums, law, self.level, noise)
        many = self.strong & (self.of.rows >= FROM_ROWS)
        off = self.measure.off
        ends = self._as_values(lower, -off), self._as_values(upper, off)
        return Ends(
            np.where(many, np.minimum(ends[0], interval.lower), np.nan),
            np.where(many, np.maximum(ends[1], interval.upper), np.nan),
        )

    def _variance(self) -> Numbers:
        return Figure(
            value=self._shown(published(self.measure.half**2 * self._variances)),
            interval=Ends(*(published(ends**2) for ends in self._sd_ends)),
        )

    def _sd(self) -> Numbers:
        return Figure(
            value=self._shown(published(self.measure.half * np.sqrt(self._variances))),
            interval=Ends(*map(published, self._sd_ends)),
        )

    @cached_property
    def _variances(self) -> FloatArray:
        """Variances of a, at most what values in [-1, 1] of this mean can have."""
        means, squares = self._ratios("value"), (self._ratios("square") + 1) / 2
        return np.clip(squares - means**2, 0.0, 1 - means**2)

    @cached_property
    def _sd_ends(self) -> Ends[FloatArray]:
        """The ends of intervals of standard deviations, which rounding moves by no more than it moves a value."""
        rows, value, square = self.of.axis(-1), self.of.axis(self.terms["value"]), self.of.axis(self.terms["square"])

        def twice_squares(means: FloatArray) -> FloatArray:
            """Of ``2 (a - mean)^2 - 1``."""
            return 2 * means[:, None] ** 2 * rows - 4 * means[:, None] * value + square

        lower, upper = plugged_intervals(
            self.of.numbers,
            self._ratios("value"),
            twice_squares,
            lambda means: np.broadcast_to(rows, (means.size, rows.size)),
            self.of.copies,
            self.level,
        )
        return self._rooted(lower, upper)

    def _rooted(self, lower: FloatArray, upper: FloatArray) -> Ends[FloatArray]:
        """The roots of ends of mean squares, which are scaled to [-1, 1], in units of the measure."""
        measure = self.measure
        squares = (measure.half**2 * (ends + 1) / 2 for ends in (lower, upper))
        low, high = (next(squares) - measure.square_off, next(squares) + measure.square_off)
        return Ends(
            np.maximum(np.sqrt(np.maximum(low, 0.0)) - measure.off, 0.0),
            np.minimum(np.sqrt(high) + measure.off, measure.half),
        )

    def _ratios(self, power: Power) -> FloatArray:
        """Released means of numbers in [-1, 1]."""
        ratios: FloatArray = np.clip(self.of.centred[self.terms[power]] / np.maximum(self.of.rows, 1.0), -1.0, 1.0)
        return ratios

    def _ratio_intervals(self, power: Power) -> Ends[FloatArray]:
        term = self.terms[power]
        return ratio_intervals(self.of.centred[term], self.of.rows, self.of.law(term), self.level)

    def _shown(self, values: FloatArray) -> FloatArray:
        return np.where(self.strong, values, np.nan)


def published(values: FloatArray) -> FloatArray:
    """``values`` to ``DIGITS`` significant digits, without negative zeros."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    scale = 10.0 ** np.clip(np.where(np.isfinite(place), place, 0.0), -300, 300)
    rounded: FloatArray = np.where(np.isfinite(scale), np.rint(values * scale) / scale, values)
    return rounded + 0.0
