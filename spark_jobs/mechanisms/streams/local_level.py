"""A count released at every step of a stream: Laplace noise with all of epsilon, then a causal filter of noisy counts.

Mechanism: ``y_t = c_t + noise``, two-sided geometric noise of scale ``1 / epsilon`` under ADD_REMOVE and
``2 / epsilon`` under REPLACE_ONE. Neighbours: one row, one event, there or not, or at another step.
Cost: ``epsilon`` for a stream of any length. Proof: steps are disjoint, so an added or removed row changes one count by
one, and a moved row changes two counts by one each. Estimates and bands are functions of the noisy counts alone:
post-processing, free. A person with k events has a loss of k epsilon.

Filter: the local level model (Harvey 1989, section 2.2; Durbin and Koopman 2012, chapter 2), ``c_t = c_{t-1} + w_t``
with w of variance q. The variance v of the noise is known; q is the mean square of ``y_t - y_{t-1}`` less 2 v, at
least 0. With a season of s steps a second prediction is the filtered count of the same place in the season before,
from the same model over seasons. Predictions are combined with weights inverse to their error variances (Bates and
Granger 1969). The noise of a step is independent of everything before it, so the error variance of any prediction is
the mean square of its innovations less v, whatever the counts do: no model is assumed for weights and bands.

Bands: an estimate is ``m + K (y - m)`` for the prediction m with error variance P, and its error variance is
``(1 - K)^2 P + K^2 v``. P is raised by half a standard error of the mean square of Laplace noise (kurtosis 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.options.streams import MAX_SEASON
from spark_jobs.contract.privacy import Neighbours, exact_decimal
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.streams.pegasus import MAX_COUNT, require_epsilon, require_number

MEMORY = 500
"""Steps over which mean squares are taken: a running mean first, exponential from there on."""


@dataclass(frozen=True, kw_only=True)
class LocalLevelShape:
    """The public facts of a stream.

    Attributes:
        epsilon: the cost of the whole stream.
        neighbours: the relation.
        season: steps of a season, such as 24 for hours of a day; 0 for none.
        confidence: nominal level of bands.
        spendings: what the stream costs; derived from the other attributes.

    Raises:
        InvalidRequest: a parameter is out of its bounds.
    """

    epsilon: Cost
    neighbours: Neighbours
    season: int = 0
    confidence: float = 0.9
    spendings: tuple[Spending, ...] = field(init=False)

    def __post_init__(self) -> None:
        total = exact_decimal(self.epsilon, what="epsilon")
        require_epsilon(total, total, "counts")
        require_number("season", self.season, 0, MAX_SEASON, whole=True)
        require_number("confidence", self.confidence, 0.5, 0.999)
        meter = BudgetMeter(total)
        meter.spend_rest(label="counts of steps")
        object.__setattr__(self, "spendings", meter.spendings)

    @property
    def counting(self) -> Decimal:
        """The epsilon of the counts."""
        return self.spendings[0].epsilon

    @property
    def variance(self) -> float:
        """Of the noise of a count."""
        return laplace_variance(laplace_scale(self.counting, rows_changed(self.neighbours)))


@dataclass(frozen=True, kw_only=True)
class FilterMoments:
    """Estimates of a local level filter from the counts so far; a function of released counts.

    Attributes:
        changes: mean square of the changes of noisy counts, from a step, or from a season, to the next.
        innovations: mean square of noisy count less prediction.
        spread: variance of a filtered count by the model.
    """

    changes: float = 0.0
    innovations: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LocalLevelState:
    """What is kept between two steps; all of it is a function of released counts.

    Attributes:
        step: steps so far.
        level, count: filtered and noisy count of the step before.
        recent: moments of the filter over steps.
        levels, counts: filtered and noisy counts of the places of the season, as far as they were reached.
        seasonal: moments of the filter over seasons.
        combined: mean square of the innovations of both predictions together.
    """

    step: int = 0
    level: float = 0.0
    count: float = 0.0
    recent: FilterMoments = FilterMoments()
    levels: tuple[float, ...] = ()
    counts: tuple[float, ...] = ()
    seasonal: FilterMoments = FilterMoments()
    combined: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalLevelSteps:
    """What was released of a few steps.

    Attributes:
        first: the first of them, counted from 0.
        noisy: noisy counts, shape (n,); unbiased, and what sums over windows are added up from.
        estimates: filtered counts, at least 0, shape (n,); whole where they rest mostly on the step's own noisy count.
        lower, upper: ends of the bands for the exact counts, at least 0, shape (n,).
    """

    first: int
    noisy: Int64Array
    estimates: FloatArray
    lower: FloatArray
    upper: FloatArray


def release_filtered_steps(
    state: LocalLevelState, counts: Int64Array, *, shape: LocalLevelShape, noise: Noise
) -> tuple[LocalLevelState, LocalLevelSteps]:
    """The next steps: their counts go in, estimates with bands come out; all steps of a stream cost ``epsilon`` once.

    Args:
        state: after the step before; ``LocalLevelState()`` at first.
        counts: rows of each step, whole numbers, shape (n,); private, and clipped to 0 to 2^40.
        shape: the public facts, the same at every step.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    exact = np.clip(counts.astype(np.int64), 0, MAX_COUNT)
    noisy = noise.laplace(exact, epsilon=shape.counting, l1_sensitivity=rows_changed(shape.neighbours))
    return filter_steps(state, noisy, shape=shape)


