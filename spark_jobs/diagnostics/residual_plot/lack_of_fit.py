"""Tests of a linear model from noisy counts: is the line off or shifted, is it curved, does the variance change.

For every column of the framed grid, the mean of a function of the residual is formed: of the residual, and of its
square. Over the columns these means are fitted by ``1``, ``t`` and ``P(t)``: ``t`` is the column's middle, ``P(t)`` the
square of t less its regression on 1 and t. Three coefficients are tested against 0:

* the residual on t: the mean residual rises or falls along the fitted values (the line is off);
* the residual on P(t): the mean residual bends (curvature; what Ramsey's RESET looks for);
* the square on t: the spread rises or falls (unequal variance; what Breusch and Pagan look for).

The fit weights a column by its rows, less where the noise of privacy weighs more. The standard errors are robust: each
column has a variance of its own, taken from its counts (of rows, as if each cell were an independent Poisson count, and
of noise). So each test allows for what the others look for, and residuals need not be normal. Residuals whose cells are
drowned by noise count for little: a function's value is multiplied by the part of a cell's variance that comes from
rows, over all columns.

A fourth test asks whether the mean of all residuals is off 0 (a shift). A cell's rows count at its middle, those beyond
the box at its edge, so that the mean of counts is not the rows' own: the mean of a skewed law, cut off, is not 0. So
the test asks whether the mean is further off 0 than that explains, ``b`` being the box's bound: rows beyond it on one
side, which may lie on average ``FURTHER b`` beyond it, and an eighth of a cell's width times the part of the largest
cell (what grouping moves the mean of a law with one mode by, at most). Above 0 is a mean that is so with all rows below
the box that far out, below 0 one that is so with all rows above it.

The law of each ratio where the model holds is simulated: rows are drawn again as if fitted values and residuals were
independent with the released margins, and noise is drawn again on top. That of the shift is moved to where the mean
is as far off 0 as may be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._score_groups.pools import either_p_value
from spark_jobs.diagnostics.residual_plot.columns import heights
from spark_jobs.diagnostics.residual_plot.copies import cell_variance, noisy_copies
from spark_jobs.diagnostics.residual_plot.measurement import ResidualDraw
from spark_jobs.mechanisms.noise import SeededNoise

LINE, CURVATURE, VARIANCE, SHIFT = "line", "curvature", "variance", "shift"
TESTS = (LINE, CURVATURE, VARIANCE, SHIFT)
FURTHER = 1.5
"""Of the bound of residuals: how far beyond it the rows there may lie, on average, where the model holds."""
MAX_BINS = 32
"""Finer grids are read in blocks of cells."""
_MIN_ROWS = 0.5
"""Rows that a margin has at least, to divide by."""
_PRIOR_ROWS = 2.0
"""Rows of the overall variance that every column gets on top of its own: one that has few knows little of its own."""


@dataclass(frozen=True, kw_only=True)
class LackOfFit:
    """What the tests say.

    Attributes:
        p_values: of each test, by its name.
        signs: of each test's coefficient: 1 where the residuals or their spread rise, bend upwards or lie above 0; -1
            where not.
        either: p-value of all tests together.
    """

    p_values: dict[str, float]
    signs: dict[str, int]
    either: float

    def findings(self, error_rate: float) -> tuple[str, ...]:
        """The tests that find fault, by Holm's rule: at most ``error_rate`` of models that hold have any of them."""
        rejected: list[str] = []
        for left, name in zip(range(len(TESTS), 0, -1), sorted(TESTS, key=self.p_values.__getitem__), strict=True):
            if self.p_values[name] > error_rate / left:
                break
            rejected.append(name)
        return tuple(name for name in TESTS if name in rejected)


NOTHING = LackOfFit(p_values=dict.fromkeys(TESTS, 1.0), signs=dict.fromkeys(TESTS, 0), either=1.0)


def lack_of_fit_tests(measurement: ResidualDraw, noise: SeededNoise) -> LackOfFit:
    """The tests on a measurement; ``noise`` is of a public seed.

    Args:
        measurement: the draw.
        noise: where simulations come from.
    """
    side = measurement.box.bins // min(measurement.box.bins, MAX_BINS)
    cells = _in_blocks(measurement.cells, side)
    # of a block within the frame; one in it holds fewer cells, so that this errs on the careful side
    variance = cell_variance(measurement) * side**2
    rows, parts = _margins(cells)
    along = _standardised(_middles(measurement.box.fitted[::side]), rows / rows.sum())
    away = _standardised(_middles(measurement.box.residual[::side]), parts)
    noise_weights = parts / (parts + variance * rows.size / rows.sum())
    bend = along**2 - (rows / rows.sum()) @ along**3 * along - 1
    basis = np.stack([np.ones_like(along), along, bend], axis=-1)

    def ratios(tables: FloatArray) -> FloatArray:
        of_mean = _ratios(tables, away * noise_weights, basis, variance)
        of_square = _ratios(tables, away**2 * noise_weights, basis, variance)
        return np.stack([of_mean[..., 1], of_mean[..., 2], of_square[..., 1]])

    expected = np.outer(*_margins(measurement.cells))
    again = _in_blocks(noisy_copies(measurement, expected, noise, sampled=True), side)
    edges = measurement.box.residual[::side]
    off, error = _shifts(cells, edges, variance)
    may_be, _ = _shifts(_in_blocks(expected, side), edges, variance)
    offs, errors = _shifts(again, edges, variance)
    observed, copies = ratios(cells), ratios(again)
    either, own = either_p_value(
        np.append(np.abs(observed), (off / error).max()),
        np.concatenate([np.abs(copies), ((offs - may_be) / errors).max(axis=-1)[None]]),
    )
    signs = [*np.sign(observed), 1 - 2 * (off / error).argmax()]
    return LackOfFit(
        p_values={name: float(p) for name, p in zip(TESTS, own, strict=True)},
        signs={name: int(sign) for name, sign in zip(TESTS, signs, strict=True)},
        either=either,
    )


