"""How far the rounding of numbers to the lattice may have moved a fit by least squares; a bound that always holds.

A row has ``z = (1, x)`` and an outcome y; each number is rounded by at most h, half a step of the lattice. The columns
of categorical levels are not rounded. Let ``A = sum z z^T`` over the rounded rows, and e the residuals of the exact
rows. The rounded fit differs from the exact coefficients b by

    A^-1 (sum z r + sum d e),   r = the change of y - b z by rounding,   d = the change of z,

where ``|r| <= h (1 + sum |b|)`` with a sum over numeric features. So a linear function of the coefficients, with
weights c, moves by at most the sum of two terms. The first is ``h (1 + sum |b|) sqrt(n c^T A^-1 c)``, by Cauchy and
Schwarz. The second is ``h sum |u| sum |e|`` with ``u = A^-1 c``, where the sum of |u| is over numeric features and
``sum |e|`` is at most n times the residuals' standard deviation. The root of a sum of squares moves by at most the root
of the sum of the squared changes. Coefficients and sums are those of the release.
"""

from __future__ import annotations

import math

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._fits.solving import Solution
from spark_jobs.mechanisms.moment_matrix import Layout


def moved_coefficients(solution: Solution, layout: Layout, functions: FloatArray) -> FloatArray:
    """How far rounding may have moved linear functions of intercept and slopes; shape (functions,).

    Args:
        solution: the solution of one released matrix.
        layout: the layout of its rows.
        functions: weights of the intercept and of the slopes, one function in each column; shape (p + 1, functions).
    """
    of_intercept, rows = functions[0], float(solution.rows)
    about = functions[1:] - np.outer(solution.means, of_intercept)
    turned = np.linalg.solve(solution.spread, about)
    square = np.maximum(of_intercept**2 / rows + (about * turned).sum(axis=0), 0.0)
    of_features = np.abs(turned[: layout.numbers]).sum(axis=0)
    half = 0.5 / layout.steps
    moved: FloatArray = half * (
        _of_a_residual(solution, layout) * np.sqrt(rows * square)
        + rows * math.sqrt(float(solution.variance)) * of_features
    )
    return moved


def moved_r_squared(solution: Solution, layout: Layout) -> float:
    """How far rounding may have moved R^2, down or up; at most 1."""
    half = math.sqrt(float(solution.rows)) * 0.5 / layout.steps
    within, total = math.sqrt(float(solution.residual)), math.sqrt(float(solution.total))
    moved = half * _of_a_residual(solution, layout)
    share = (within / total) ** 2
    largest = ((within + moved) / max(total - half, 1e-300)) ** 2
    smallest = (max(within - moved, 0.0) / (total + half)) ** 2
    return min(max(largest - share, share - smallest), 1.0)


def _of_a_residual(solution: Solution, layout: Layout) -> float:
    """What rounding may change in a residual, in half steps."""
    return 1.0 + float(np.abs(solution.slopes[: layout.numbers]).sum())
