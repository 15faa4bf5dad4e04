"""The figures of one measure in every cell of a table, with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.figure import Ends, Figure, Numbers
from spark_jobs.contract.options import Measured
from spark_jobs.contract.options.measures import COVERAGE, PINBALL, Power, figure_kind, figure_level
from spark_jobs.diagnostics.aggregates.estimates import CellEstimates
from spark_jobs.diagnostics.aggregates.plugged import plugged_intervals
from spark_jobs.diagnostics.aggregates.population import FROM_ROWS, population_means
from spark_jobs.diagnostics.aggregates.r_squared import MeasureSums, r_squared
from spark_jobs.diagnostics.aggregates.ratios import ratio_intervals
from spark_jobs.diagnostics.aggregates.rounding import published
from spark_jobs.mechanisms.noise import SeededNoise


class _Range(NamedTuple):
    """What means of numbers in [-1, 1] stand for.

    Attributes:
        bounds: of the figure.
        middle, half: the figure at 0, and its change from there to 1.
        off: how far rounding may have moved it.
    """

    bounds: tuple[float, float]
    middle: float
    half: float
    off: float

    def of(self, means: FloatArray, off: float = 0.0) -> FloatArray:
        """The figures of these means, moved by ``off``."""
        return published(np.clip(self.middle + self.half * means + off, *self.bounds))


def _inside(figure: Numbers) -> Numbers:
    """The figure, moved to the nearer end of its interval where it lies outside.

    A ratio of less than one noisy row is computed as that of one row, but its interval is that of the noisy rows. At a
    large epsilon a cell of so few may be ``ok``.
    """
    lower, upper = figure.ends()
    value = np.where(figure.value < lower, lower, np.where(figure.value > upper, upper, figure.value))
    return replace(figure, value=value)


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredCells:
    """One measure in the cells of a table, and what its figures are computed from.

    Attributes:
        of: the noisy numbers of the cells.
        measure: the measure.
        terms: for each power of the value, the place of its sum among the design's terms.
        level: nominal level of intervals.
        strong: the cells whose figures are shown.
        effect: the design effect of the sampling of rows.
        seed: seed of the simulations of sampling.
        outcome: for a measure of prediction errors, the measure of the outcome itself, if the table has it; else None.
    """

    of: CellEstimates
    measure: Measured
    terms: Mapping[Power, int]
    level: float
    strong: BoolArray
    effect: float
    seed: int
    outcome: MeasuredCells | None = None

    def figure(self, name: str) -> Numbers:
        """The figure of this name, such as ``mean``, in each cell."""
        figures: Mapping[str, Callable[[], Numbers]] = {
            "mean": self._mean,
            "sum": self._sum,
            "variance": self._variance,
            "sd": self._sd,
            "units": self._units,
            "mae": self._mean_size,
            "rmse": self._root_mean_square,
            "bias": self._mean,
            "r2": self._r_squared,
            PINBALL: lambda: self._pinball_loss(figure_level(name)),
            COVERAGE: self._mean,
        }
        return _inside(figures[figure_kind(name)]())

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
        measure = self.measure
        return self._mean_of("value", _Range(measure.bounds, measure.middle, measure.half, measure.off))

    def _mean_size(self) -> Numbers:
        """The mean of the sizes of errors."""
        half = self.measure.half
        return self._mean_of("size", _Range((0.0, half), half / 2, half / 2, self.measure.off))

    def _mean_of(self, power: Power, shown: _Range) -> Numbers:
        lower, upper = self._ratio_intervals(power)
        interval = Ends(shown.of(lower, -shown.off), shown.of(upper, shown.off))
        return Figure(
            value=self._shown(shown.of(self._ratios(power))),
            interval=interval,
            population=self._population(power, shown, interval),
        )

    def _population(self, power: Power, shown: _Range, interval: Ends[FloatArray]) -> Ends[FloatArray] | None:
        """The mean of the population, where the variance is known and rows are many."""
        if "square" not in self.terms:
            return None
        place, rows = self.terms[power], np.maximum(self.of.rows, 2.0)
        of_sums = self._variances(power) * rows**2 / (rows - 1) * self.effect
        law, noise = self.of.copies.along(self.of.axis(place)), SeededNoise(self.seed)
        lower, upper = population_means(self.of.centred[place], self.of.rows, of_sums, law, self.level, noise)
        many = self.strong & (self.of.rows >= FROM_ROWS)
        ends = shown.of(lower, -shown.off), shown.of(upper, shown.off)
        return Ends(
            np.where(many, np.minimum(ends[0], interval.lower), np.nan),
            np.where(many, np.maximum(ends[1], interval.upper), np.nan),
        )

    def _pinball_loss(self, level: float) -> Numbers:
        """The mean of ``|e| / 2 + (level - 1/2) e``, from 0 to the larger of level and 1 - level times the bound."""
        largest = max(level, 1 - level)
        scaled = (2 * level - 1) * self.of.axis(self.terms["value"]) + self.of.axis(self.terms["size"]) / 2
        weights = (scaled + self.of.axis(-1) / 2) / largest - self.of.axis(-1)
        sums = weights @ self.of.numbers
        lower, upper = ratio_intervals(sums, self.of.rows, self.of.copies.along(weights), self.level)
        reach = largest * self.measure.half
        shown = _Range((0.0, reach), reach / 2, reach / 2, largest * self.measure.off)
        means = np.clip(sums / np.maximum(self.of.rows, 1.0), -1.0, 1.0)
        return Figure(
            value=self._shown(shown.of(means)), interval=Ends(shown.of(lower, -shown.off), shown.of(upper, shown.off))
        )

    def _root_mean_square(self) -> Numbers:
        ends = self._rooted(*self._ratio_intervals("square"))
        squares = (self._ratios("square") + 1) / 2
        return Figure(
            value=self._shown(published(self.measure.half * np.sqrt(squares))), interval=Ends(*map(published, ends))
        )

    def _r_squared(self) -> Numbers:
        if self.outcome is None:
            raise TypeError("errors without an outcome have no R-squared")
        errors, outcome = (MeasureSums(one.measure, one.terms) for one in (self, self.outcome))
        numbers = r_squared(self.of, errors, outcome, self.level)
        return Figure(value=self._shown(numbers.value), interval=numbers.interval)

    def _variance(self) -> Numbers:
        return Figure(
            value=self._shown(published(self.measure.half**2 * self._variances("value"))),
            interval=Ends(*(published(ends**2) for ends in self._sd_ends)),
        )

    def _sd(self) -> Numbers:
        return Figure(
            value=self._shown(published(self.measure.half * np.sqrt(self._variances("value")))),
            interval=Ends(*map(published, self._sd_ends)),
        )

    def _variances(self, power: Power) -> FloatArray:
        """Variances of a, or of ``2 |a| - 1``, at most what numbers in [-1, 1] of this mean can have."""
        means, squares = self._ratios(power), (self._ratios("square") + 1) / 2
        # of a size, whose square is that of its value: (2 |a| - 1)^2 = 4 a^2 - 2 (2 |a| - 1) - 1
        squares = 4 * squares - 2 * means - 1 if power == "size" else squares
        return np.clip(squares - means**2, 0.0, 1 - means**2)

    @cached_property
    def _sd_ends(self) -> Ends[FloatArray]:
        """The ends of intervals of standard deviations, which rounding moves by no more than it moves a value."""
        rows, value, square = self.of.axis(-1), self.of.axis(self.terms["value"]), self.of.axis(self.terms["square"])

        def twice_squares(means: FloatArray) -> FloatArray:
            """The sums of ``2 (a - mean)^2 - 1``."""
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
