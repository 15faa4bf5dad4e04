"""The posterior of the counts of both classes in cells, given noisy counts and a random walk; post-processing.

If noise is large compared to counts, a curve that is computed from the noisy counts alone is biased towards the
diagonal, because noise adds rows to empty cells. Counts are positive, and the ratio of the classes changes gradually
with the score. For a calibrated model its logarithm is a straight line in the score; for normal classes of one width it
is a straight line in normal deviates of the depth. So the prior of the log ratio is an integrated random walk over
these deviates (a smoothing spline: Wahba, JRSS B 1978) about any line; single cells may depart from it. The walk's
roughness is one of several values ``ROUGHNESS``, weighted by the data. Nothing else is assumed: the level of both
classes together, where gaps and ties show, is a rough random walk. Where the counts are accurate, they determine the
posterior.

The posterior of log counts is approximated as normal about its mode for each roughness (Laplace's approximation: Rue,
Martino, Chopin, JRSS B 2009); noise is approximated as normal too. Everything is a deterministic function of released
values and public constants.
"""

from __future__ import annotations

import logging

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.mechanisms.noise import laplace_variance
from spark_jobs.mechanisms.prefix_sums import NoisyTree

ROUGHNESS = np.array(
    [(0.02, 0), (0.1, 0), (0.3, 0), (1, 0), (3, 0), (0.02, 0.3), (0.1, 0.3), (0.3, 0.3), (0.02, 1), (0.3, 1)]
)
"""Standard deviations of the change of the log ratio's slope over one normal deviate, and of what a single cell may
depart from the walk, as where many rows share a score."""
LEVEL_STEP = 1.5
"""Standard deviation of the change of the mean log count from a cell to the next."""
MAX_CELLS = 128
MIN_VARIANCE = 1e-3
"""Smallest variance of noise, so that it can divide at every epsilon."""
STEPS, CLOSE, UNSETTLED, LARGEST_STEP, LARGEST_LOG = 40, 1e-5, 1e-3, 2.0, 30.0
NEAREST, _TINY = 1e-4, 1e-6
"""Smallest distance of depths from 0 and 1, and the precision that makes the prior proper."""
_log = logging.getLogger(__name__)


def trees_of(draw: RocDraw) -> tuple[NoisyTree, NoisyTree] | None:
    """The trees of both classes if the draw is read by its posterior (few cells, placed by ``auto``); else None."""
    negatives, positives = draw.negatives, draw.positives
    few = draw.method == "auto" and draw.cuts.size <= MAX_CELLS + 1
    if few and isinstance(negatives, NoisyTree) and isinstance(positives, NoisyTree):
        return negatives, positives
    return None


def noise_precision(tree: NoisyTree) -> FloatArray:
    """The inverse covariance of the noise in the counts of a tree; shape (k, k)."""
    cells = np.eye(tree.tree.cells, dtype=np.int64)
    nodes = np.concatenate(tree.tree.nodes(cells), axis=-1).astype(np.float64)
    return np.asarray(nodes @ nodes.T / max(laplace_variance(tree.scale), MIN_VARIANCE), dtype=np.float64)


def expected_counts(counts: FloatArray, precision: FloatArray) -> FloatArray:
    """Counts estimated from unbiased noisy ones: the mean of the posterior's modes over the roughness; shape (2, k).

    Args:
        counts: noisy counts of both classes in the same cells, in the order of scores; shape (2, k).
        precision: inverse covariance of the noise in the counts of a class; shape (k, k).
    """
    start = np.maximum(counts, 0.5 / np.sqrt(np.diag(precision)))
    prior, volume = _prior(start)
    logs, value, last = _modes(np.log(start), counts, precision, prior)
    curvature = _derivatives(logs, counts, precision, prior)[1]
    evidence = -value + (volume - np.linalg.slogdet(curvature)[1]) / 2
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    if weights @ last > UNSETTLED:
        _log.warning("the estimate of a ROC curve has not converged: it still moves after %d steps", STEPS)
    return np.asarray(np.einsum("r,rck->ck", weights, np.exp(logs)), dtype=np.float64)


