"""The posterior mean of counts of cells, given noisy counts and a broad prior on the scores; post-processing.

If the noise is large compared to the counts, a curve that is computed from the noisy counts alone is biased towards the
diagonal, because noise adds rows to empty cells. A prior helps. Within a class, log-odds of scores mostly have one
mode, so the prior is one of five families of distributions with unknown location and width (a *law* is one such
distribution): with light, heavier and heavy tails, or skewed to either side. Light tails alone would not do: they
expect hardly any rows far out, where a few rows decide the precision, and noisy counts there cannot correct that
expectation. The prior mean of the location is fixed, unless counts say that scores lie far from it. Counts may depart
from a law as under a Dirichlet process, with one of several ``CONCENTRATIONS``, which are weighed by the data. If the
counts are accurate, the posterior mean follows them entirely, and the prior has no effect.

The posterior is computed by importance sampling over laws: low-discrepancy points, which a few rounds move to the
region of high evidence. Noise and departures are approximated as normal, so that class sizes integrate out in closed
form. The result is a deterministic function of released values and public constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_ndtr, ndtr, ndtri

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.mechanisms.cells import NoisyCells, log_odds
from spark_jobs.mechanisms.noise import laplace_variance
from spark_jobs.mechanisms.prefix_sums import monotone

CENTRE = np.array([-1.0, -0.1, 0.0, 1.0])
SPREAD = np.array([1.5, 0.6, 0.35, 1.0])
"""Means and standard deviations of the prior, which is normal and independent: the midpoint of the class locations and
the logarithms of one width and of the ratio of the widths, in log-odds; and the AUC in normal deviates (1 is 0.84)."""
Law = Callable[[FloatArray], FloatArray]
_MEAN, _WIDTH, _FURTHEST = 0.5772156649, 1.2825498302, 30.0  # of the extreme-value distribution


def _student(z: FloatArray) -> FloatArray:
    """Student's distribution with three degrees of freedom."""
    part = z / np.sqrt(3)
    return np.asarray(0.5 + (part / (1 + part**2) + np.arctan(part)) / np.pi)


def _skewed(z: FloatArray) -> FloatArray:
    """The extreme-value distribution (Gumbel), skewed to the right."""
    return np.asarray(np.exp(-np.exp(np.clip(-_MEAN - _WIDTH * z, -_FURTHEST, _FURTHEST))))


LAWS: Sequence[Law] = (
    ndtr,
    lambda z: np.asarray(expit(1.7 * z), dtype=np.float64),
    _student,
    _skewed,
    lambda z: np.asarray(1.0 - _skewed(-z), dtype=np.float64),
)
"""Families: normal, logistic, heavy-tailed, and skewed to the right and to the left."""
CONCENTRATIONS = (10.0, 30.0, 100.0, 300.0)
SEARCHED_AT = 100.0
STRAY = 0.1
"""Share of a law that is spread evenly over the cells in the variance of departures, to allow for stray rows."""
LAWS_TRIED, ROUNDS, MIN_IN_USE = 512, 4, 0.1
MIN_WEIGHT = 0.01
FAR = 3.0
"""Standard deviations of the prior from which scores lie too far from its centre for it."""
CLEAR_OF_NOISE = 5.0
"""Standard deviations of the noise in the number of rows from which the middle of the rows is known."""
MIN_VARIANCE = 1e-6
"""Smallest variance of noise, so that it can divide at every epsilon."""
_PLASTIC = 1.1673039782614187  # x^5 = x + 1: low-discrepancy additive recurrence in four dimensions (Roberts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """Noisy counts of cells, of equal variance: of both classes together, shape (k,), or of each, shape (2, k)."""

    cuts: Int64Array
    counts: FloatArray
    variance: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """The posterior given each law (a distribution of scores), for one family of laws and one concentration.

    Attributes:
        log: log evidence; shape (laws,).
        sizes: expected class sizes; shape (2, laws).
        spread: variances and covariance of the class sizes; shape (3, laws).
        expected: counts that the law expects in the cells of the first observation; shape (2, laws, k).
        gain: share of a count's deviation from ``expected`` that the posterior mean follows; shape (2, laws, k).
    """

    log: FloatArray
    sizes: FloatArray
    spread: FloatArray
    expected: FloatArray
    gain: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """The posterior: laws (distributions of scores) with their weights, for each family and concentration.

    Attributes:
        observations: the noisy counts; estimates are for the cells of the first.
        grid: number of fine cells.
        laws: parameters of the laws, in the order of ``CENTRE``; shape (laws, 4).
        evidence: one entry for each family and each concentration in it.
        weights: posterior weights, which add up to 1; shape (entries of evidence, laws).
    """

    observations: tuple[Observation, ...]
    grid: int
    laws: FloatArray
    evidence: tuple[Evidence, ...]
    weights: FloatArray

    def expected(self) -> FloatArray:
        """The posterior mean of the counts of both classes in the cells of the first observation; shape (2, k)."""
        first = self.observations[0].counts[:, None, :]
        counts = np.stack(
            [evidence.expected + evidence.gain * (first - evidence.expected) for evidence in self.evidence]
        )
        expected: FloatArray = np.einsum("el,eclk->ck", self.weights, counts)
        return expected

    def shares(self, cuts: Int64Array, family: int, laws: FloatArray) -> FloatArray:
        """The shares of both classes in the cells of any partition, for laws of one family; shape (2, laws, k)."""
        return _shares(cuts, self.grid, laws, LAWS[family])

    def expected_by_laws(self, cuts: Int64Array) -> FloatArray:
        """The counts that the weighted laws expect in the cells of any partition; shape (2, k)."""
        total = np.zeros((2, cuts.size - 1))
        for family in range(len(LAWS)):
            own = slice(family * len(CONCENTRATIONS), (family + 1) * len(CONCENTRATIONS))
            sizes = np.maximum(np.stack([evidence.sizes for evidence in self.evidence[own]]), 1.0)
            rows = np.einsum("el,ecl->cl", self.weights[own], sizes)
            # laws of negligible weight are left out to save time
            used = np.flatnonzero(self.weights[own].sum(axis=0) > MIN_WEIGHT / self.laws.shape[0])
            total += np.einsum("cl,clk->ck", rows[:, used], self.shares(cuts, family, self.laws[used]))
        return total


