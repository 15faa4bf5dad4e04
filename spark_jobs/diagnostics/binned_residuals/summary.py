"""Summarises a draw as the binned residuals that are released; deterministic post-processing."""

from __future__ import annotations

import numpy as np
from scipy.special import logit

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Figure
from spark_jobs.contract.results.pooled import BinnedResiduals
from spark_jobs.diagnostics._populations import RatioNoise, population_interval
from spark_jobs.diagnostics._score_groups.excesses import Excesses, mean_distance
from spark_jobs.diagnostics._score_groups.fields import binned, rounded_figure, rounded_number, shared_fields
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._score_groups.pools import Pools, either_p_value, pools
from spark_jobs.diagnostics._simulation import central_range, possible_interval, solved_interval
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling

DIRECTIONS = 3
"""Shift, slope and curve of the log-odds: the effects of a missing intercept, slope or square on residuals."""


def summarise(draw: GroupsDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> BinnedResiduals:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind intervals and the p-value.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    pooled = pools(draw, seed=seed, effect=sampling.effect().value)
    residual = pooled.released.residual
    low, high = solved_interval(pooled.released.mean_excess, pooled.possible_copies().mean_excess, draw.confidence)
    interval = low - pooled.moved, high + pooled.moved
    # mean scores lie within the ends of their pool
    lower, upper = possible_interval(interval, residual, -pooled.released.upper, 1 - pooled.released.lower)
    noise = RatioNoise.of_copies(pooled.errors[:, 0] - pooled.errors[:, 2], pooled.errors[:, :2].sum(axis=1))
    lowest, highest = population_interval(
        residual,
        pooled.released.rows,
        noise,
        confidence=draw.confidence,
        score=pooled.released.predicted,
        effect=pooled.effect,
    )
    lowest, highest = np.maximum(lowest - pooled.moved, -1.0), np.minimum(highest + pooled.moved, 1.0)
    zone_lower, zone_upper = central_range(pooled.null_copies().mean_excess, draw.confidence)
    tests = fit_test(pooled) if pooled.defined else (1.0, 1.0, 1.0)
    either, trend, scatter = (rounded_number(p) for p in tests)
    distance, calibrated = Figure(value=0.0), 1.0
    if pooled.defined:
        distance, calibrated = mean_distance(pooled, Excesses.of_pools(pooled), draw.confidence)
    return BinnedResiduals(
        **shared_fields(draw, pooled, zone=(np.maximum(zone_lower, -1.0), np.minimum(zone_upper, 1.0))),
        residual=binned(pooled, residual, (lower, upper), (lowest, highest)),
        mean_distance=rounded_figure(distance),
        mean_distance_calibrated=rounded_number(calibrated),
        p_value=either,
        trend_p_value=trend,
        scatter_p_value=scatter,
    )


def fit_test(pooled: Pools) -> tuple[float, float, float]:
    """P-values of the test of fit: joint, of the trend, and of the scatter.

    For each pool, the excess is its labels less its scores, ``sd^2 = variance + noise variance``, and
    ``z = excess / sd``. The scatter is the sum of the squares of z. An error ``d(p)`` of the log-odds changes the
    excess of a pool by about ``variance * d``, and z by ``variance / sd * d``. The trend is the squared length of the
    projection of z on these changes for ``d = 1, l, l^2``, where ``l`` is the log-odds of the pool's mean score;
    without noise, the trend is the score test of three coefficients. The distributions for a calibrated model are
    simulated, noise included. If the model was fitted to these rows, even privately, the test is conservative, because
    the fit removes most of a shift and of an error in slope.
    """
    released, copies = pooled.released, pooled.null_copies().excess
    stddev = np.sqrt(released.variance + pooled.noise_variance)
    stddev = np.where(stddev > 0, stddev, np.inf)
    odds = logit(np.clip(released.predicted, 1e-6, 1 - 1e-6))
    basis = _orthonormal(
        (released.variance / stddev)[:, None] * np.vander(_standard(odds), DIRECTIONS, increasing=True)
    )

    def trend_and_scatter(excess: FloatArray) -> FloatArray:
        z = excess / stddev
        return np.stack([((z @ basis) ** 2).sum(axis=-1), (z**2).sum(axis=-1)])

    either, own = either_p_value(trend_and_scatter(released.excess), trend_and_scatter(copies))
    return either, float(own[0]), float(own[1])


def _orthonormal(columns: FloatArray) -> FloatArray:
    """An orthonormal basis of the span of the columns, without directions that are numerically 0."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    kept: FloatArray = left[:, sizes > 1e-9 * max(float(sizes[0]), 1e-300)]
    return kept


def _standard(values: FloatArray) -> FloatArray:
    spread = float(values.std())
    centred: FloatArray = values - values.mean()
    return centred / spread if spread > 0 else centred
