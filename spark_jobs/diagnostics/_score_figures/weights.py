"""The influence of one row on an average precision, and the one-step estimate from a sum of influences.

Near given counts, the average precision is almost linear in the rows. So the exact average precision is that of the
released counts plus the sum of the influences of all rows, up to a remainder of second order (one-step estimates:
Bickel, Klaassen, Ritov, Wellner 1993). A second measurement, one sum of public weights over all rows, therefore
corrects most of the error from the noise of the counts and from the unknown order of rows inside cells. The sensitivity
of this sum is the largest weight, which is far below the worst case of smooth bounds. The few rows with the highest
scores have the largest weights; these are clipped.

Posterior draws of the counts (``_score_figures.smoothing_prior``), with rows in random order inside cells, measure the
remaining uncertainty. The clipping threshold is chosen to minimise the variance of the draws' figures given their noisy
sums. A regression of the draws' figures on their sums gives the estimate and its interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.figure import Figure
from spark_jobs.diagnostics._score_figures.densities import cell_of, expected_rows, fine_cuts, narrow_at_top, sums
from spark_jobs.diagnostics._score_figures.precision import average_precision_of, influence, sampling_variance
from spark_jobs.diagnostics._score_figures.smoothing_prior import (
    CONCENTRATIONS,
    Observation,
    Posterior,
    as_observation,
    posterior_of_draw,
)
from spark_jobs.diagnostics._simulation import normal, with_intervals
from spark_jobs.diagnostics.roc_curve import measurement as roc
from spark_jobs.mechanisms.cells import inside
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from spark_jobs.mechanisms.prefix_sums import monotone
from spark_jobs.mechanisms.weighted_sums import LARGEST, CellWeights

COPIES, INSIDE, QUANTILES = 256, 7, 256
NEAREST, PART = 5.0, 0.7
"""``nearest``, in rows times epsilon, and ``part`` of ``narrow_at_top`` for the fine partition."""
CUT_OFF_AT = 0.5 ** (np.arange(9) / 2)
"""Candidates for the clipping threshold, as shares of the largest weight."""
WIDER = 2.0
"""Factor of the standard deviation of the copies' sums, because the prior does not cover every distribution."""
BEYOND = 2.0
"""Factor, in intervals, of the deviations of figures that the sums do not explain, for the same reason."""
SUM_PLACES, SUM_QUANTILES, REACH = 1_001, 64, 12.0
_TINY, MAX_ROWS = 1e-9, 1e15
"""Bounds of expected rows in a cell, so that every figure is defined and Poisson variates can be drawn."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Copies:
    """Posterior draws of the counts of both classes in a fine partition, ascending scores.

    Attributes:
        cuts: the fine partition.
        middle: estimate of the counts at which influences are computed; shape (2, k).
        drawn: the draws; shape (copies, 2, k).
        figures: average precision of each draw; shape (copies,).
    """

    cuts: Int64Array
    middle: FloatArray
    drawn: FloatArray
    figures: FloatArray


def draw_copies(draw: roc.RocDraw, *, seed: int, cuts: Int64Array | None = None) -> Copies:
    """Posterior draws of fine counts; a deterministic function of released values.

    Args:
        draw: noisy counts in cells, with the histograms that placed them.
        seed: public seed.
        cuts: the fine partition; None to choose it from released values. The choice may differ between machines through
            rounding, so pass the partition of the weights where these exist.
    """
    posterior, counted = posterior_of_draw(draw), draw.cuts
    observations = [as_observation(cells) for cells in draw.located]
    expected = _rising(posterior.expected())
    fine = _partition(draw, posterior, expected, observations) if cuts is None else cuts
    usual = posterior.expected_by_laws(fine) + _TINY
    suggested = expected_rows(usual, fine, observations)
    middle = _spread(expected, counted, fine, suggested)
    drawn = _draws(posterior, fine, suggested / usual, SeededNoise(seed))
    return Copies(cuts=fine, middle=middle, drawn=drawn, figures=_precision(drawn, fine))


def _partition(
    draw: roc.RocDraw, posterior: Posterior, expected: FloatArray, observations: list[Observation]
) -> Int64Array:
    """A fine partition that is finest at the highest scores and contains the cuts of all counts."""
    grid, counted = draw.grid, draw.cuts
    cuts = fine_cuts(grid, counted, *(observation.cuts for observation in observations))
    rows = _spread(expected, counted, cuts, expected_rows(posterior.expected_by_laws(cuts), cuts, observations))
    top = narrow_at_top(
        rows, cuts, grid=grid, cells=min(QUANTILES, grid), nearest=NEAREST / float(draw.epsilon), part=PART
    )
    within = [inside(low, high, min(INSIDE, high - low - 1), grid=grid) for low, high in pairwise(counted.tolist())]
    return np.unique(np.concatenate([counted, top, *within, *(observation.cuts for observation in observations)]))


def choose_weights(draw: roc.RocDraw, *, epsilon: float, seed: int) -> CellWeights:
    """The weights whose noisy sum leaves the smallest variance of the figure; chosen from released values alone.

    Args:
        draw: noisy counts in cells, with the histograms that placed them.
        epsilon: budget of the sum.
        seed: public seed.
    """
    copies = draw_copies(draw, seed=seed)
    changes = influence(copies.middle, copies.cuts)
    largest = max(float(np.abs(changes).max()), _TINY)
    candidates = []
    for part in CUT_OFF_AT:
        resolution = largest * float(part) / LARGEST
        whole = np.rint(np.clip(changes / resolution, -LARGEST, LARGEST)).astype(np.int64)
        weights = CellWeights(cuts=copies.cuts, weights=whole, resolution=resolution)
        noise = laplace_variance(weights.sensitivity(draw.neighbours) / epsilon)
        candidates.append((_residual_variance(copies, weights, noise), weights))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def _residual_variance(copies: Copies, weights: CellWeights, noise: float) -> float:
    """The variance of the figures given the noisy sum, by linear regression."""
    total = np.einsum("jck,ck->j", copies.drawn, weights.weights.astype(np.float64))
    (own, both), (_, of_sums) = np.cov(copies.figures, total)
    return float(own - both**2 / (of_sums + noise))


def precision_given(
    copies: Copies, weights: CellWeights, total: int, *, scale: float, confidence: float, effect: float
) -> Figure[float]:
    """The average precision and its intervals, from posterior draws and the noisy weighted sum.

    The draws' figures are regressed on their sums. The posterior of the exact sum combines two laws: a normal prior,
    whose mean is that of the draws and whose standard deviation is ``WIDER`` times theirs; and the two-sided
    exponential noise about the released sum.

    Args:
        copies: the posterior draws.
        weights: the weights.
        total: the released sum.
        scale: scale of its noise.
        confidence: nominal level of the interval.
        effect: the design effect of the sampling.
    """
    totals = np.einsum("jck,ck->j", copies.drawn, weights.weights.astype(np.float64))
    (_, both), (_, of_sums) = np.cov(copies.figures, totals)
    slope = both / max(of_sums, _TINY)
    place, spread = float(totals.mean()), max(WIDER * float(totals.std()), _TINY)
    # the mode of the density, and places around it at multiples of both scales
    mode = float(np.clip(total, place - spread**2 / scale, place + spread**2 / scale))
    steps = np.linspace(-REACH, REACH, SUM_PLACES)
    at = np.unique(np.concatenate([mode + spread * steps, mode + scale * steps]))
    log = -(((at - place) / spread) ** 2) / 2 - np.abs(at - total) / scale
    chance = np.exp(log - log.max()) * np.gradient(at)
    chance /= chance.sum()
    likely = np.interp((np.arange(SUM_QUANTILES) + 0.5) / SUM_QUANTILES, np.cumsum(chance), at)
    unexplained = copies.figures - slope * totals
    value = float(unexplained.mean() + slope * (chance @ at))
    beyond = unexplained.mean() + BEYOND * (unexplained - unexplained.mean())
    sampling = math.sqrt(effect * sampling_variance(copies.middle, copies.cuts))
    value = float(np.clip(value, 0, 1))
    errors = value - np.add.outer(beyond, slope * likely).ravel()
    return with_intervals(value, errors, sampling=sampling, confidence=confidence)


def _draws(posterior: Posterior, fine: Int64Array, departs: FloatArray, noise: SeededNoise) -> FloatArray:
    """Posterior draws of fine counts.

    Inside a counted cell, each draw follows its own distribution of scores, times ``departs``: the ratio of the rows
    that the histograms suggest to those that the distributions expect.
    """
    counted = posterior.observations[0]
    # systematic resampling: the number of copies of each law differs from its expectation by less than one
    order = (np.arange(COPIES) + 0.5) / COPIES
    picked = np.searchsorted(np.cumsum(posterior.weights.ravel()), order).clip(0, posterior.weights.size - 1)
    family, law = np.unravel_index(picked, posterior.weights.shape)
    cell = cell_of(fine, counted.cuts)
    drawn = np.empty((COPIES, 2, fine.size - 1))
    for number in np.unique(family):
        of = family == number
        evidence, laws = posterior.evidence[number], law[of]
        first, second, both = evidence.spread[:, laws]
        one, other = normal(noise, (2, laws.size))
        own = np.sqrt(np.maximum(first, 0.0))
        tied = both / np.maximum(own, _TINY)
        off = np.stack([own * one, tied * one + np.sqrt(np.maximum(second - tied**2, 0.0)) * other])
        sizes = np.maximum(evidence.sizes[:, laws], 1.0)
        expected = evidence.expected[:, laws] * (np.maximum(sizes + off, 1.0) / sizes)[..., None]
        gain = evidence.gain[:, laws]
        counts = expected + gain * (counted.counts[:, None, :] - expected)
        counts = counts + np.sqrt(gain * counted.variance) * normal(noise, counts.shape)
        inner = posterior.shares(fine, number // len(CONCENTRATIONS), posterior.laws[laws]) + _TINY
        drawn[of] = np.moveaxis(departs[:, None, :] * inner, 0, 1)
        drawn[of] *= (_rising(np.moveaxis(counts, 0, 1)) / sums(drawn[of], cell))[..., cell]
    placed = noise.poissons(np.minimum(drawn, MAX_ROWS), copies=1)[0].astype(np.float64)
    kept = sums(placed, cell)
    wanted = sums(drawn, cell)
    scaled = placed * (wanted / np.maximum(kept, 1.0))[..., cell]
    return np.where((kept > 0)[..., cell], scaled, drawn)


def _spread(counts: FloatArray, counted: Int64Array, fine: Int64Array, rows: FloatArray) -> FloatArray:
    """Counts of cells, distributed over finer cells in proportion to ``rows``."""
    cell = cell_of(fine, counted)
    spread: FloatArray = rows * (counts / sums(rows, cell))[..., cell]
    return spread


def _rising(counts: FloatArray) -> FloatArray:
    """The nearest counts whose cumulative sums from the highest score never fall."""
    flat = counts.reshape(-1, counts.shape[-1])
    above = np.concatenate([np.zeros((flat.shape[0], 1)), np.cumsum(flat[:, ::-1], axis=-1)], axis=-1)
    rising = np.stack([np.diff(monotone(row))[::-1] for row in above])
    return rising.reshape(counts.shape)


def _precision(rows: FloatArray, cuts: Int64Array) -> FloatArray:
    above = np.concatenate([np.zeros_like(rows[..., :1]), np.cumsum(rows[..., ::-1], axis=-1)], axis=-1)
    return average_precision_of(above[..., 0, :], above[..., 1, :], np.diff(cuts)[::-1] == 1)