def _shifts(tables: FloatArray, edges: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
    """How much further above and below 0 the mean residual is than a model that holds allows; and its standard error.

    Args:
        tables: counts, possibly negative, shape (..., columns, cells of a column), the first and last of these beyond
            the box.
        edges: of the cells within the box.
        variance: of the noise of privacy in a cell.

    Returns:
        Shapes (..., 2), both.
    """
    bound, width = edges[-1], edges[1] - edges[0]
    rows = tables.sum(axis=-2)
    total = np.maximum(rows.sum(axis=-1, keepdims=True), 1.0)
    grouped = width / 8 * (rows / total)[..., 1:-1].max(axis=-1)
    lowest, highest = heights(edges), heights(edges)
    lowest[0] -= FURTHER * bound
    highest[-1] += FURTHER * bound
    spread = np.maximum(rows, 0.0) + variance * tables.shape[-2]
    means, errors = [], []
    for at in (lowest, -highest):
        mean = rows @ at / total[..., 0]
        means.append(mean - grouped)
        of_sum = ((at - mean[..., None]) ** 2 * spread).sum(axis=-1)
        errors.append(np.sqrt(np.maximum(of_sum, 1e-300)) / total[..., 0])
    return np.stack(means, axis=-1), np.stack(errors, axis=-1)


def _ratios(tables: FloatArray, function: FloatArray, basis: FloatArray, variance: float) -> FloatArray:
    """Coefficients of the columns' means of a function, over their standard errors.

    Args:
        tables: counts, possibly negative, shape (..., columns, cells of a column).
        function: its value in each cell of a column.
        basis: what the means are fitted by, shape (columns, terms).
        variance: of the noise of privacy in a cell.

    Returns:
        Shape (..., terms).
    """
    powers = np.stack([np.ones_like(function), function, function**2], axis=-1)
    sums, spread = tables @ powers, (tables + variance) @ powers
    total = np.maximum(sums[..., 0].sum(axis=-1, keepdims=True), 1.0)
    mean = sums[..., 1].sum(axis=-1, keepdims=True) / total
    rows = np.maximum(sums[..., 0], max(1.0, math.sqrt(variance * function.size)))
    # about the mean of all columns, to which a column that is hardly there is drawn
    above = (sums[..., 1] - mean * sums[..., 0]) / rows
    centre = mean + above
    own = spread[..., 2] - 2 * centre * spread[..., 1] + centre**2 * spread[..., 0]
    noise_variances = variance * ((function - mean[..., None]) ** 2).sum(axis=-1)
    of_all = np.maximum(sums[..., 2].sum(axis=-1, keepdims=True) / total - mean**2, 1e-12)
    variances = (np.maximum(own, noise_variances) + _PRIOR_ROWS * of_all) / rows**2
    weights = rows**2 / ((rows + _PRIOR_ROWS) * of_all + noise_variances)
    weighted = weights[..., None] * basis
    # scaled by its diagonal, so that nothing is lost where weights are tiny
    normal = np.swapaxes(weighted, -1, -2) @ basis
    sizes = np.sqrt(np.diagonal(normal, axis1=-2, axis2=-1))
    inverse = np.linalg.pinv(normal / (sizes[..., None] * sizes[..., None, :]), rcond=1e-9, hermitian=True)
    contrasts = (weighted / sizes[..., None, :]) @ inverse  # what each column's mean adds to the coefficients
    coefficients = (contrasts * above[..., None]).sum(axis=-2)
    errors = np.sqrt(np.maximum((contrasts**2 * variances[..., None]).sum(axis=-2), 1e-300))
    ratios: FloatArray = coefficients / errors
    return ratios


def _margins(cells: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows of each column, and the part of each residual; all above 0."""
    rows, parts = (np.maximum(cells.sum(axis=axis), _MIN_ROWS) for axis in (-1, -2))
    total = max(float(cells.sum()), 1.0)
    return rows * (total / rows.sum()), parts / parts.sum()


def _middles(edges: FloatArray) -> FloatArray:
    """Of the cells, and of one more on either side."""
    width = edges[1] - edges[0]
    return np.concatenate([[edges[0] - width / 2], (edges[1:] + edges[:-1]) / 2, [edges[-1] + width / 2]])


def _standardised(values: FloatArray, weights: FloatArray) -> FloatArray:
    centred = values - weights @ values
    standard: FloatArray = centred / np.sqrt(max(float(weights @ centred**2), 1e-300))
    return standard


def _in_blocks(cells: FloatArray, side: int) -> FloatArray:
    """Sums over blocks of ``side x side`` cells within the frame, and over runs of ``side`` in it."""
    if side == 1:
        return cells
    starts = np.concatenate([[0], np.arange(1, cells.shape[-1] - 1, side), [cells.shape[-1] - 1]])
    summed: FloatArray = np.add.reduceat(np.add.reduceat(cells, starts, axis=-1), starts, axis=-2)
    return summed