def posterior_of_draw(draw: RocDraw) -> Posterior:
    """The posterior given all counts of a draw; the first observation is that of the counted cells."""
    released = np.stack([draw.negatives.counts(), draw.positives.counts()])
    variance = max(draw.negatives.range_variance(0, 1), MIN_VARIANCE)
    own = Observation(cuts=draw.cuts, counts=released, variance=variance)
    return posterior_of_counts((own, *map(as_observation, draw.located)), grid=draw.grid)


def as_observation(cells: NoisyCells) -> Observation:
    """A noisy histogram as an observation."""
    variance = max(laplace_variance(cells.scale), MIN_VARIANCE)
    return Observation(cuts=cells.cuts, counts=cells.counts.astype(np.float64), variance=variance)


def posterior_of_counts(observations: tuple[Observation, ...], *, grid: int) -> Posterior:
    """The posterior given noisy counts, by importance sampling; deterministic.

    Args:
        observations: released counts; the first observation must have counts of each class.
        grid: number of fine cells.
    """
    first = observations[0]
    noise = 0.5 * np.sqrt(first.variance * first.counts.shape[-1])
    sizes = np.maximum(first.counts.sum(axis=-1), noise)
    points, centre = _points(), centre_of_prior(first, grid)
    laws, drawn = centre + points * SPREAD, _log_normal(points)
    for _ in range(ROUNDS):
        shares = [_shares(observation.cuts, grid, laws, LAWS[0]) for observation in observations]
        weights = _tempered(_evidence(observations, shares, SEARCHED_AT, sizes).log + _prior(laws, centre) - drawn)
        mean = weights @ laws
        off = (laws - mean) * np.sqrt(weights)[:, None]
        # wider than the sample, because a proposal must cover the tails
        root = np.linalg.cholesky(1.5 * off.T @ off + 1e-4 * np.diag(SPREAD**2))
        laws, drawn = mean + points @ root.T, _log_normal(points) - np.log(np.diag(root)).sum()
    evidence = []
    for law in LAWS:
        shares = [_shares(observation.cuts, grid, laws, law) for observation in observations]
        evidence += [_evidence(observations, shares, concentration, sizes) for concentration in CONCENTRATIONS]
    logs = np.stack([observation.log for observation in evidence]) + _prior(laws, centre) - drawn
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    return Posterior(observations=observations, grid=grid, laws=laws, evidence=tuple(evidence), weights=weights)


def _points() -> FloatArray:
    order = np.arange(1, LAWS_TRIED + 1)[:, None]
    deviates: FloatArray = ndtri((0.5 + order * _PLASTIC ** -np.arange(1, 5)) % 1.0)
    return deviates


