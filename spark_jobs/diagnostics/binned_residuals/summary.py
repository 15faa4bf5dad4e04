"""From a draw to released binned residuals: deterministic, and free of charge."""

from __future__ import annotations

import numpy as np
from scipy.special import logit

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._score_groups.pools import Pools, either_p_value, interval, pools, tidy, zone
from spark_jobs.diagnostics.binned_residuals.result import BinnedResiduals
from spark_jobs.diagnostics.undefined import publishable

DIRECTIONS = 3
"""A shift, a tilt and a bow of the log-odds: what a forgotten intercept, slope or square does to residuals."""


def summarise(measurement: GroupsDraw, *, seed: int) -> BinnedResiduals:
    """The binned residuals that a measurement makes; the same measurement and seed give the same ones.

    Args:
        measurement: the draw.
        seed: of the simulations behind intervals and the p-value; public.
    """
    made = pools(measurement, seed=seed)
    seen = made.seen
    lower, upper = _intervals(made, measurement.confidence)
    zone_lower, zone_upper = zone(made.null().mean_excess, measurement.confidence)
    tests = np.array(fit_test(made) if made.defined else (1.0, 1.0, 1.0))
    either, trend, scatter = (float(p) for p in tidy(tests))
    edges = measurement.bins / measurement.groups.grid
    positives, negatives = (max(float(each.sum()), 0.0) for each in (seen.positives, seen.negatives))
    of_bin = made.pool_of
    released = BinnedResiduals(
        lower=edges[:-1],
        upper=edges[1:],
        pool=of_bin,
        predicted=tidy(seen.predicted)[of_bin],
        residual=tidy(seen.residual)[of_bin],
        residual_lower=tidy(np.minimum(lower, seen.residual))[of_bin],
        residual_upper=tidy(np.maximum(upper, seen.residual))[of_bin],
        zone_lower=tidy(np.maximum(zone_lower, -1.0))[of_bin],
        zone_upper=tidy(np.minimum(zone_upper, 1.0))[of_bin],
        rows=tidy(np.maximum(seen.positives + seen.negatives, 0.0))[of_bin],
        p_value=either,
        trend_p_value=trend,
        scatter_p_value=scatter,
        positives=float(tidy(np.array(positives))),
        negatives=float(tidy(np.array(negatives))),
        status=OK if made.defined else UNDEFINED,
        confidence=measurement.confidence,
        epsilon=measurement.epsilon,
        neighbours=measurement.neighbours,
        guarantee=measurement.guarantee,
    )
    return publishable("binned_residuals", released)


def fit_test(made: Pools) -> tuple[float, float, float]:
    """P-values of the test of fit: of both statistics together, of the trend, of the scatter.

    With ``z = excess / sd``, ``sd^2 = variance + noise variance``, the scatter is the sum of the squares of z. If the
    log-odds are off by ``d(p)``, the excess of a pool is off by ``variance * d`` (its derivative), and z by
    ``variance / sd * d``. The trend is the squared length of z's projection on these means for ``d = 1, l, l^2``, ``l``
    the log-odds of the pool's mean score: the score test of three coefficients, where there is no noise. Laws under a
    model with true scores are simulated, noise included. A model that was fitted (privately) to these very rows shows
    no shift and no tilt of its own; the test is then careful.
    """
    seen, copies = made.seen, made.null().excess
    stddev = np.sqrt(seen.variance + made.noise_variance)
    stddev = np.where(stddev > 0, stddev, np.inf)
    odds = logit(np.clip(seen.predicted, 1e-6, 1 - 1e-6))
    basis = _orthonormal((seen.variance / stddev)[:, None] * np.vander(_standard(odds), DIRECTIONS, increasing=True))

    def trend_and_scatter(excess: FloatArray) -> FloatArray:
        z = excess / stddev
        return np.stack([((z @ basis) ** 2).sum(axis=-1), (z**2).sum(axis=-1)])

    either, own = either_p_value(trend_and_scatter(seen.excess), trend_and_scatter(copies))
    return either, float(own[0]), float(own[1])


def _orthonormal(columns: FloatArray) -> FloatArray:
    """An orthonormal basis of what the columns span; as many as are told apart."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    kept: FloatArray = left[:, sizes > 1e-9 * max(float(sizes[0]), 1e-300)]
    return kept


def _standard(values: FloatArray) -> FloatArray:
    spread = float(values.std())
    centred: FloatArray = values - values.mean()
    return centred / spread if spread > 0 else centred


def _intervals(made: Pools, confidence: float) -> tuple[FloatArray, FloatArray]:
    lower, upper = interval(made.seen.mean_excess, made.again().mean_excess, confidence)
    predicted = made.seen.predicted
    return np.clip(lower, -predicted, 1 - predicted), np.clip(upper, -predicted, 1 - predicted)
