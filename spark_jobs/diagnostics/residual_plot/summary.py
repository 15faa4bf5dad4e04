"""The summary of a draw as a released residual plot; deterministic post-processing, at no cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.figure import DECIMALS, Ends, Figure, Numbers
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, UNDEFINED
from spark_jobs.contract.grids import EARLIEST_ROUNDING
from spark_jobs.contract.results.lines import ResidualPlot
from spark_jobs.diagnostics._simulation import rounded, solved_interval, widest_interval
from spark_jobs.diagnostics.residual_plot.columns import (
    in_whole_rows,
    means,
    on_the_simplex,
    pool_starts,
    quantiles,
    spread_ends,
    spreads,
)
from spark_jobs.diagnostics.residual_plot.copies import Offsets, cell_variance, copies_of, noisy_copies, offsets_of
from spark_jobs.diagnostics.residual_plot.effects import MAX_COPIES, effect_fields, effect_sizes
from spark_jobs.diagnostics.residual_plot.lack_of_fit import (
    CURVATURE,
    LINE,
    NOTHING,
    SHIFT,
    VARIANCE,
    LackOfFit,
    lack_of_fit_tests,
)
from spark_jobs.diagnostics.residual_plot.measurement import ResidualDraw
from spark_jobs.diagnostics.residual_plot.offsets import hidden_in_cells
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.noise import SeededNoise, laplace_scale, laplace_variance

MAX_POINTS = 5000
"""Largest number of points of the scatter."""
QQ_SCORES = np.linspace(-2.0, 2.0, 33)
"""Quantiles of the standard normal distribution at which the Q-Q plot is evaluated."""
LEVELS = ndtr(QQ_SCORES)
_QUARTILE_SCORE = 0.6744897501960817
_NEAR = 1e-9
"""The part of a cell within which an end is taken to lie at the nearest edge."""


def summarise(measurement: ResidualDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> ResidualPlot:
    """The residual plot of a draw; the same draw and seed give the same result.

    Args:
        measurement: the draw.
        seed: public seed of the scatter, and of the simulations for intervals and p-values.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    noise, effect = SeededNoise(seed), sampling.effect().value
    rows, stddev = _rows(measurement)
    defined = rows >= max(1.0, DEFINED_ABOVE * stddev)
    total = round(max(rows, 0.0))
    framed = in_whole_rows(on_the_simplex(measurement.cells, float(total)), total)
    counts = framed[1:-1, 1:-1]
    points = scatter(framed, measurement, noise)
    pools = pools_of(measurement)
    errors = noisy_copies(measurement, framed.astype(np.float64), noise, sampled=False) - framed
    offsets = offsets_of(measurement, pools[0], SeededNoise(seed + 2), copies=len(errors))
    trend, spread, qq = _figures(measurement, errors, offsets, defined=defined)
    tests = lack_of_fit_tests(measurement, noise, effect=effect) if defined else NOTHING
    error_rate = round(1 - measurement.confidence, DECIMALS)
    findings = tests.findings(error_rate)
    unit, box = measurement.unit, measurement.box
    lower, upper = (_line(qq, end) for end in (0, -1))
    return ResidualPlot(
        fitted_edges=box.fitted * unit,
        residual_edges=box.residual * unit,
        fitted_lower=float(box.fitted[0] * unit),
        fitted_upper=float(box.fitted[-1] * unit),
        residual_bound=float(box.residual[-1] * unit),
        bins=box.bins,
        counts=counts,
        counts_left=framed[0, 1:-1],
        counts_right=framed[-1, 1:-1],
        counts_below=framed[:, 0],
        counts_above=framed[:, -1],
        points_fitted=points[0],
        points_residual=points[1],
        overflow=float(total - counts.sum()),
        trend_fitted=(box.fitted[1:] + box.fitted[:-1]) / 2 * unit,
        column_rows=np.round(_pooled(measurement.cells, pools[0]).sum(axis=-1).clip(0.0), 3)[pools[1]],
        trend=trend,
        spread=spread,
        qq_theoretical=QQ_SCORES,
        qq_residual=qq,
        qq_line=np.linspace(lower, upper, QQ_SCORES.size),
        **_effects(measurement, framed, errors[:MAX_COPIES], offsets, SeededNoise(seed + 1), effect),
        line_p_value=tests.p_values["line"],
        curvature_p_value=tests.p_values["curvature"],
        variance_p_value=tests.p_values["variance"],
        shift_p_value=tests.p_values["shift"],
        p_value=tests.either,
        p_value_floor=1 / (copies_of(measurement) + 1),
        verdict=verdict(tests, findings, error_rate=error_rate, defined=defined),
        findings=findings,
        error_rate=error_rate,
        rows=round(max(rows, 0.0), 3),
        status=OK if defined else UNDEFINED,
        method=measurement.method,
        confidence=measurement.confidence,
        **measurement.stated,
    )