def _modes(
    start: FloatArray, counts: FloatArray, precision: FloatArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The mode of log counts for each roughness, its ``_misfit``, and how far the last step moved a point of its curve.

    Levenberg and Marquardt's method, for all values of the roughness at once. One is left as it is once a step moves no
    point of its curve by more than ``CLOSE``. Released numbers and public constants alone decide on it.
    """
    last = np.zeros(len(ROUGHNESS))
    logs = np.repeat(start[None], len(ROUGHNESS), axis=0)
    value, damping = _misfit(logs, counts, precision, prior), np.full(len(ROUGHNESS), 1e-3)
    moving = np.arange(len(ROUGHNESS))
    for _ in range(STEPS):
        before = logs[moving]
        slope, curvature = _derivatives(before, counts, precision, prior[moving])
        scale = np.einsum("rii->ri", curvature) * damping[moving, None]
        step = np.linalg.solve(curvature + scale[..., None] * np.eye(scale.shape[-1]), -slope[..., None])[..., 0]
        moved = before + np.clip(step, -LARGEST_STEP, LARGEST_STEP).reshape(before.shape)
        there = _misfit(moved, counts, precision, prior[moving])
        better = there <= value[moving]
        # a short step that is short because it was damped says nothing
        last[moving] = np.abs(_curve(moved) - _curve(before)).max(axis=(1, 2))
        still = (last[moving] < CLOSE) & (damping[moving] <= 1.0)
        logs[moving] = np.where(better[:, None, None], moved, before)
        value[moving] = np.where(better, there, value[moving])
        damping[moving] = np.clip(np.where(better, damping[moving] / 5, damping[moving] * 8), 1e-9, 1e9)
        moving = moving[~still]
        if not moving.size:
            break
    return logs, value, last


def _curve(logs: FloatArray) -> FloatArray:
    """The shares of both classes up to each cell: a curve's coordinates; same shape."""
    rows = np.cumsum(np.exp(np.minimum(logs, LARGEST_LOG)), axis=-1)
    return np.asarray(rows / rows[..., -1:], dtype=np.float64)


def _prior(start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inverse covariances of the log counts of both classes, shape (roughness, 2 k, 2 k), and logs of determinants."""
    cells = np.eye(start.shape[-1])
    shares = (start / start.sum(axis=-1, keepdims=True)).mean(axis=0)
    places = ndtri(np.clip(np.cumsum(shares) - shares / 2, NEAREST, 1 - NEAREST))
    apart = np.maximum(np.diff(places), 1e-3)
    slopes = np.diff(cells, axis=0) / apart[:, None]
    bends = np.diff(slopes, axis=0) / np.sqrt((apart[:-1] + apart[1:]) / 2)[:, None]
    walk, alone = (ROUGHNESS.T**2)[:, :, None, None]
    inverse = np.linalg.inv(walk * np.eye(len(bends)) + alone * (bends @ bends.T))
    ratio, level = (
        bends @ np.hstack([-cells, cells]),
        np.diff(cells, axis=0) @ np.hstack([cells, cells]) / (2 * LEVEL_STEP),
    )
    common = level.T @ level + _TINY * np.eye(2 * len(cells))
    precision: FloatArray = common + ratio.T @ inverse @ ratio
    return precision, np.linalg.slogdet(inverse)[1]


def _misfit(logs: FloatArray, counts: FloatArray, precision: FloatArray, prior: FloatArray) -> FloatArray:
    """Minus the log density of log counts, up to a constant; shape (roughness,)."""
    off, flat = counts - np.exp(np.minimum(logs, LARGEST_LOG)), logs.reshape(logs.shape[0], -1)
    misfit = np.einsum("rci,ij,rcj->r", off, precision, off) + np.einsum("ri,rij,rj->r", flat, prior, flat)
    return np.asarray(misfit / 2, dtype=np.float64)


def _derivatives(
    logs: FloatArray, counts: FloatArray, precision: FloatArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The gradient of ``_misfit``, and its expected second derivatives."""
    rows = np.exp(np.minimum(logs, LARGEST_LOG))
    flat, cells = logs.reshape(logs.shape[0], -1), counts.shape[-1]
    slope = -(rows * ((counts - rows) @ precision)).reshape(flat.shape) + np.einsum("rij,rj->ri", prior, flat)
    curvature = prior.copy()
    for first in (0, cells):
        own = rows[:, first // cells, :]
        curvature[:, first : first + cells, first : first + cells] += own[:, :, None] * precision * own[:, None, :]
    return slope, curvature
