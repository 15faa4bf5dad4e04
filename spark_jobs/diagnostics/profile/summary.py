"""A released profile, computed from a draw; deterministic, and without further noise.

Shares and means are ratios of sums of noisy counts. Their intervals are by inversion (``aggregates.ratios``): for the
true ratio, the released numerator less the ratio times the released denominator is noise alone, whose public law is
given by simulated copies. These intervals hold for tables of any size.

A quantile lies in the cell in which the cumulative count passes the quantile's share of the rows. The interval of a
quantile contains every cell that may be this cell, given the noise: the cumulative count may be below the share before
the cell, and at or above it at the cell's end. If a cell holds several values, figures are given for its middle, and
intervals extend to its ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.results.profile import ColumnProfile, PairProfile, Profile
from spark_jobs.diagnostics._simulation import normal
from spark_jobs.diagnostics.aggregates.ratios import kept_ratios
from spark_jobs.diagnostics.aggregates.rounding import published
from spark_jobs.diagnostics.profile.measurement import NoisyProfileCells, ProfileDraw
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance

COPIES, PLACES, DRAWN = 4000, 101, 16
"""Copies of the noise, ratios at which their quantiles are taken, and the cells whose sum is close to normal."""
OK_FROM_STDDEVS = 4.0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cells:
    """The noisy counts of a column's cells, and copies of noise like theirs.

    Attributes:
        table: the counts.
        level: of intervals.
        noise: source of the copies.
    """

    table: NoisyProfileCells
    level: float
    noise: SeededNoise

    @property
    def counts(self) -> FloatArray:
        return self.table.counts.astype(np.float64)

    def reach(self) -> int:
        """The least whole number that the noise of a count exceeds with probability at most 1 - level."""
        ratio = np.exp(-1 / self.table.scale)
        tail = (1 - self.level) * (1 + ratio) / 2
        return max(int(np.ceil(-self.table.scale * np.log(tail))) - 1, 0)

    def stddev(self, cells: int = 1) -> float:
        """The standard deviation of the noise in the sum of so many cells."""
        return float(np.sqrt(cells * laplace_variance(self.table.scale)))

    def sums_of_noise(self, cells: int) -> FloatArray:
        """Copies of the noise in the sum of so many cells; shape (copies,)."""
        if cells > DRAWN:
            return normal(self.noise, (COPIES,)) * self.stddev(cells)
        drawn: FloatArray = self.noise.two_sided((COPIES, cells), scale=self.table.scale).sum(axis=1).astype(np.float64)
        return drawn

    def ratios(self, sums: FloatArray, rows: float, of_sum: FloatArray, of_rows: FloatArray) -> Ends[FloatArray]:
        """The intervals of ``sums / rows`` within [-1, 1], by copies of the noise in both; all sums have one law."""
        places = np.linspace(-1.0, 1.0, PLACES)
        apart = np.abs(of_sum - places[:, None] * of_rows)
        within = np.quantile(apart, self.level, axis=1, method="higher")
        return Ends(*kept_ratios(sums, np.full(sums.shape, rows), places, within))

    def shares(self, parts: FloatArray, cells: int, *, strong: bool) -> Figure[FloatArray]:
        """The shares of all rows in ``parts``, each the sum of so many cells."""
        of_part, of_rest = self.sums_of_noise(cells), self.sums_of_noise(self.counts.size - cells)
        rows = float(self.counts.sum())
        low, high = self.ratios(2 * parts - rows, rows, of_part - of_rest, of_part + of_rest)
        return _figure(parts / max(rows, 1.0), Ends((low + 1) / 2, (high + 1) / 2), (0.0, 1.0), strong=strong)


def summarise(draw: ProfileDraw, *, seed: int) -> Profile:
    """The profile of a draw; the same draw and seed give the same profile."""
    noise = SeededNoise(seed)
    cells = [_Cells(table=one, level=draw.confidence, noise=noise) for one in draw.tables]
    alone = [one for one in cells if len(one.table.design.columns) == 1]
    columns = tuple(_column(one, draw.quantiles) for one in alone)
    return Profile(
        status=tuple(one.status for one in columns),
        rows=_rows(alone, draw.confidence),
        columns=columns,
        pairs=tuple(_pair(one) for one in cells if len(one.table.design.columns) == 2),
        confidence=draw.confidence,
        **draw.stated,
    )


def _rows(cells: list[_Cells], level: float) -> Figure[float]:
    """The number of all rows: the mean of every column's, by the inverse of its variance."""
    weights = np.array([1 / one.stddev(one.counts.size) ** 2 if one.stddev() > 0 else 1e300 for one in cells])
    weights /= weights.max()
    weights /= weights.sum()
    value = float(sum(weight * one.counts.sum() for weight, one in zip(weights, cells, strict=True)))
    errors = sum(weight * one.sums_of_noise(one.counts.size) for weight, one in zip(weights, cells, strict=True))
    within = float(np.quantile(np.abs(errors), level, method="higher"))
    value, low, high = published(np.array([value, max(value - within, min(value, 0.0)), max(value + within, 0.0)]))
    return Figure(value=float(value), interval=Ends(float(low), float(high)))