def filter_steps(
    state: LocalLevelState, noisy: Int64Array, *, shape: LocalLevelShape
) -> tuple[LocalLevelState, LocalLevelSteps]:
    """``release_filtered_steps`` after its noise: free, and the same for any division of a stream into calls."""
    after, (centres, variances, gains) = _filtered(state, noisy.tolist(), shape.variance, int(shape.season))
    half = float(ndtri((1 + shape.confidence) / 2)) * np.sqrt(variances)
    # a count is a whole number, which shows where an estimate rests mostly on the step's own noisy count
    estimates = np.maximum(np.where(gains > 0.5, np.rint(centres), centres), 0.0)
    steps = LocalLevelSteps(
        first=state.step,
        noisy=noisy,
        estimates=estimates,
        lower=np.minimum(np.maximum(centres - half, 0.0), estimates),
        upper=np.maximum(np.maximum(centres, 0.0) + half, estimates),
    )
    return after, steps


def _filtered(state: LocalLevelState, noisy: list[int], v: float, season: int) -> tuple[LocalLevelState, FloatArray]:
    """The state after these steps; and of each its estimate, error variance and gain, shape (3, n).

    ``v`` is the variance of the noise.
    """
    step, level, count = state.step, state.level, state.count
    changes, innovations, spread = state.recent.changes, state.recent.innovations, state.recent.spread
    seasons = _Seasons(state, v, season)
    centres, variances, gains = [], [], []
    for y in noisy:
        error, gain, ahead = y - level, 1.0, v
        if step:
            weight = 1.0 / min(step, MEMORY)
            changes += weight * ((y - count) ** 2 - changes)
            innovations += weight * (error * error - innovations)
            # where the level lags behind, its innovations show it
            spread = max(spread + max(0.0, changes - 2.0 * v), innovations - v - _standard_error(v, step))
            gain = _gain(spread, v)
            ahead = _error_variance(innovations, v, step)
        spread = (1.0 - gain) * spread if step else v
        centre, variance = level + gain * error, (1.0 - gain) ** 2 * ahead + gain * gain * v
        by_both = None
        if season:
            by_both = seasons.take(step, y, level, ahead)
        level, count = centre, float(y)
        centre, variance, gain = by_both or (centre, variance, gain)
        centres.append(centre)
        variances.append(variance)
        gains.append(gain)
        step += 1
    after = LocalLevelState(
        step=step,
        level=level,
        count=count,
        recent=FilterMoments(changes=changes, innovations=innovations, spread=spread),
        levels=tuple(seasons.levels),
        counts=tuple(seasons.counts),
        seasonal=seasons.moments,
        combined=seasons.combined,
    )
    return after, np.array([centres, variances, gains], dtype=np.float64)


class _Seasons:
    """The filter over seasons, and the estimates that combine its predictions with those of the filter over steps."""

    def __init__(self, state: LocalLevelState, v: float, season: int) -> None:
        self.v, self.season = v, season
        self.levels, self.counts = list(state.levels), list(state.counts)
        self.changes, self.innovations = state.seasonal.changes, state.seasonal.innovations
        self.spread, self.combined = state.seasonal.spread, state.combined

    @property
    def moments(self) -> FilterMoments:
        """The estimates of this filter from the counts so far."""
        return FilterMoments(changes=self.changes, innovations=self.innovations, spread=self.spread)

    def take(self, step: int, y: int, prediction: float, ahead: float) -> tuple[float, float, float] | None:
        """Estimate, error variance and gain of a step by both predictions; None in the first season.

        Args:
            step: counted from 0.
            y: its noisy count.
            prediction: by the filter over steps.
            ahead: error variance of that.
        """
        if step < self.season:
            self.levels.append(float(y))
            self.counts.append(float(y))
            self.spread = self.v
            return None
        v, place, counted = self.v, step % self.season, step - self.season + 1
        own, weight = self.levels[place], 1.0 / min(counted, MEMORY)
        if place == 0:  # the places of a season share their gain
            self.spread += max(0.0, self.changes - 2.0 * v)
        gain = _gain(self.spread, v)
        if place == self.season - 1:
            self.spread *= 1.0 - gain
        self.changes += weight * ((y - self.counts[place]) ** 2 - self.changes)
        self.innovations += weight * ((y - own) ** 2 - self.innovations)
        own_ahead = _error_variance(self.innovations, v, counted)
        share = _gain(ahead, own_ahead)
        both = prediction + share * (own - prediction)
        self.combined += weight * ((y - both) ** 2 - self.combined)
        both_ahead = _error_variance(self.combined, v, counted)
        both_gain = _gain(both_ahead, v)
        self.levels[place] = own + gain * (y - own)
        self.counts[place] = float(y)
        variance = (1.0 - both_gain) ** 2 * both_ahead + both_gain**2 * v
        return both + both_gain * (y - both), variance, both_gain


def _gain(spread: float, v: float) -> float:
    """The weight of a count with variance ``v`` beside a prediction with variance ``spread``."""
    return spread / (spread + v) if spread or v else 1.0


def _error_variance(innovations: float, v: float, steps: int) -> float:
    """Of a prediction, from the mean square of its innovations over that many steps."""
    return max(innovations - v, 0.0) + 0.5 * _standard_error(v, steps)


def _standard_error(v: float, steps: int) -> float:
    """Of the mean square of Laplace noise, whose kurtosis is 6."""
    return v * math.sqrt(5.0 / min(steps, MEMORY))
