"""Lack-of-fit tests of a linear model from noisy counts: wrong slope, curvature, unequal variance, shift.

For every column of the framed grid, the means of the residual and of its square are computed. These means are regressed
over the columns on ``1``, ``t`` and ``P(t)``, where ``t`` is the column's middle and ``P(t)`` the square of t less its
regression on 1 and t. Three coefficients are tested against 0:

* the residual on t: the mean residual rises or falls along the fitted values (wrong slope);
* the residual on P(t): the mean residual is curved (as in Ramsey's RESET);
* the square on t: the spread rises or falls (unequal variance, as in the Breusch-Pagan test).

The regression weights a column by its rows, and less where privacy noise dominates. Standard errors are robust: each
column has its own variance, estimated from its counts (as if each cell were an independent Poisson count) plus the
noise. Each test is therefore valid under the alternatives of the others, and residuals need not be normal. Cells that
are dominated by noise get little weight: a function's value is multiplied by the fraction of the cell's variance, over
all columns, that is due to rows.

A fourth test asks whether the mean of all residuals differs from 0 (a shift). Rows count at the middle of their cell,
and rows beyond the box at its edge, so the mean of the counts is biased; for a skewed distribution it is not 0 even if
the model is correct. The test therefore allows for the largest bias, which has two parts. First, the rows beyond one
side of the box may on average lie ``FURTHER b`` beyond it, where ``b`` is the box's bound. Second, grouping moves the
mean of a unimodal distribution by at most an eighth of a cell's width times the fraction of rows in the largest cell.
The mean counts as above 0 only if it stays above 0 with all rows below the box moved that far out; it counts as below 0
only if it stays below 0 with all rows above the box moved that far out.

The distribution of each ratio under a correct model is simulated: rows are drawn as if fitted values and residuals were
independent with the released margins, and noise is added. For the shift, this distribution is moved by the largest
bias.
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
"""Largest mean distance from the box of the rows beyond it that the shift test allows for, in units of its bound."""
MAX_BINS = 32
"""Finer grids are aggregated into blocks of cells."""
_MIN_ROWS = 0.5
"""Smallest number of rows in a margin; avoids a division by 0."""
_PRIOR_ROWS = 2.0
"""Prior rows with the overall variance in every column, so that the variance of a column with few rows is stable."""


@dataclass(frozen=True, kw_only=True)
class LackOfFit:
    """The results of the lack-of-fit tests.

    Attributes:
        p_values: p-value of each test, by its name.
        signs: sign of each test's coefficient: 1 if the residuals or their spread rise, curve upwards or lie above 0,
            otherwise -1.
        either: p-value of all tests together.
    """

    p_values: dict[str, float]
    signs: dict[str, int]
    either: float

    def findings(self, error_rate: float) -> tuple[str, ...]:
        """The tests that reject, by Holm's method, which limits the chance of any false rejection to ``error_rate``."""
        rejected: list[str] = []
        for left, name in zip(range(len(TESTS), 0, -1), sorted(TESTS, key=self.p_values.__getitem__), strict=True):
            if self.p_values[name] > error_rate / left:
                break
            rejected.append(name)
        return tuple(name for name in TESTS if name in rejected)


NOTHING = LackOfFit(p_values=dict.fromkeys(TESTS, 1.0), signs=dict.fromkeys(TESTS, 0), either=1.0)


def lack_of_fit_tests(measurement: ResidualDraw, noise: SeededNoise, *, effect: float = 1.0) -> LackOfFit:
    """Run the lack-of-fit tests on a draw.

    Args:
        measurement: the draw.
        noise: sampler of the simulated noise, with a public seed.
        effect: the design effect of the sampling.
    """
    side = measurement.box.bins // min(measurement.box.bins, MAX_BINS)
    cells = _in_blocks(measurement.cells, side)
    # of a block within the box; a block of the frame has fewer cells, so this is conservative
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
    again = _in_blocks(noisy_copies(measurement, expected, noise, sampled=True, effect=effect), side)
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
    """How far the mean residual exceeds the largest bias, above and below 0; and its standard errors.

    Args:
        tables: counts, possibly negative, shape (..., columns, k + 2); the first and last cell of a column lie beyond
            the box.
        edges: edges of the cells within the box, shape (k + 1,).
        variance: variance of the privacy noise in a cell.

    Returns:
        Two arrays of shape (..., 2).
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
    """Regression coefficients of the columns' means of a function, divided by their standard errors.

    Args:
        tables: counts, possibly negative, shape (..., columns, cells of a column).
        function: the function's value in each cell of a column.
        basis: regressors, shape (columns, terms).
        variance: variance of the privacy noise in a cell.

    Returns:
        Shape (..., terms).
    """
    powers = np.stack([np.ones_like(function), function, function**2], axis=-1)
    sums, spread = tables @ powers, (tables + variance) @ powers
    total = np.maximum(sums[..., 0].sum(axis=-1, keepdims=True), 1.0)
    mean = sums[..., 1].sum(axis=-1, keepdims=True) / total
    rows = np.maximum(sums[..., 0], max(1.0, math.sqrt(variance * function.size)))
    # about the mean of all columns, towards which a column with few rows is shrunk
    above = (sums[..., 1] - mean * sums[..., 0]) / rows
    centre = mean + above
    own = spread[..., 2] - 2 * centre * spread[..., 1] + centre**2 * spread[..., 0]
    noise_variances = variance * ((function - mean[..., None]) ** 2).sum(axis=-1)
    of_all = np.maximum(sums[..., 2].sum(axis=-1, keepdims=True) / total - mean**2, 1e-12)
    variances = (np.maximum(own, noise_variances) + _PRIOR_ROWS * of_all) / rows**2
    weights = rows**2 / ((rows + _PRIOR_ROWS) * of_all + noise_variances)
    weighted = weights[..., None] * basis
    # scaled by its diagonal, which keeps precision where weights are tiny
    normal = np.swapaxes(weighted, -1, -2) @ basis
    sizes = np.sqrt(np.diagonal(normal, axis1=-2, axis2=-1))
    inverse = np.linalg.pinv(normal / (sizes[..., None] * sizes[..., None, :]), rcond=1e-9, hermitian=True)
    contrasts = (weighted / sizes[..., None, :]) @ inverse  # contribution of each column's mean to the coefficients
    coefficients = (contrasts * above[..., None]).sum(axis=-2)
    errors = np.sqrt(np.maximum((contrasts**2 * variances[..., None]).sum(axis=-2), 1e-300))
    ratios: FloatArray = coefficients / errors
    return ratios


def _margins(cells: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rows of each column, and the fraction of the rows in each row of cells; all above 0."""
    rows, parts = (np.maximum(cells.sum(axis=axis), _MIN_ROWS) for axis in (-1, -2))
    total = max(float(cells.sum()), 1.0)
    return rows * (total / rows.sum()), parts / parts.sum()


def _middles(edges: FloatArray) -> FloatArray:
    """Middles of the cells, and of one more cell on either side."""
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