def _column(cells: _Cells, levels: tuple[float, ...]) -> ColumnProfile:
    (column,), counts = cells.table.design.columns, cells.counts
    others = len(column.outside)
    within, outside = counts[:-others], counts[-others:-2]
    enough = OK_FROM_STDDEVS * cells.stddev(counts.size - 2)
    strong = bool(counts[:-2].sum() >= max(enough, 1.0))
    reach = cells.reach()
    low, high = np.minimum(np.maximum(within - reach, 0.0), within), np.maximum(within + reach, 0.0)
    shares = cells.shares(np.concatenate([within, counts[-2:]]), 1, strong=strong)
    nothing = Figure(value=np.zeros(0), interval=Ends(np.zeros(0), np.zeros(0)))
    numbers: dict[str, Any] = {"mean": Figure(value=None), "levels": (), "quantiles": nothing}
    if column.bounds is not None:
        numbers = _numbers(cells, levels, strong=strong)
    return ColumnProfile(
        column=column.column,
        form="values" if column.values is not None else "periods" if column.bounds is None else "numbers",
        status=OK if strong else WEAK,
        cells=column.labels(cells.table.design.bins),
        count=Figure(value=published(within), interval=Ends(published(low), published(high))),
        shares=shares.at(np.s_[:-2]),
        missing=_single(shares, -2),
        unparsed=_single(shares, -1),
        outside=_single(cells.shares(outside.sum()[None], outside.size, strong=strong), 0),
        **numbers,
    )


def _numbers(cells: _Cells, levels: tuple[float, ...], *, strong: bool) -> dict[str, Any]:
    """The mean and the quantiles of a column of numbers; its cells in ascending order, from those below the bounds."""
    (column,) = cells.table.design.columns
    (lower, upper), inner = column.bounds or (0.0, 1.0), cells.counts[:-4]
    counts = np.concatenate([cells.counts[-4:-3], inner, cells.counts[-3:-2]])
    ends = np.array([(lower, lower), *column.ends(cells.table.design.bins), (upper, upper)])
    noise = cells.noise.two_sided((COPIES, counts.size), scale=cells.table.scale).astype(np.float64)
    rows, of_rows = float(counts.sum()), noise.sum(axis=1)
    centred = (2 * ends - (lower + upper)) / (upper - lower)  # [-1, 1]
    low, high = (
        cells.ratios((counts @ end)[None], rows, noise @ end, of_rows)[place] for place, end in enumerate(centred.T)
    )
    middle = float(counts @ centred.mean(axis=1)) / max(rows, 1.0)
    mean, *bounds = (lower + (one + 1) * (upper - lower) / 2 for one in (np.array([middle]), low, high))
    of_mean = _figure(mean, Ends(*bounds), (lower, upper), strong=strong)
    below, of_below = np.cumsum(counts), np.cumsum(noise, axis=1)
    kept = [_cells_of_quantile(below, of_below, level, cells.level) for level in levels]
    first, point, last = np.array(kept, dtype=np.int64).reshape(-1, 3).T
    quantiles = _figure(
        ends.mean(axis=1)[point], Ends(ends[first, 0], ends[last, 1]), (lower, upper), strong=strong
    )  # fmt: skip
    return {"mean": _single(of_mean, 0), "levels": levels, "quantiles": quantiles}


def _cells_of_quantile(
    below: FloatArray, of_below: FloatArray, level: float, confidence: float
) -> tuple[int, int, int]:
    """The first cell that is kept for a quantile, the most likely one, and the last that is kept.

    The true cell is the first at whose end the rows at or below are at least the level's share of all. Their excess at
    that end and at the end of the cell before are each on the wrong side of zero by more than the quantile of the noise
    with a chance of half of what the confidence leaves.
    """
    excess = below - level * below[-1]
    within = np.quantile(np.abs(of_below - level * of_below[:, -1:]), confidence, axis=0, method="higher")
    slack = 1e-9 * max(abs(float(below[-1])), 1.0)  # of products of levels, which are not exact
    last_cell = below.size - 1
    within[-1] = np.inf  # all rows lie at or below the last end
    passed, before = excess + within >= -slack, excess - within < -slack
    first = int(np.argmax(passed))
    last = int(np.flatnonzero(before[:-1])[-1]) + 1 if before[:-1].any() else 0
    reached = np.flatnonzero(excess[:-1] >= -slack)
    lacking = np.flatnonzero(excess[:-1] < -slack)
    point = (int(reached[0] if reached.size else last_cell) + int(lacking[-1] + 1 if lacking.size else 0)) // 2
    first, last = min(first, last), max(first, last)
    return first, min(max(point, first), last), last


def _pair(cells: _Cells) -> PairProfile:
    one, other = cells.table.design.columns
    reach, counts = cells.reach(), cells.counts
    first, second = cells.table.design.keys
    low, high = np.minimum(np.maximum(counts - reach, 0.0), counts), np.maximum(counts + reach, 0.0)
    return PairProfile(
        columns=(one.column, other.column),
        keys=(first, second),
        ok_from=float(published(np.array([OK_FROM_STDDEVS * cells.stddev()]))[0]),
        count=Figure(value=published(counts), interval=Ends(published(low), published(high))),
    )


def _figure(
    values: FloatArray, ends: Ends[FloatArray], limits: tuple[float, float], *, strong: bool
) -> Figure[FloatArray]:
    """Values within limits and in their intervals; NaN where the noise may be all that is there."""
    shown = published(np.clip(values, *limits))
    if not strong:
        return Figure(value=np.full(shown.shape, np.nan), interval=Ends(*map(published, ends)))
    low, high = published(np.minimum(ends.lower, shown)), published(np.maximum(ends.upper, shown))
    return Figure(value=shown, interval=Ends(low, high))


def _single(figures: Figure[FloatArray], place: int) -> Figure[Any]:
    """One of several figures, as a single number."""
    value, (low, high) = float(figures.value[place]), (float(end[place]) for end in figures.ends())
    return Figure(value=None if np.isnan(value) else value, interval=Ends(low, high))
