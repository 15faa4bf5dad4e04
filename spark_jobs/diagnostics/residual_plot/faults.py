"""Tests of a linear model from noisy counts: is the line off, is it curved, does the variance change.

The counts ``c`` of a framed grid, fitted values by residuals, are compared with the table of their own margins,
``m = (rows of the column) x (part of the residual)``: what independence of fitted value and residual makes of them.
Where a model fails, the table leans away from that in a few directions. With ``t`` a column's middle and ``r`` a cell's
residual, both standardised over the table, and ``P(t)`` the square of t less its regression on 1 and t,

* ``m t r``: the mean residual rises along the fitted values (the line is off);
* ``m P(t) r``: the mean residual bends (curvature; what Ramsey's RESET looks for);
* ``m t (r^2 - 1)``: the spread rises (unequal variance; what Breusch and Pagan look for);
* ``m P(t) (r^2 - 1)``: the spread bends; not tested, but kept apart from the others.

All margins and all four directions are fitted at once by least squares, each cell weighted with the inverse of its
variance, ``m`` for the sampling of rows plus that of the noise of privacy: cells that noise drowns count for little.
A test looks at one direction's coefficient, which is linear in the counts, over a standard error that is taken from the
counts as well and so does not rely on independence. Residuals need not be normal.

The law of these ratios where the model holds is simulated: rows drawn again from the margins, noise drawn again on top.
"""

from __future__ import annotations

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
    blocks = measurement.box.bins // min(measurement.box.bins, MOST_BINS)
    cells = _in_blocks(measurement.cells, blocks)
    edges = measurement.box.fitted[::blocks], measurement.box.residual[::blocks]
    # of a block within the frame; its cells beyond the box have less noise, so that this errs on the careful side
    variance = cell_variance(measurement) * blocks**2
    margins = _margins(cells)
    contrasts = _contrasts(margins, _middles(edges[0]), _middles(edges[1]), variance)

    def ratios(tables: FloatArray) -> FloatArray:
        flat = tables.reshape(*tables.shape[:-2], -1)
        own = np.maximum((flat + variance) @ (contrasts**2).T, (contrasts**2).sum(axis=1) * variance)
        found: FloatArray = flat @ contrasts.T / np.sqrt(np.maximum(own, 1e-300))
        return found

    seen = ratios(cells)
    copies = ratios(_in_blocks(noisy_copies(measurement, _spread_out(measurement), noise, sampled=True), blocks))
    either, own = either_p_value(np.abs(seen), np.abs(copies).T)
    return Faults(
        p_values={name: float(p) for name, p in zip(TESTS, own, strict=True)},
        signs={name: int(np.sign(ratio)) for name, ratio in zip(TESTS, seen, strict=True)},
        either=either,
    )


def _margins(cells: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows of each column, and the part of each residual; all above 0."""
    rows, parts = (np.maximum(cells.sum(axis=axis), _LEAST) for axis in (-1, -2))
    total = max(float(cells.sum()), 1.0)
    return rows * (total / rows.sum()), parts / parts.sum()


def _spread_out(measurement: Measurement) -> FloatArray:
    """What is expected in each cell if fitted value and residual are independent."""
    rows, parts = _margins(measurement.cells)
    table: FloatArray = rows[:, None] * parts
    return table


def _middles(edges: FloatArray) -> FloatArray:
    """Of the cells, and of one more on either side."""
    width = edges[1] - edges[0]
    return np.concatenate([[edges[0] - width / 2], (edges[1:] + edges[:-1]) / 2, [edges[-1] + width / 2]])


def _standardised(values: FloatArray, weights: FloatArray) -> FloatArray:
    centred = values - weights @ values
    standard: FloatArray = centred / np.sqrt(max(float(weights @ centred**2), 1e-300))
    return standard


def _contrasts(
    margins: tuple[FloatArray, FloatArray], fitted: FloatArray, residual: FloatArray, variance: float
) -> FloatArray:
    """The weights that the coefficient of each test gives to the cells; shape (tests, cells)."""
    rows, parts = margins
    part_of_column = rows / rows.sum()
    t, r = _standardised(fitted, part_of_column), _standardised(residual, parts)
    bend = t**2 - 1 - t * (part_of_column @ t**3)
    square = r**2 - 1
    expected = rows[:, None] * parts
    directions = [expected * np.outer(along, away) for along, away in ((t, r), (bend, r), (t, square), (bend, square))]
    of_columns = np.kron(np.eye(rows.size), parts)
    of_residuals = np.kron(rows[None, :], np.eye(parts.size))
    design = np.concatenate([np.stack(directions).reshape(4, -1), of_columns, of_residuals]).T
    sizes = np.maximum(np.linalg.norm(design, axis=0), 1e-300)
    root = 1.0 / np.sqrt(expected + variance).reshape(-1)
    inverse = np.linalg.pinv(root[:, None] * (design / sizes), rcond=1e-10)
    contrasts: FloatArray = inverse[: len(TESTS)] * root / sizes[: len(TESTS), None]
    return contrasts


def _in_blocks(cells: FloatArray, side: int) -> FloatArray:
    """Sums over blocks of ``side x side`` cells within the frame, and over runs of ``side`` in it."""
    if side == 1:
        return cells
    starts = np.concatenate([[0], np.arange(1, cells.shape[-1] - 1, side), [cells.shape[-1] - 1]])
    summed: FloatArray = np.add.reduceat(np.add.reduceat(cells, starts, axis=-1), starts, axis=-2)
    return summed
