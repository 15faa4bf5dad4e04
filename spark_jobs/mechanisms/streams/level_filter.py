"""The local level filter of noisy counts: what is known of each count after its own noisy count; post-processing.

The local level model (Harvey 1989, section 2.2; Durbin and Koopman 2012, chapter 2) is ``c_t = c_{t-1} + w_t`` with w
of variance q. The variance v of the noise is known; q is the mean square of ``y_t - y_{t-1}`` less 2 v, at least 0.
With a season of s steps a second prediction is the filtered count of the same place in the season before, from the same
model over seasons. Predictions are combined with weights inverse to their error variances (Bates and Granger 1969). The
noise of a step is independent of everything before it, so the error variance of any prediction is the mean square of
its innovations less v, whatever the counts do: no model is assumed for weights and variances.

A filtered count is ``m + K (y - m)`` for the prediction m with error variance P, and its error variance is
``(1 - K)^2 P + K^2 v``. P is raised by half a standard error of the mean square of Laplace noise (kurtosis 6,
which that of a sum of several is below).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array

MEMORY = 500
"""Steps over which mean squares are taken: a running mean first, exponential from there on."""
_Kept = tuple[FloatArray, FloatArray, FloatArray]
_Traces = tuple[tuple[list[Any], ...], tuple[Any, Any, Any]]
_NO_NOISE = 1e-300
"""The variance of the noise where it is 0 as a float."""
_RECENT, _SEASONAL = 5, 4


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalLevelState:
    """What is kept of streams between two steps, a column for each; all of it is a function of released counts.

    By default it is that of one stream before its first step.

    Attributes:
        step: steps so far, the same for all streams.
        recent: of the filter over steps, shape (5, streams): filtered and noisy count of the step before, mean square
            of the changes of noisy counts, mean square of noisy count less prediction, and variance of a filtered
            count by the model.
        seasonal: of the filter over seasons, shape (4, streams): the last three likewise, from season to season, and
            the mean square of the innovations of both predictions together.
        levels, counts: filtered and noisy counts of the places of the season, as far as they were reached, shape
            (places, streams).
    """

    step: int = 0
    recent: FloatArray = field(default_factory=lambda: np.zeros((_RECENT, 1)))
    seasonal: FloatArray = field(default_factory=lambda: np.zeros((_SEASONAL, 1)))
    levels: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    counts: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))

    @classmethod
    def start(cls, streams: int) -> Self:
        """The state of so many streams before their first step."""
        none = np.zeros((0, streams))
        return cls(
            recent=np.zeros((_RECENT, streams)), seasonal=np.zeros((_SEASONAL, streams)), levels=none, counts=none
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class FilteredCounts:
    """What the filter makes of noisy counts, shape (n, streams).

    Attributes:
        centres: filtered counts, of either sign.
        variances: of their errors.
        gains: the weight of a step's own noisy count.
    """

    centres: FloatArray
    variances: FloatArray
    gains: FloatArray


def filtered_counts(
    state: LocalLevelState, noisy: Int64Array, *, variance: float, season: int = 0, terms: Int64Array | int = 1
) -> tuple[LocalLevelState, FilteredCounts]:
    """Filter the next noisy counts of several streams; the same for any division of a stream into calls.

    Args:
        state: of the streams.
        noisy: noisy counts, shape (n, streams).
        variance: of the noise of a count.
        season: steps of a season; 0 for none.
        terms: how many counts with independent noise each noisy count is the sum of, shape (streams,).

    Raises:
        ValueError: there is not one column of the state for each stream.
    """
    if noisy.shape != (len(noisy), state.recent.shape[1]):
        raise ValueError(f"noisy: got shape {noisy.shape}; must have a column for each stream of the state")
    # in these units the noise of every stream has the same variance
    units = np.sqrt(np.asarray(terms, dtype=np.float64))
    predictions, ahead, gains = (np.zeros(noisy.shape) for _ in range(3))
    v, counts, after = max(variance, _NO_NOISE), noisy / units, state
    if noisy.size:
        filters = _Filters(state)
        predictions, ahead, gains = filters.take(counts, v)
        if season:
            filters.take_seasons(counts, predictions, ahead, gains, v, season)
        after = filters.state(state.step + len(noisy))
    return after, FilteredCounts(
        centres=units * (predictions + gains * (counts - predictions)),
        variances=units**2 * ((1.0 - gains) ** 2 * ahead + gains * gains * v),
        gains=gains,
    )


class _Filters:
    """The filters of several streams, over steps and over seasons; ``v`` is the variance of the noise.

    What is kept has the shapes of ``LocalLevelState``.
    """

    def __init__(self, state: LocalLevelState) -> None:
        self.step, self.recent = state.step, state.recent
        self.seasonal, self.levels, self.counts = (
            values.copy() for values in (state.seasonal, state.levels, state.counts)
        )

    def state(self, step: int) -> LocalLevelState:
        """The state of the streams after that many steps."""
        return LocalLevelState(
            step=step, recent=self.recent, seasonal=self.seasonal, levels=self.levels, counts=self.counts
        )

    def take(self, counts: FloatArray, v: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Predictions from the steps before, their error variances, and the gains; each of shape (n, streams)."""
        predictions, innovations, gains = counts.copy(), np.zeros(counts.shape), np.ones(counts.shape)
        start = 0 if self.step else 1  # nothing predicts the first count
        level, before, changes, squares, spread = self.recent
        if start:
            level, before, spread = counts[0], counts[0], np.full(counts.shape[1], v)
        rest = counts[start:]
        numbers = np.arange(self.step + start, self.step + len(counts))
        differences = np.diff(counts if start else np.concatenate([before[None], counts]), axis=0)
        changes_of = running_means(differences**2, changes, numbers)
        bounds = v + _standard_error(v, numbers)
        traces = _levels(rest, _above(changes_of, 2 * v), _weights(numbers), bounds, (level, squares, spread), v)
        predictions[start:], innovations[start:], gains[start:], (level, squares, spread) = traces
        self.recent = np.stack([level, counts[-1], changes_of[-1] if len(rest) else changes, squares, spread])
        ahead = np.full(counts.shape, v)
        ahead[start:] = _error_variances(innovations[start:], v, numbers)
        return predictions, ahead, gains

    def take_seasons(
        self, counts: FloatArray, predictions: FloatArray, ahead: FloatArray, gains: FloatArray, v: float, season: int
    ) -> None:
        """Replace predictions, error variances and gains by those that use the season before, from the second on."""
        first = min(max(season - self.step, 0), len(counts))
        if first:
            self.levels = np.concatenate([self.levels, counts[:first]])
            self.counts = np.concatenate([self.counts, counts[:first]])
            self.seasonal[2] = v
        while first < len(counts):
            place = (self.step + first) % season
            now = slice(first, min(first + season - place, len(counts)))
            replaced = self._take_places(counts[now], place, predictions[now], ahead[now], v, self.step + first, season)
            predictions[now], ahead[now], gains[now] = replaced
            first = now.stop

    def _take_places(
        self, counts: FloatArray, place: int, recent: FloatArray, ahead: FloatArray, v: float, step: int, season: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Predictions, error variances and gains of steps of one season, from ``place`` on."""
        changes, innovations, spread, combined = self.seasonal
        places, numbers = slice(place, place + len(counts)), np.arange(step, step + len(counts)) - season + 1
        own, before = self.levels[places].copy(), self.counts[places]
        if place == 0:  # the places of a season share their gain
            spread = spread + _above(changes, 2 * v)
        gain = spread / (spread + v)
        changes = running_means((counts - before) ** 2, changes, numbers)[-1]
        squares = running_means((counts - own) ** 2, innovations, numbers)
        own_ahead = _error_variances(squares, v, numbers)
        both = recent + ahead / (ahead + own_ahead) * (own - recent)
        both_squares = running_means((counts - both) ** 2, combined, numbers)
        both_ahead = _error_variances(both_squares, v, numbers)
        self.levels[places], self.counts[places] = own + gain * (counts - own), counts
        if places.stop == season:
            spread = spread - gain * spread
        self.seasonal = np.stack([changes, squares[-1], spread, both_squares[-1]])
        return both, both_ahead, both_ahead / (both_ahead + v)


def _levels(
    counts: FloatArray, growth: FloatArray, weights: FloatArray, bounds: FloatArray, kept: _Kept, v: float
) -> tuple[FloatArray, FloatArray, FloatArray, _Kept]:
    """Predictions, mean squares of innovations, and gains, shape (n, streams), and the last values of ``kept``.

    Args:
        counts: noisy counts, shape (n, streams).
        growth: of the model's variance at each step, of the same shape.
        weights: of the innovation of each step, shape (n,).
        bounds: what the noise explains of the mean square of innovations at each step, shape (n,).
        kept: level, mean square of innovations and variance by the model, after the step before.
        v: variance of the noise.
    """
    if counts.shape[1] == 1:
        columns = counts[:, 0].tolist(), growth[:, 0].tolist(), weights.tolist(), bounds.tolist()
        level, squares, spread = (float(one[0]) for one in kept)
        traces, last = _levels_of_one(zip(*columns, strict=True), level, squares, spread, v)
    else:
        rows = zip(counts, growth, weights.tolist(), bounds.tolist(), strict=True)
        traces, last = _levels_of_many(rows, *kept, v)
    predictions, innovations, gains = (np.array(values, dtype=np.float64).reshape(counts.shape) for values in traces)
    after = (np.atleast_1d(last[0]), np.atleast_1d(last[1]), np.atleast_1d(last[2]))
    return predictions, innovations, gains, after


def _levels_of_one(rows: Iterable[tuple[float, ...]], level: float, squares: float, spread: float, v: float) -> _Traces:
    """``_levels`` of one stream, a million steps a second; the same arithmetic as in ``_levels_of_many``."""
    predictions, innovations, gains = [], [], []
    for y, grown, weight, bound in rows:
        error = y - level
        squares += weight * (error * error - squares)
        spread += grown
        lagging = squares - bound
        if lagging > spread:  # max() takes twice as long
            spread = lagging
        gain = spread / (spread + v)
        predictions.append(level)
        innovations.append(squares)
        gains.append(gain)
        spread -= gain * spread
        level += gain * error
    return (predictions, innovations, gains), (level, squares, spread)


def _levels_of_many(
    rows: Iterable[Any], level: FloatArray, squares: FloatArray, spread: FloatArray, v: float
) -> _Traces:
    """``_levels`` of several streams."""
    predictions, innovations, gains = [], [], []
    for y, grown, weight, bound in rows:
        error = y - level
        squares = squares + weight * (error * error - squares)
        # where the level lags behind, its innovations show it
        spread = np.maximum(spread + grown, squares - bound)
        gain = spread / (spread + v)
        predictions.append(level)
        innovations.append(squares)
        gains.append(gain)
        spread = spread - gain * spread
        level = level + gain * error
    return (predictions, innovations, gains), (level, squares, spread)


def running_means(values: FloatArray, mean: FloatArray, numbers: Int64Array, *, memory: int = MEMORY) -> FloatArray:
    """The mean after each of the values, shape (n, streams): of all at first, exponential after ``memory`` of them.

    Args:
        values: shape (n, streams).
        mean: of the values before, shape (streams,).
        numbers: of each value, counted from 1, shape (n,).
        memory: of how many values.
    """
    single = values.shape[1] == 1
    last: Any = float(mean[0]) if single else mean
    means, weights = [], _weights(numbers, memory).tolist()
    for value, weight in zip(values[:, 0].tolist() if single else values, weights, strict=True):
        last = last + weight * (value - last)
        means.append(last)
    return np.array(means, dtype=np.float64).reshape(values.shape)


def _weights(numbers: Int64Array, memory: int = MEMORY) -> FloatArray:
    """The weight of each value in a running mean, given its number, counted from 1."""
    return 1.0 / np.minimum(numbers, memory)


def _above(values: FloatArray, bound: float) -> FloatArray:
    return np.maximum(values - bound, 0.0)


def _error_variances(innovations: FloatArray, v: float, numbers: Int64Array) -> FloatArray:
    """Of predictions, from the mean squares of their innovations, shape (n, streams), after so many steps each."""
    return _above(innovations, v) + 0.5 * _standard_error(v, numbers)[:, None]


def _standard_error(v: float, numbers: Int64Array) -> FloatArray:
    """Of the mean square of Laplace noise, whose kurtosis is 6; for a sum of several it is too large."""
    return v * np.sqrt(5.0 / np.minimum(numbers, MEMORY))
