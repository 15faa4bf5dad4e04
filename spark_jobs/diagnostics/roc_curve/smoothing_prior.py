"""Noisy counts read in the light of a broad prior: what the cells may be expected to hold. Free post-processing.

Where noise is large against the counts, a curve made of them as they are leans to the diagonal: noise adds rows to
cells that hold none. What is known of scores helps. Within a class their log-odds mostly have one hump: a normal or a
logistic law, whose place and width are free. The truth may depart from such laws; how far is itself unknown, and read
off the counts: cells vary about a law as under a Dirichlet process of concentration ``CONCENTRATIONS``. Where counts
say more than the noise hides, the departure takes all of them in, and nothing but the counts is left.

The estimate is the posterior mean of the cells' counts, by importance sampling over the laws: low-discrepancy points,
moved in a few rounds to where the evidence is. Noise and departures are taken as normal, so that class sizes
integrate out in closed form. A deterministic function of released values and public constants.
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
from spark_jobs.mechanisms.prefix_sums import NoisyTree

CENTRE = np.array([-1.0, -0.1, 0.0, 1.0])
SPREAD = np.array([1.5, 0.6, 0.35, 1.0])
"""Of the prior: the middle between the classes' places, the logarithms of a width and of the ratio of both, in
log-odds, and the AUC in normal deviates (1 is an AUC of 0.84). Normal and independent."""
Law = Callable[[FloatArray], FloatArray]
LAWS: Sequence[Law] = (ndtr, lambda z: np.asarray(expit(1.7 * z), dtype=np.float64))
CONCENTRATIONS = (10.0, 30.0, 100.0, 300.0)
SEARCHED_AT = 100.0
STRAY = 0.1
"""This share of a law is even over the cells, when its departures are told: what no law foresees happens too."""
LAWS_TRIED, ROUNDS, MIN_IN_USE = 512, 4, 0.1
MAX_CELLS = 300
MIN_WEIGHT = 0.01
MIN_VARIANCE = 1e-6
"""Stands for the variance of noise that is as good as none: there is something to divide by, whatever epsilon is."""
_PLASTIC = 1.1673039782614187  # x^5 = x + 1: the additive recurrence in four dimensions of least discrepancy (Roberts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """Noisy counts of cells: of both classes together, shape (k,), or of each, shape (2, k), all of one variance."""

    cuts: Int64Array
    counts: FloatArray
    variance: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What each law makes of all that was seen, for one family of laws and one concentration.

    Attributes:
        log: log evidence; shape (laws,).
        sizes: expected class sizes, (2, laws). spread: their variances and covariance, (3, laws).
        foreseen: counts that the law alone expects in the first cells seen, (2, laws, k).
        taken_in: the part of a count's deviation from it that is believed, of the same shape.
    """

    log: FloatArray
    sizes: FloatArray
    spread: FloatArray
    expected: FloatArray
    gain: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """The posterior: laws, and how much each of them weighs with each family and concentration.

    Attributes:
        observations: what was read; the cells that estimates are of come first.
        grid: fine cells.
        laws: shape (laws, 4), as ``CENTRE`` orders them.
        evidence: for each family, and each concentration in it. weights: shape (evidence, laws); they add up to 1.
    """

    observations: tuple[Observation, ...]
    grid: int
    laws: FloatArray
    evidence: tuple[Evidence, ...]
    weights: FloatArray

    def expected(self) -> FloatArray:
        """The posterior mean of the counts of both classes in the first cells seen; shape (2, k)."""
        first = self.observations[0].counts[:, None, :]
        counts = np.stack(
            [evidence.expected + evidence.gain * (first - evidence.expected) for evidence in self.evidence]
        )
        expected: FloatArray = np.einsum("el,eclk->ck", self.weights, counts)
        return expected

    def shares(self, cuts: Int64Array, family: int, laws: FloatArray) -> FloatArray:
        """What laws of a family put into each cell of any partition, for both classes; shape (2, laws, k)."""
        return _shares(cuts, self.grid, laws, LAWS[family])

    def expected_by_laws(self, cuts: Int64Array) -> FloatArray:
        """The counts that the laws alone expect in the cells of any partition; shape (2, k)."""
        total = np.zeros((2, cuts.size - 1))
        for family in range(len(LAWS)):
            own = slice(family * len(CONCENTRATIONS), (family + 1) * len(CONCENTRATIONS))
            sizes = np.maximum(np.stack([evidence.sizes for evidence in self.evidence[own]]), 1.0)
            rows = np.einsum("el,ecl->cl", self.weights[own], sizes)
            # laws that hardly any weight is left to are not worth their time
            counts = np.flatnonzero(self.weights[own].sum(axis=0) > MIN_WEIGHT / self.laws.shape[0])
            total += np.einsum("cl,clk->ck", rows[:, counts], self.shares(cuts, family, self.laws[counts]))
        return total


