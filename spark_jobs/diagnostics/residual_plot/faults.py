"""Tests of a linear model from noisy counts: is the line off, is it curved, does the variance change.

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

The law of coefficient over standard error where the model holds is simulated: rows are drawn again as if fitted values
and residuals were independent with the released margins, and noise is drawn again on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.diagnostics.residual_plot.copies import cell_variance, noisy_copies
from spark_jobs.diagnostics.residual_plot.measurement import Measurement
from spark_jobs.diagnostics.score_groups.pools import either_p_value
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.trees import FloatArray

LINE, CURVATURE, VARIANCE = "line", "curvature", "variance"
TESTS = (LINE, CURVATURE, VARIANCE)
MOST_BINS = 32
"""Finer grids are read in blocks of cells."""
_LEAST = 0.5
"""Rows that a margin has at least, to divide by."""
_PRIOR_ROWS = 2.0
"""Rows of the overall variance that every column gets on top of its own: one that has few knows little of its own."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What the tests say.

    Attributes:
        p_values: of each test, by its name.
        signs: of each test's coefficient: 1 where the residuals or their spread rise, or bend upwards; -1 where not.
        either: p-value of all tests together.
    """

    p_values: dict[str, float]
    signs: dict[str, int]
    either: float

    def findings(self, error_rate: float) -> tuple[str, ...]:
        """The tests that find fault, by Holm's rule: at most ``error_rate`` of models that hold have any of them."""
        found: list[str] = []
        for left, name in zip(range(len(TESTS), 0, -1), sorted(TESTS, key=self.p_values.__getitem__), strict=True):
            if self.p_values[name] > error_rate / left:
                break
            found.append(name)
        return tuple(name for name in TESTS if name in found)


NOTHING = Faults(p_values=dict.fromkeys(TESTS, 1.0), signs=dict.fromkeys(TESTS, 0), either=1.0)


def find_faults(measurement: Measurement, noise: SeededNoise) -> Faults:
    """The tests on a measurement; ``noise`` is of a public seed.

    Args:
        measurement: the draw.
        noise: where simulations come from.
    """
    side = measurement.box.bins // min(measurement.box.bins, MOST_BINS)
    cells = _in_blocks(measurement.cells, side)
    # of a block within the frame; one in it holds fewer cells, so that this errs on the careful side
    variance = cell_variance(measurement) * side**2
    rows, parts = _margins(cells)
    along = _standardised(_middles(measurement.box.fitted[::side]), rows / rows.sum())
    away = _standardised(_middles(measurement.box.residual[::side]), parts)
    heard = parts / (parts + variance * rows.size / rows.sum())
    bend = along**2 - (rows / rows.sum()) @ along**3 * along - 1
    basis = np.stack([np.ones_like(along), along, bend], axis=-1)

    def ratios(tables: FloatArray) -> FloatArray:
        of_mean = _ratios(tables, away * heard, basis, variance)
        of_square = _ratios(tables, away**2 * heard, basis, variance)
        return np.stack([of_mean[..., 1], of_mean[..., 2], of_square[..., 1]])

    seen = ratios(cells)
    expected = np.outer(*_margins(measurement.cells))
    copies = ratios(_in_blocks(noisy_copies(measurement, expected, noise, sampled=True), side))
    either, own = either_p_value(np.abs(seen), np.abs(copies))
    return Faults(
        p_values={name: float(p) for name, p in zip(TESTS, own, strict=True)},
        signs={name: int(np.sign(ratio)) for name, ratio in zip(TESTS, seen, strict=True)},
        either=either,
    )


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
    least = variance * ((function - mean[..., None]) ** 2).sum(axis=-1)
    of_all = np.maximum(sums[..., 2].sum(axis=-1, keepdims=True) / total - mean**2, 1e-12)
    variances = (np.maximum(own, least) + _PRIOR_ROWS * of_all) / rows**2
    weights = rows**2 / ((rows + _PRIOR_ROWS) * of_all + least)
    weighted = weights[..., None] * basis
    # scaled by its diagonal, so that nothing is lost where weights are tiny
    normal = np.swapaxes(weighted, -1, -2) @ basis
    sizes = np.sqrt(np.diagonal(normal, axis1=-2, axis2=-1))
    inverse = np.linalg.pinv(normal / (sizes[..., None] * sizes[..., None, :]), rcond=1e-9, hermitian=True)
    contrasts = (weighted / sizes[..., None, :]) @ inverse  # what each column's mean adds to the coefficients
    found = (contrasts * above[..., None]).sum(axis=-2)
    errors = np.sqrt(np.maximum((contrasts**2 * variances[..., None]).sum(axis=-2), 1e-300))
    ratios: FloatArray = found / errors
    return ratios


def _margins(cells: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows of each column, and the part of each residual; all above 0."""
    rows, parts = (np.maximum(cells.sum(axis=axis), _LEAST) for axis in (-1, -2))
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
