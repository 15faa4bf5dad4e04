"""From noisy groups to figures that can be read: pools of groups, their residuals, and what a right model would show.

Everything here is post-processing of a draw. Two simulations, from a public seed, say how far figures may be off:

* ``errors``: the noise of privacy drawn again. Its spread about the released figures stands for the spread of the
  released figures about the exact ones of the same rows (basic bootstrap intervals).
* ``null``: a model whose scores are true. The labels are drawn again, ``Binomial(rows, predicted)`` in each pool, and
  noise on top; test statistics and zones are read off these copies, so that p-values account for the noise.

The binomial has the variance of equal scores within a pool; unequal ones have less, so tests err on the careful side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.figures import DEFINED_ABOVE
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.mechanisms.noise import SeededNoise

COPIES = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class Triples:
    """Positives, negatives and sums of scores of pools, released or simulated; arrays of shape (..., k).

    Attributes:
        positives, negatives, scores: the estimates; unbiased, possibly negative.
        lower, upper: ends of the pools, shape (k,).
    """

    positives: FloatArray
    negatives: FloatArray
    scores: FloatArray
    lower: FloatArray
    upper: FloatArray

    @property
    def rows(self) -> FloatArray:
        """Rows of each pool, at least 1, to divide by."""
        return np.maximum(self.positives + self.negatives, 1.0)

    @property
    def predicted(self) -> FloatArray:
        """The mean score of each pool, within its ends; the middle where hardly a row is left."""
        few = self.positives + self.negatives < 1.0
        middle = (self.lower + self.upper) / 2
        return np.where(few, middle, np.clip(self.scores / self.rows, self.lower, self.upper))

    @property
    def observed(self) -> FloatArray:
        """The share of positives of each pool, in [0, 1]; the mean score where hardly a row is left."""
        few = self.positives + self.negatives < 1.0
        return np.where(few, self.predicted, np.clip(self.positives / self.rows, 0.0, 1.0))

    @property
    def share(self) -> FloatArray:
        """``observed`` before anything is clipped: what its interval is made of."""
        return self.positives / self.rows

    @property
    def residual(self) -> FloatArray:
        """The mean of label minus score."""
        return self.observed - self.predicted

    @property
    def excess(self) -> FloatArray:
        """The sum of label minus score; unbiased."""
        return self.positives - self.scores

    @property
    def mean_excess(self) -> FloatArray:
        """``residual`` before anything is clipped: what intervals are made of."""
        return self.excess / self.rows

    @property
    def variance(self) -> FloatArray:
        """What ``excess`` varies by, through the draw of the labels alone, if the scores are true."""
        return self.rows * self.predicted * (1.0 - self.predicted)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pools:
    """A draw's pools, with their simulations.

    Attributes:
        released: the released figures.
        errors: copies of the noise of privacy in positives, negatives and scores; shape (copies, 3, k).
        pool_of: for each bin, the pool it belongs to; shape (bins,).
        defined: whether there are enough rows to say anything.
        noise: where further simulated numbers come from.
    """

    released: Triples
    errors: FloatArray
    pool_of: Int64Array
    defined: bool
    noise: SeededNoise

    @property
    def noise_variance(self) -> FloatArray:
        """Of the noise of privacy in ``excess``."""
        variance: FloatArray = (self.errors[:, 0] - self.errors[:, 2]).var(axis=0)
        return variance

    def of_bins(self, values: FloatArray) -> FloatArray:
        """Values of pools, as published, repeated for every bin of the pool; shape (bins,)."""
        return rounded(values)[self.pool_of]

    def noisy_copies(self) -> Triples:
        """The released figures with the noise of privacy once more, ``copies`` times."""
        return self._with(self.released.positives, self.released.negatives, self.released.scores)

    def null_copies(self) -> Triples:
        """What would be released of a model whose scores are true, ``copies`` times."""
        rows, predicted = np.round(self.released.rows), self.released.predicted
        trials = np.clip(rows, 0.0, 2.0**62).astype(np.int64)
        positives = self.noise.binomials(trials, predicted, copies=self.errors.shape[0]).astype(np.float64)
        return self._with(positives, rows - positives, rows * predicted)

    def _with(self, positives: FloatArray, negatives: FloatArray, scores: FloatArray) -> Triples:
        return Triples(
            positives=positives + self.errors[:, 0],
            negatives=negatives + self.errors[:, 1],
            scores=scores + self.errors[:, 2],
            lower=self.released.lower,
            upper=self.released.upper,
        )


def pools(measurement: GroupsDraw, *, seed: int, expected: float = 0.0, copies: int | None = None) -> Pools:
    """The pools of a draw, and their simulated noise; deterministic.

    Args:
        measurement: the draw.
        seed: of the simulations; public.
        expected: rows that a pool must be expected to have of either class.
        copies: of the noise; None for ``COPIES``.
    """
    groups, noise = measurement.groups, SeededNoise(seed)
    values, errors = groups.values(), groups.errors(copies or COPIES, noise)
    ends = np.array(_pool_ends(values, (errors[:, 0] + errors[:, 1]).var(axis=0), expected), dtype=np.int64)
    starts = np.concatenate([[0], ends[:-1]])
    cuts = groups.cuts / groups.grid
    pooled = np.add.reduceat(values, starts, axis=-1)
    released = Triples(positives=pooled[0], negatives=pooled[1], scores=pooled[2], lower=cuts[starts], upper=cuts[ends])
    errors = np.add.reduceat(errors, starts, axis=-1)
    rows = float((released.positives + released.negatives).sum())
    spread = float((errors[:, 0] + errors[:, 1]).sum(axis=-1).std())
    group_of_bin = np.searchsorted(measurement.ends, np.arange(measurement.bins.size - 1), side="right")
    return Pools(
        released=released,
        errors=errors,
        pool_of=np.searchsorted(ends, group_of_bin, side="right"),
        defined=rows >= max(1.0, DEFINED_ABOVE * spread),
        noise=noise,
    )


def _pool_ends(values: FloatArray, row_variances: FloatArray, expected: float) -> list[int]:
    """Ends of runs of groups with enough rows; what is left over at the end joins the run before it.

    That may leave fewer expected rows than were asked for, but not fewer rows than the noise allows: runs are joined
    until there are enough. If no run has enough there is one, of all groups.
    """

    def enough(start: int, end: int, expected: float) -> bool:
        positives, negatives, scores = values[:, start:end].sum(axis=-1)
        rows = positives + negatives
        needed = max(1.0, DEFINED_ABOVE * float(np.sqrt(row_variances[start:end].sum())))
        return bool(rows >= needed and min(scores, rows - scores) >= expected)

    count, ends = values.shape[-1], [0]
    for end in range(1, count + 1):
        if enough(ends[-1], end, expected):
            ends.append(end)
    if ends[-1] != count:
        while len(ends) > 1 and not enough(ends[-1], count, 0.0):
            ends.pop()
        ends.append(count)
    return ends[1:]


def p_value(released: float, copies: FloatArray) -> float:
    """The share of copies at least as large, the released figure counted among them: never 0."""
    return float((1 + (copies >= released).sum()) / (1 + copies.size))


def either_p_value(released: FloatArray, copies: FloatArray) -> tuple[float, FloatArray]:
    """One p-value for several statistics, and each one's own: how often the least of a copy's is as small as theirs.

    Args:
        released: the statistics, shape (s,).
        copies: of each under the null, shape (s, copies).
    """
    own = np.array([p_value(float(value), row) for value, row in zip(released, copies, strict=True)])
    ranks = np.sort(copies, axis=-1)
    exceedances = [row.size - np.searchsorted(rank, row, side="left") for rank, row in zip(ranks, copies, strict=True)]
    smallest = np.min(np.stack(exceedances), axis=0) / copies.shape[-1]
    return float((1 + (smallest <= own.min()).sum()) / (1 + smallest.size)), own