def has_prior(measurement: RocDraw) -> bool:
    """Whether there is noise of a known law in a few cells that were placed for the scores, without ties."""
    few = measurement.cuts.size <= MAX_CELLS
    return measurement.method == "auto" and few and not measurement.tied and not _has_histograms(measurement)


def _has_histograms(measurement: RocDraw) -> bool:
    return not (isinstance(measurement.negatives, NoisyTree) and isinstance(measurement.positives, NoisyTree))


def expected_counts(measurement: RocDraw) -> FloatArray:
    """The posterior mean of the counts of both classes in the counted cells; shape (2, k), negatives first.

    Args:
        measurement: a draw that ``can_be_read``, with noisy class sizes of 1 at least.
    """
    return posterior_of_draw(measurement).expected()


def posterior_of_draw(measurement: RocDraw) -> Posterior:
    """What all counts of a draw say together, those of the counted cells first."""
    released = np.stack([measurement.negatives.counts(), measurement.positives.counts()])
    variance = max(measurement.negatives.range_variance(0, 1), MIN_VARIANCE)
    own = Observation(cuts=measurement.cuts, counts=released, variance=variance)
    return posterior_of_counts((own, *map(as_observation, measurement.located)), grid=measurement.grid)


def as_observation(cells: NoisyCells) -> Observation:
    """A look, as it is read."""
    variance = max(laplace_variance(cells.scale), MIN_VARIANCE)
    return Observation(cuts=cells.cuts, counts=cells.counts.astype(np.float64), variance=variance)


def posterior_of_counts(observations: tuple[Observation, ...], *, grid: int) -> Posterior:
    """The posterior given noisy counts, by importance sampling; deterministic.

    Args:
        observations: released counts; the first ones tell the classes apart.
        grid: fine cells.
    """
    first = observations[0]
    noise = 0.5 * np.sqrt(first.variance * first.counts.shape[-1])
    sizes = np.maximum(first.counts.sum(axis=-1), noise)
    points = _points()
    laws, drawn = CENTRE + points * SPREAD, _log_normal(points)
    for _ in range(ROUNDS):
        shares = [_shares(observation.cuts, grid, laws, LAWS[0]) for observation in observations]
        weights = _tempered(_evidence(observations, shares, SEARCHED_AT, sizes).log + _prior(laws) - drawn)
        mean = weights @ laws
        off = (laws - mean) * np.sqrt(weights)[:, None]
        # wider than what was found: a proposal must not miss the tails
        root = np.linalg.cholesky(1.5 * off.T @ off + 1e-4 * np.diag(SPREAD**2))
        laws, drawn = mean + points @ root.T, _log_normal(points) - np.log(np.diag(root)).sum()
    evidence = []
    for law in LAWS:
        shares = [_shares(observation.cuts, grid, laws, law) for observation in observations]
        evidence += [_evidence(observations, shares, concentration, sizes) for concentration in CONCENTRATIONS]
    logs = np.stack([observation.log for observation in evidence]) + _prior(laws) - drawn
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    return Posterior(observations=observations, grid=grid, laws=laws, evidence=tuple(evidence), weights=weights)


def _points() -> FloatArray:
    order = np.arange(1, LAWS_TRIED + 1)[:, None]
    deviates: FloatArray = ndtri((0.5 + order * _PLASTIC ** -np.arange(1, 5)) % 1.0)
    return deviates


def _log_normal(points: FloatArray) -> FloatArray:
    return np.asarray(-(points**2).sum(axis=-1) / 2, dtype=np.float64)


def _prior(laws: FloatArray) -> FloatArray:
    return _log_normal((laws - CENTRE) / SPREAD)


def _tempered(log_weights: FloatArray) -> FloatArray:
    """Weights to a power of at most 1 that leaves enough points in use."""
    for power in 0.5 ** np.arange(30):
        weights = np.exp(power * (log_weights - log_weights.max()))
        weights /= weights.sum()
        if 1.0 / (weights**2).sum() >= MIN_IN_USE * weights.size:
            break
    return np.asarray(weights, dtype=np.float64)


def _shares(cuts: Int64Array, grid: int, laws: FloatArray, law: Law) -> FloatArray:
    """What each law puts into each cell, for both classes; shape (2, laws, k)."""
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
    """Laplace's integral over class sizes, positive ones, of the normal likelihood of all that was seen.

    The two sizes enter linearly: with precision matrix ``a`` and vector ``b`` they have the mean ``a^-1 b``.
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