def _log_normal(points: FloatArray) -> FloatArray:
    return np.asarray(-(points**2).sum(axis=-1) / 2, dtype=np.float64)


def centre_of_prior(counted: Observation, grid: int) -> FloatArray:
    """The means of the prior.

    The mean of the location is fixed, unless the median of the counts is known and lies far out (``FAR``); then it is
    that median. The reason: scores of rare events may all lie below 0.0001. A prior with the usual location would make
    classes that lie there less likely than a class that is spread over the whole grid, and noise in the empty cells
    would count as rows.

    Args:
        counted: noisy counts of the whole grid.
        grid: number of fine cells.
    """
    of_both = counted.counts.sum(axis=0) if counted.counts.ndim > 1 else counted.counts
    below = monotone(np.append(0.0, np.cumsum(of_both)))
    noise = float(np.sqrt(counted.counts.size * counted.variance))
    middle = float(np.interp(below[-1] / 2, below, log_odds(counted.cuts, grid)))
    if below[-1] < CLEAR_OF_NOISE * noise or abs(middle - CENTRE[0]) < FAR * SPREAD[0]:
        return CENTRE
    return np.array([middle, *CENTRE[1:]])


def _prior(laws: FloatArray, centre: FloatArray) -> FloatArray:
    return _log_normal((laws - centre) / SPREAD)


def _tempered(log_weights: FloatArray) -> FloatArray:
    """Weights raised to the largest power, at most 1, that leaves a large enough effective sample."""
    for power in 0.5 ** np.arange(30):
        weights = np.exp(power * (log_weights - log_weights.max()))
        weights /= weights.sum()
        if 1.0 / (weights**2).sum() >= MIN_IN_USE * weights.size:
            break
    return np.asarray(weights, dtype=np.float64)


def _shares(cuts: Int64Array, grid: int, laws: FloatArray, law: Law) -> FloatArray:
    """The shares of both classes in each cell, for each law; shape (2, laws, k)."""
    middle, log_width, log_ratio, apart = laws.T
    widths = np.exp(np.stack([log_width, log_width + log_ratio]))
    gap = np.sqrt((widths**2).sum(axis=0)) * apart
    places = np.stack([middle - gap / 2, middle + gap / 2])
    below = law((log_odds(cuts[1:-1], grid) - places[..., None]) / widths[..., None])
    ends = np.zeros((*below.shape[:-1], 1))
    shares: FloatArray = np.diff(np.concatenate([ends, below, ends + 1], axis=-1), axis=-1)
    return shares


def _evidence(
    observations: Sequence[Observation], expected_shares: Sequence[FloatArray], concentration: float, sizes: FloatArray
) -> Evidence:
    """The evidence of laws: the normal likelihood of all observations, integrated over positive class sizes.

    Both sizes enter linearly: with precision matrix ``a`` and vector ``b`` their mean is ``a^-1 b``.
    """
    log = np.zeros(expected_shares[0].shape[1])
    own, common, vector = np.zeros((2, log.size)), np.zeros(log.size), np.zeros((2, log.size))
    first: tuple[FloatArray, FloatArray] | None = None
    for observation, shares in zip(observations, expected_shares, strict=True):
        even = (1 - STRAY) * shares + STRAY / shares.shape[-1]
        departures = (sizes**2)[:, None, None] * even * (1 - even) / (concentration + 1)
        counts = observation.counts if observation.counts.ndim == 1 else observation.counts[:, None, :]
        variances = observation.variance + (departures.sum(axis=0) if observation.counts.ndim == 1 else departures)
        own += (shares**2 / variances).sum(axis=-1)
        vector += (shares * counts / variances).sum(axis=-1)
        parts = (counts**2 / variances + np.log(variances)).sum(axis=-1) / 2
        if observation.counts.ndim == 1:
            common += (shares[0] * shares[1] / variances).sum(axis=-1)
            log -= parts
        else:
            log -= parts.sum(axis=0)
            first = first or (shares, departures)
    determinant = own[0] * own[1] - common**2
    means = (own[::-1] * vector - common * vector[::-1]) / determinant
    log += (vector * means).sum(axis=0) / 2 - np.log(determinant) / 2
    log += log_ndtr(means * np.sqrt(determinant / own[::-1])).sum(axis=0)
    shares, departures = first or (np.zeros(0), np.zeros(0))
    return Evidence(
        log=log,
        sizes=means,
        spread=np.stack([own[1], own[0], -common]) / determinant,
        expected=np.maximum(means, 1.0)[..., None] * shares,
        gain=departures / (departures + observations[0].variance),
    )
