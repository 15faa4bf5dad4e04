"""Predictions of noisy numbers from earlier ones, with estimates of their error variances; post-processing.

The noise of a number is independent of everything before it, so the error variance of any prediction is the mean square
of its innovations less the variance of the noise, whatever the exact numbers do. That mean square has a standard error.
So estimates use the error variance of the model, unless the measured error variance exceeds that of the model by more
than this standard error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from spark_jobs.arrays import FloatArray

MEMORIES = (1, 3, 9, 27, 81, 243)
"""Steps that the exponential means of noisy counts remember."""
MEMORY = 500
"""Steps over which mean squares are taken: a running mean first, exponential from there on."""
NO_NOISE = 1e-300
"""The variance of noise where it is 0 as a float."""
CAUTION = 0.4
"""Standard errors that error variances are raised by for bands; 90% bands of random streams then hold 0.94 to 0.98."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """Predictions of noisy counts; arrays of shape (n, streams).

    Attributes:
        values: the predictions.
        squares: mean squares of their innovations.
        by_model: the error variances of the predictions by the model; infinite where the model gives none.
    """

    values: FloatArray
    squares: FloatArray
    by_model: FloatArray

    def at(self, steps: slice) -> Predictions:
        """The predictions of some steps."""
        return Predictions(values=self.values[steps], squares=self.squares[steps], by_model=self.by_model[steps])

    def or_better(self, other: Predictions) -> Predictions:
        """At each step and stream, the one of both predictions whose innovations have the smaller mean square."""
        better = other.squares < self.squares
        pairs = ((getattr(other, name), getattr(self, name)) for name in ("values", "squares", "by_model"))
        values, squares, by_model = (np.where(better, new, old) for new, old in pairs)
        return Predictions(values=values, squares=squares, by_model=by_model)

    def error_variances(self, v: float, error: FloatArray) -> FloatArray:
        """Error variances: the model's, unless the innovations clearly exceed it.

        Args:
            v: variance of the noise.
            error: standard error of a mean square of the noise, shape (n, 1).
        """
        excess = self.squares - v
        unmodelled = np.maximum(excess, 0.0) + 0.5 * error
        return np.where(np.isinf(self.by_model), unmodelled, np.maximum(self.by_model, excess - error))

    def cautious_variances(self, v: float, error: FloatArray) -> FloatArray:
        """Error variances for bands: at least ``CAUTION`` standard errors above the measured ones."""
        excess = np.maximum(self.squares - v, 0.0)
        return np.maximum(excess + CAUTION * error, np.minimum(self.by_model, excess + 1.5 * error))


def forgetting_sums(values: FloatArray, before: FloatArray, *, memory: int, number: int) -> FloatArray:
    """The sum after each value: a plain sum of the first ``memory`` values, then one in which older values fade out.

    From then on, the sum so far is multiplied by ``1 - 1 / memory`` before the next value is added. Divided by the
    number of values, or by ``memory`` if that is smaller, the sum is a mean: plain first, exponential later.

    Args:
        values: shape (n, streams).
        before: the sum before these values, shape (streams,).
        memory: the number of values in the plain sum.
        number: the number of values before these.
    """
    early = min(max(memory - number, 0), len(values))
    parts = ((values[:early], 1.0), (values[early:], 1.0 - 1.0 / memory))
    sums = []
    for part, kept in parts:
        if len(part):
            sums.append(_fading_sums(part, before, kept))
            before = sums[-1][-1]
    return np.concatenate(sums) if len(sums) > 1 else sums[0]


def _fading_sums(values: FloatArray, before: FloatArray, kept: float) -> FloatArray:
    """``s_t = kept s_{t-1} + values_t``, in the faster of two ways with the same arithmetic."""
    if len(values) > values.shape[1]:
        sums: FloatArray = lfilter([1.0], [1.0, -kept], values, axis=0, zi=kept * before[None])[0]
        return sums
    sums = np.empty(values.shape)
    for step, value in enumerate(values):
        before = kept * before + value
        sums[step] = before
    return sums
