"""Shrinkage of many noisy values towards centres, by an amount that is estimated from the values.

Source: Stephens, *False discovery rates: a new deal*, Biostatistics 18(2), 2017 (adaptive shrinkage), with two more
parts in the mixture. Values are expectations plus normal noise of known variance. Expectations are taken as draws from
a mixture: a point at the centre, normal distributions around it with variances on a fixed grid, and a point at each of
two extreme values. The weights are fitted to the values by expectation maximisation, and each value is replaced by its
posterior mean. Of several candidates for the centres, the one of the highest likelihood is used for all values.

If all values are noise, nearly all of them move to their centres. If a few values are far from their centres, these few
are kept and the others are shrunk. If all values are far from their centres, hardly any changes.

Post-processing of released values: it costs nothing. No guarantee depends on the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray

MAX_FITTED = 2048
"""Weights are fitted to at most so many values, at even ranks of their size."""
_ITERATIONS = 30
_SMALLEST = -2
"""The smallest exponent of two of the mixture's variances, in units of the noise's variance."""
_AT_ONCE = 1 << 16
"""So many values are shrunk at a time, which bounds memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Standardised:
    """Values and extreme values, less their centres, in standard deviations of the noise; shape (n,) each."""

    away: FloatArray
    low: FloatArray
    high: FloatArray

    def at(self, index: slice | NDArray[np.intp]) -> _Standardised:
        return _Standardised(away=self.away[index], low=self.low[index], high=self.high[index])


def shrunk(
    values: FloatArray, variances: FloatArray, *, centres: Sequence[FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Posterior means of the expectations of noisy values.

    Args:
        values: shape (n,).
        variances: the variances of their noise, above 0.
        centres: at least one candidate for the centres, each of shape (n,).
        low: the smallest value that each expectation may have.
        high: the largest one.
    """
    if not values.size:
        return values
    deviations = np.sqrt(variances)
    candidates = [
        _Standardised(
            away=(values - centre) / deviations, low=(low - centre) / deviations, high=(high - centre) / deviations
        )
        for centre in centres
    ]
    farthest = max(float(np.abs(of.away).max()) for of in candidates)
    spreads = np.concatenate([[0.0], 2.0 ** np.arange(_SMALLEST, math.ceil(2 * math.log2(max(farthest, 1.0))) + 2)])
    ranks = np.argsort(np.abs(candidates[0].away), kind="stable")
    fitted = ranks[np.linspace(0, ranks.size - 1, min(ranks.size, MAX_FITTED)).astype(np.intp)]
    weights = [_fitted_weights(of.at(fitted), spreads) for of in candidates]
    best = int(np.argmax([likelihood for _, likelihood in weights]))
    means = [
        _posterior_means(candidates[best].at(slice(start, start + _AT_ONCE)), spreads, weights[best][0])
        for start in range(0, values.size, _AT_ONCE)
    ]
    return np.asarray(centres[best] + np.concatenate(means) * deviations)


def _fitted_weights(of: _Standardised, spreads: FloatArray) -> tuple[FloatArray, float]:
    """The weights of the parts of the mixture, and the logarithm of their likelihood."""
    logs = _log_densities(of, spreads)
    largest = logs.max(axis=1, keepdims=True)
    densities = np.exp(logs - largest)
    # one value more is taken as noise, so that few values are shrunk rather than kept
    prior = np.zeros(logs.shape[1])
    prior[0] = 1.0
    weights = np.full(prior.size, 1 / (prior.size + 3))
    weights[0] *= 4
    for _ in range(_ITERATIONS):
        shares = densities * weights
        shares /= shares.sum(axis=1, keepdims=True)
        weights = (shares.sum(axis=0) + prior) / (of.away.size + 1)
    return weights, float((np.log((densities * weights).sum(axis=1)) + largest[:, 0]).sum())


def _posterior_means(of: _Standardised, spreads: FloatArray, weights: FloatArray) -> FloatArray:
    logs = _log_densities(of, spreads)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True)) * weights
    shares /= shares.sum(axis=1, keepdims=True)
    kept = (shares[:, :-1] * (spreads / (spreads + 1))).sum(axis=1)
    # by how much the value is nearer to its high end than to its low one
    lead = 0.5 * (np.square(of.away - of.low) - np.square(of.away - of.high))
    high = 1 / (1 + np.exp(-np.clip(lead, -700, 700)))
    return np.asarray(kept * of.away + shares[:, -1] * (high * of.high + (1 - high) * of.low))


def _log_densities(of: _Standardised, spreads: FloatArray) -> FloatArray:
    """Log densities of values under the parts of the mixture, the last of which is both extreme values; (n, parts)."""
    variances = spreads + 1
    around = -0.5 * (np.log(variances) + np.square(of.away)[:, np.newaxis] / variances)
    ends = np.logaddexp(-0.5 * np.square(of.away - of.low), -0.5 * np.square(of.away - of.high)) - math.log(2)
    return np.concatenate([around, ends[:, np.newaxis]], axis=1)
