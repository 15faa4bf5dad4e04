"""Pools of groups with enough rows, and simulations of their noise; post-processing of a draw.

Two simulations, from a public seed, measure the error of released figures:

* ``possible_copies``: the released figures less fresh noise, which is what the exact figures of the same rows may be.
* ``null_copies``: releases of a calibrated model. In each pool labels are drawn as ``Binomial(rows, predicted)``, and
  noise is added. Zones and p-values come from these copies, so they account for the noise.

Each score counts as the middle of its cell. This rounding may move a figure, which no simulation shows; so intervals
are widened by the largest possible move (``Pools.moved``).

The binomial has the variance of rows with equal scores. Rows with unequal scores have less variance, so tests are
conservative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.figures import DEFINED_ABOVE
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import edges_of, furthest_from

COPIES = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class Triples:
    """Positives, negatives and sums of scores of pools, released or simulated.

    Attributes:
        positives, negatives, scores: unbiased estimates, possibly negative; shape (..., k).
        lower, upper: ends of the pools, as scores; shape (k,).
    """

    positives: FloatArray
    negatives: FloatArray
    scores: FloatArray
    lower: FloatArray
    upper: FloatArray

    @property
    def rows(self) -> FloatArray:
        """Rows of each pool, at least 1, so that one can divide by them."""
        return np.maximum(self.positives + self.negatives, 1.0)

    @property
    def predicted(self) -> FloatArray:
        """Mean score of each pool, clipped to its ends; the middle of a pool with less than one row."""
        few = self.positives + self.negatives < 1.0
        middle = (self.lower + self.upper) / 2
        return np.where(few, middle, np.clip(self.scores / self.rows, self.lower, self.upper))

    @property
    def observed(self) -> FloatArray:
        """Share of positives of each pool, clipped to [0, 1]; the mean score in a pool with less than one row."""
        few = self.positives + self.negatives < 1.0
        return np.where(few, self.predicted, np.clip(self.positives / self.rows, 0.0, 1.0))

    @property
    def share(self) -> FloatArray:
        """Share of positives of each pool before clipping; used for the interval of ``observed``."""
        return self.positives / self.rows

    @property
    def residual(self) -> FloatArray:
        """Mean of label minus score in each pool."""
        return self.observed - self.predicted

    @property
    def excess(self) -> FloatArray:
        """Unbiased sum of label minus score in each pool."""
        return self.positives - self.scores

    @property
    def mean_excess(self) -> FloatArray:
        """Mean of label minus score in each pool before clipping; used for the interval of ``residual``."""
        return self.excess / self.rows

    @property
    def variance(self) -> FloatArray:
        """Variance of ``excess`` from the labels of a calibrated model, without noise."""
        return self.rows * self.predicted * (1.0 - self.predicted)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pools:
    """The pools of a draw, with simulated noise.

    Attributes:
        released: the released figures.
        errors: copies of the noise in positives, negatives and scores; shape (copies, 3, k).
        pool_of: pool of each bin; shape (bins,).
        defined: whether the number of rows clearly exceeds its noise.
        moved: how far rounding may have moved the mean score of each pool; shape (k,).
        noise: sampler of further simulated numbers, from a public seed.
        effect: the design effect of the sampling: the number of rows that carry as much information as one row that is
            sampled by itself.
    """

    released: Triples
    errors: FloatArray
    pool_of: Int64Array
    defined: bool
    moved: FloatArray
    noise: SeededNoise
    effect: float = 1.0

    @property
    def noise_variance(self) -> FloatArray:
        """Variance of the noise in ``excess``; shape (k,)."""
        variance: FloatArray = (self.errors[:, 0] - self.errors[:, 2]).var(axis=0)
        return variance

    def of_bins(self, values: FloatArray) -> FloatArray:
        """Rounded values of pools, repeated for every bin of a pool; shape (bins,)."""
        return rounded(values)[self.pool_of]

    def possible_copies(self) -> Triples:
        """The released figures less fresh copies of the noise."""
        return self._with(self.released.positives, self.released.negatives, self.released.scores, sign=-1)

    def null_copies(self) -> Triples:
        """Simulated releases of a calibrated model on rows of the same number."""
        rows, predicted = np.round(self.released.rows), self.released.predicted
        trials = np.clip(np.ceil(rows / self.effect), 0.0, 2.0**62).astype(np.int64)
        drawn = self.noise.binomials(trials, predicted, copies=self.errors.shape[0])
        positives = drawn * (rows / np.maximum(trials, 1))
        return self._with(positives, rows - positives, rows * predicted)

    def _with(self, positives: FloatArray, negatives: FloatArray, scores: FloatArray, sign: int = 1) -> Triples:
        errors = sign * self.errors
        return Triples(
            positives=positives + errors[:, 0],
            negatives=negatives + errors[:, 1],
            scores=scores + errors[:, 2],
            lower=self.released.lower,
            upper=self.released.upper,
        )


def pools(
    draw: GroupsDraw, *, seed: int, expected: float = 0.0, copies: int | None = None, effect: float = 1.0
) -> Pools:
    """Merge the groups of a draw into pools, and simulate their noise; a function of its arguments.

    Args:
        draw: the draw.
        seed: public seed of the simulations.
        expected: smallest expected number of rows of each class in a pool.
        copies: number of copies of the noise; None means ``COPIES``.
        effect: the design effect of the sampling.
    """
    groups, noise = draw.groups, SeededNoise(seed)
    values, errors = groups.values(), groups.errors(copies or COPIES, noise)
    ends = np.array(_pool_ends(values, (errors[:, 0] + errors[:, 1]).var(axis=0), expected), dtype=np.int64)
    starts = np.concatenate([[0], ends[:-1]])
    cuts = edges_of(groups.grid)[groups.cuts]
    pooled = np.add.reduceat(values, starts, axis=-1)
    released = Triples(positives=pooled[0], negatives=pooled[1], scores=pooled[2], lower=cuts[starts], upper=cuts[ends])
    errors = np.add.reduceat(errors, starts, axis=-1)
    rows = float((released.positives + released.negatives).sum())
    spread = float((errors[:, 0] + errors[:, 1]).sum(axis=-1).std())
    group_of_bin = np.searchsorted(draw.ends, np.arange(draw.bins.size - 1), side="right")
    return Pools(
        released=released,
        errors=errors,
        pool_of=np.searchsorted(ends, group_of_bin, side="right"),
        defined=rows >= max(1.0, DEFINED_ABOVE * spread),
        moved=furthest_from(released.predicted, groups.grid) + np.maximum.reduceat(groups.off_units, starts),
        noise=noise,
        effect=effect,
    )


def _pool_ends(values: FloatArray, row_variances: FloatArray, expected: float) -> list[int]:
    """Ends of runs of groups with enough rows; the rest at the end joins the run before it.

    The last run may then have fewer expected rows than ``expected``, but runs are joined until its rows exceed their
    noise. If no run has enough rows, all groups are one run.
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
    """The share of figures at least as large, among the copies and the released figure itself; never 0."""
    return float((1 + (copies >= released).sum()) / (1 + copies.size))


def either_p_value(released: FloatArray, copies: FloatArray) -> tuple[float, FloatArray]:
    """A joint p-value for several statistics, and the p-value of each.

    The joint p-value is the share of copies whose smallest p-value is at most the smallest released one.

    Args:
        released: the statistics, shape (s,).
        copies: simulated statistics under the null hypothesis, shape (s, copies).
    """
    own = np.array([p_value(float(value), row) for value, row in zip(released, copies, strict=True)])
    ranks = np.sort(copies, axis=-1)
    exceedances = [row.size - np.searchsorted(rank, row, side="left") for rank, row in zip(ranks, copies, strict=True)]
    smallest = np.min(np.stack(exceedances), axis=0) / copies.shape[-1]
    return float((1 + (smallest <= own.min()).sum()) / (1 + smallest.size)), own