def _rows(measurement: ResidualDraw) -> tuple[float, float]:
    """The number of rows, combined from the noisy size and the sum of the cells, and its standard deviation."""
    of_size = laplace_variance(laplace_scale(measurement.spendings[0].epsilon, 1))
    of_cells = cell_variance(measurement) * measurement.cells.size
    weight = of_cells / (of_size + of_cells) if of_size + of_cells > 0 else 0.0
    rows = weight * measurement.rows + (1 - weight) * float(measurement.cells.sum())
    return rows, float(np.sqrt(weight**2 * of_size + (1 - weight) ** 2 * of_cells))


def scatter(framed: Int64Array, measurement: ResidualDraw, noise: SeededNoise) -> tuple[FloatArray, FloatArray]:
    """A synthetic scatter of up to ``MAX_POINTS`` points, each uniform within its cell: fitted values and residuals.

    The scatter includes the rows beyond the box, in a frame of cells of the same width. Without them, it would be cut
    off at a place that differs from release to release, which distorts its shape more than the noise does.

    Args:
        framed: whole numbers of rows in the cells and in the frame around them, shape (bins + 2, bins + 2).
        measurement: the draw, for its box and unit.
        noise: sampler with a public seed.
    """
    box, unit = measurement.box, measurement.unit
    shown = framed if framed.sum() <= MAX_POINTS else in_whole_rows(framed.astype(np.float64), MAX_POINTS)
    place = np.repeat(np.indices(framed.shape).reshape(2, -1), shown.reshape(-1), axis=1)
    within = (noise.words(2 * place.shape[1]) >> np.uint64(11)).reshape(place.shape) / 2.0**53
    fitted, residual = (
        (edges[0] + (cells - 1 + part) * (edges[1] - edges[0])) * unit
        for edges, cells, part in zip((box.fitted, box.residual), place, within, strict=True)
    )
    return fitted, residual


def _figures(
    measurement: ResidualDraw, errors: FloatArray, offsets: Offsets, *, defined: bool
) -> tuple[Numbers, Numbers, Numbers]:
    """Trend, spread and quantiles with their intervals, in units of the outcome; ``errors`` are copies of the noise."""
    cells, box, unit = measurement.cells, measurement.box, measurement.unit
    starts, of_column = pools_of(measurement)
    edges, bound = box.residual, float(box.residual[-1])

    def shown(figure: FloatArray, ends: tuple[FloatArray, FloatArray], *, smallest: float) -> Numbers:
        if not defined:
            figure = np.zeros_like(figure)
            ends = np.full_like(figure, smallest), np.full_like(figure, bound)
        lower, upper = (np.clip(end, smallest, bound) for end in ends)
        return Figure(value=figure, interval=Ends(lower, upper)).mapped(
            lambda line: _rounded_to_box(line, bound) * unit
        )

    columns, again = _pooled(cells, starts), _pooled(cells - errors, starts)
    trend = shown(
        means(columns, edges, offsets.released)[of_column],
        _ends_of_means(measurement, columns, again, offsets, of_column),
        smallest=-bound,
    )
    spread = shown(
        spreads(columns, edges)[of_column], _ends_of_spreads(measurement, columns, again, of_column), smallest=0.0
    )
    middle = quantiles(cells.sum(axis=0), LEVELS, edges)
    of_noise = quantiles((cells - errors).sum(axis=1), LEVELS, edges)
    ends = _to_edges(*solved_interval(middle, of_noise, measurement.confidence), cell=width_of_cells(measurement))
    return trend, spread, _rising(shown(middle, ends, smallest=-bound))


def _ends_of_means(
    measurement: ResidualDraw, columns: FloatArray, again: FloatArray, offsets: Offsets, of_column: Int64Array
) -> tuple[FloatArray, FloatArray]:
    """Each end is that of the mean with all residuals at this end of where they may lie.

    In draws without sums that is half a cell of the box.
    """
    edges, known = measurement.box.residual, measurement.offsets is not None
    hidden = hidden_in_cells(measurement.box) if known else np.zeros(columns.shape[-1])
    off = 0.0 if known else width_of_cells(measurement) / 2
    ends = [
        solved_interval(
            means(columns, edges, offsets.released + side * columns @ hidden)[of_column],
            means(again, edges, offsets.copies + side * again @ hidden)[:, of_column],
            measurement.confidence,
        )
        for side in (-1, 1)
    ]
    return ends[0][0] - off, ends[1][1] + off


def _ends_of_spreads(
    measurement: ResidualDraw, columns: FloatArray, again: FloatArray, of_column: Int64Array
) -> tuple[FloatArray, FloatArray]:
    """Each end is that of the spread with both quantiles at edges of their cells; without sums it is a cell away."""
    edges = measurement.box.residual
    if measurement.offsets is None:
        value, copies = spreads(columns, edges)[of_column], spreads(again, edges)[:, of_column]
        lower, upper = widest_interval(value, copies, measurement.confidence)
        return lower - width_of_cells(measurement), upper + width_of_cells(measurement)
    ends = [
        widest_interval(one[of_column], copies[:, of_column], measurement.confidence)
        for one, copies in zip(spread_ends(columns, edges), spread_ends(again, edges), strict=True)
    ]
    return ends[0][0], ends[1][1]


def width_of_cells(measurement: ResidualDraw) -> float:
    """The width of a cell of residuals, in units; 0 under the earliest rounding rule, whose intervals ignore it.

    A residual counts as the middle of its cell, so that a mean is off by half a cell at most. A quantile lies anywhere
    in its cell, and half the distance of two quantiles is off by a cell at most.
    """
    return 0.0 if measurement.rounding == EARLIEST_ROUNDING else float(np.diff(measurement.box.residual[:2])[0])


def _to_edges(lower: FloatArray, upper: FloatArray, *, cell: float) -> tuple[FloatArray, FloatArray]:
    """The outer edges of the cells in which the ends lie; at an edge, of the cell beyond it."""
    if not cell:
        return lower, upper
    return (np.ceil(lower / cell - _NEAR) - 1) * cell, (np.floor(upper / cell + _NEAR) + 1) * cell


def _effects(
    measurement: ResidualDraw,
    framed: Int64Array,
    errors: FloatArray,
    offsets: Offsets,
    noise: SeededNoise,
    effect: float,
) -> dict[str, Any]:
    """The effect sizes with their intervals; the noise that samples rows is no part of the other simulations."""
    cells, box = measurement.cells, measurement.box
    starts, _ = pools_of(measurement)
    rows = _pooled(cells, starts).sum(axis=-1)
    middles = (box.fitted[1:] + box.fitted[:-1]) / 2
    own = np.maximum(cells[1:-1].sum(axis=1), 1e-9)
    at = np.add.reduceat(own * middles, starts) / np.add.reduceat(own, starts)
    sampled = effect * noise.poissons(framed / effect, copies=len(errors)) - framed
    copies = effect_sizes(
        _pooled(cells - errors - sampled, starts), at, rows, box.residual, offsets.copies[: len(errors)]
    )
    sizes = effect_sizes(_pooled(cells, starts), at, rows, box.residual, offsets.released)
    return effect_fields(sizes, copies, unit=measurement.unit, confidence=measurement.confidence)


def _rising(qq: Numbers) -> Numbers:
    """``qq`` with the ends of its intervals moved outwards until they are monotone, as quantiles are."""
    lower = np.minimum.accumulate(qq.lower[::-1])[::-1]
    return replace(qq, interval=Ends(lower, np.maximum.accumulate(qq.upper)))


def pools_of(measurement: ResidualDraw) -> tuple[Int64Array, Int64Array]:
    """Starts of the pools of columns whose rows exceed the noise, and the pool of each column."""
    cells = measurement.cells
    stddev = float(np.sqrt(cell_variance(measurement) * cells.shape[1]))
    starts = pool_starts(cells[1:-1].sum(axis=1), max(1.0, DEFINED_ABOVE * stddev))
    return starts, np.searchsorted(starts, np.arange(measurement.box.bins), side="right") - 1


def _pooled(cells: FloatArray, starts: Int64Array) -> FloatArray:
    """Sums over the columns of each pool, cells beyond the box included; shape (..., pools, cells of a column)."""
    pooled: FloatArray = np.add.reduceat(cells[..., 1:-1, :], starts, axis=-2)
    return pooled


def _line(qq: Numbers, end: int) -> float:
    """The line through the quartiles of the Q-Q plot, at one of its ends."""
    first, third = (float(np.interp(score, QQ_SCORES, qq.value)) for score in (-_QUARTILE_SCORE, _QUARTILE_SCORE))
    return (first + third) / 2 + (third - first) / (2 * _QUARTILE_SCORE) * float(QQ_SCORES[end])


def _rounded_to_box(values: FloatArray, bound: float) -> FloatArray:
    """``values`` as they are published: rounded relative to the box."""
    return rounded(values / bound) * bound


_VERDICTS = {
    (LINE, 1): "residuals rise along the fitted values (the slope of the model is wrong)",
    (LINE, -1): "residuals fall along the fitted values (the slope of the model is wrong)",
    (CURVATURE, 1): "the mean residual is higher at both ends than in the middle (curvature)",
    (CURVATURE, -1): "the mean residual is lower at both ends than in the middle (curvature)",
    (VARIANCE, 1): "the spread of the residuals grows with the fitted values (unequal variance)",
    (VARIANCE, -1): "the spread of the residuals shrinks as the fitted values grow (unequal variance)",
    (SHIFT, 1): "residuals are above 0 on average (the model predicts too little)",
    (SHIFT, -1): "residuals are below 0 on average (the model predicts too much)",
}


def verdict(tests: LackOfFit, findings: tuple[str, ...], *, error_rate: float, defined: bool) -> str:
    """The findings and their error rate, in one or two sentences."""
    if not defined:
        return "Too few rows for this noise: the model cannot be tested."
    rate = f"The tests reject at most {100 * error_rate:.4g} in 100 correct models."
    if not findings:
        return f"No shift, slope, curvature or change of spread was found, but there may be one. {rate}"
    words = "; ".join(_VERDICTS[name, tests.signs[name] or 1] for name in findings)
    return f"{words[0].upper()}{words[1:]}. {rate}"
