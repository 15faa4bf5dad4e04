"""The local level filter: an estimate of each count, with its error variance, from the noisy counts so far.

The local level model (Harvey 1989, section 2.2; Durbin and Koopman 2012, chapter 2) is ``c_t = c_{t-1} + w_t`` with w
of variance q; noisy counts ``y_t`` have noise of a known variance v. Under the model, the best prediction of the next
count is an exponential mean of noisy counts, whose memory M follows from the ratio ``q / v = 1 / (M (M - 1))``; its
error variance is ``v / (M - 1)``. A few memories run side by side (``MEMORIES``), each a plain mean until its memory is
reached. At every step, the memory whose predictions have had the smallest mean square error against the noisy counts so
far is used. If there is a season of s steps, means over the same place of earlier seasons run too
(``SEASON_MEMORIES``). The best prediction from recent steps and the best one from earlier seasons are then combined
with weights inverse to their error variances (Bates and Granger 1969), if this combination has had the smaller error so
far.

The noise of a step is independent of everything before it, so the error variance P of any prediction is the mean square
of its innovations minus v, whatever the counts do. Estimates use the P of the model, unless the measured P exceeds that
by more than a standard error. The standard error is that of a mean square of Laplace noise (of kurtosis 6; the kurtosis
of a sum of several noises is smaller). Bands use the measured P, raised by ``CAUTION`` standard errors, or the P of the
model if that is larger and the innovations do not contradict it.

A filtered count is ``m + K (y - m)`` for the prediction m, and its error variance is ``(1 - K)^2 P + K^2 v``. The mean
square error is smallest at ``K = P / (P + v)``. Laplace noise has a sharp peak, so that a small weight on the
prediction costs more of the mean absolute error than it saves: where P is much larger than v, the mean absolute error
is smallest at ``1 - K = v / 2P``. Therefore K is computed with ``P (1 + P / (P + v))`` in place of P, which agrees with
both limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Self

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.mechanisms.streams.predictions import MEMORIES, MEMORY, NO_NOISE, Predictions, forgetting_sums

SEASON_MEMORIES = (2, 8, 32)
"""Seasons that the means of one place of the season remember."""
FIRST_ERRORS = 20
"""Errors of both predictions together that are waited for before these are used: a few of them say little."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalLevelState:
    """The filter's state between two steps, one column for each stream; a function of released counts only.

    The default value is the state of one stream before its first step. All sums are those of ``forgetting_sums``.

    Attributes:
        step: the number of steps so far, the same for all streams.
        levels: for each memory, the sum of noisy counts, shape (memories, streams).
        squares: for each memory, the sum of squared innovations, of the same shape.
        places: for each season memory, the sums of noisy counts at each place of the season that has been reached,
            shape (season memories, places, streams).
        season_squares: sums of squared innovations of the means over seasons, and last of the combined predictions,
            shape (season memories + 1, streams).
    """

    step: int = 0
    levels: FloatArray = field(default_factory=lambda: np.zeros((len(MEMORIES), 1)))
    squares: FloatArray = field(default_factory=lambda: np.zeros((len(MEMORIES), 1)))
    places: FloatArray = field(default_factory=lambda: np.zeros((len(SEASON_MEMORIES), 0, 1)))
    season_squares: FloatArray = field(default_factory=lambda: np.zeros((len(SEASON_MEMORIES) + 1, 1)))

    @classmethod
    def start(cls, streams: int) -> Self:
        """The state of ``streams`` streams before their first step."""
        return cls(
            levels=np.zeros((len(MEMORIES), streams)),
            squares=np.zeros((len(MEMORIES), streams)),
            places=np.zeros((len(SEASON_MEMORIES), 0, streams)),
            season_squares=np.zeros((len(SEASON_MEMORIES) + 1, streams)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class FilteredCounts:
    """The filter's estimates of counts; all arrays have shape (n, streams).

    Attributes:
        centres: filtered counts, possibly negative.
        variances: of their errors.
        gains: the weight of a step's own noisy count.
    """

    centres: FloatArray
    variances: FloatArray
    gains: FloatArray


def filtered_counts(
    state: LocalLevelState, noisy: Int64Array, *, variance: float, season: int = 0, terms: Int64Array | int = 1
) -> tuple[LocalLevelState, FilteredCounts]:
    """Filter the next noisy counts of several streams. The result does not depend on how steps are divided into calls.

    Args:
        state: the state of the streams after the previous call.
        noisy: noisy counts, shape (n, streams).
        variance: the variance of the noise in one measured count.
        season: the number of steps of a season; 0 for none.
        terms: for each stream, how many measured counts, with independent noise, were added to give a noisy count;
            shape (streams,).

    Raises:
        ValueError: there is not one column of the state for each stream.
    """
    if noisy.shape != (len(noisy), state.levels.shape[1]):
        raise ValueError(f"noisy: got shape {noisy.shape}; must have a column for each stream of the state")
    # in these units the noise of every stream has the same variance
    units = np.sqrt(np.asarray(terms, dtype=np.float64))
    v, counts, after = max(variance, NO_NOISE), noisy / units, state
    predictions, ahead, gains = (np.zeros(noisy.shape) for _ in range(3))
    if noisy.size:
        filters = _Filters(state, v)
        predictions, ahead, gains = filters.take(counts)
        if season:
            filters.take_seasons(counts, predictions, ahead, gains, season)
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

    def __init__(self, state: LocalLevelState, v: float) -> None:
        self.step, self.v = state.step, v
        self.levels, self.squares, self.places, self.season_squares = (
            values.copy() for values in (state.levels, state.squares, state.places, state.season_squares)
        )

    def state(self, step: int) -> LocalLevelState:
        """The state of the streams after that many steps."""
        return LocalLevelState(
            step=step,
            levels=self.levels,
            squares=self.squares,
            places=self.places,
            season_squares=self.season_squares,
        )

    def take(self, counts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Predictions from the steps before, their error variances, and the gains; each of shape (n, streams)."""
        numbers = np.arange(self.step, self.step + len(counts))
        best = reduce(Predictions.or_better, self._of_steps(counts, numbers))
        self.recent = best
        error = _standard_error(self.v, numbers)
        ahead, gains = best.cautious_variances(self.v, error), _gains(best.error_variances(self.v, error), self.v)
        if not self.step:
            ahead[0], gains[0] = self.v, 1.0
        return best.values, ahead, gains

    def _of_steps(self, counts: FloatArray, numbers: Int64Array) -> Iterator[Predictions]:
        """The predictions by each mean of the steps before."""
        for place, memory in enumerate(MEMORIES):
            sums = forgetting_sums(counts, self.levels[place], memory=memory, number=self.step)
            remembered = np.minimum(numbers, memory)[:, None]
            values = np.concatenate([self.levels[place][None], sums[:-1]]) / np.maximum(remembered, 1)
            if not self.step:  # nothing predicts the first count
                values[0] = counts[0]
            squares = self._mean_squares(counts - values, self.squares, place, numbers)
            self.levels[place] = sums[-1]
            with np.errstate(divide="ignore"):
                by_model = self.v / np.maximum(remembered - 1.0, 0.0) + np.zeros(counts.shape)
            yield Predictions(values=values, squares=squares, by_model=by_model)

    def take_seasons(
        self, counts: FloatArray, predictions: FloatArray, ahead: FloatArray, gains: FloatArray, season: int
    ) -> None:
        """Replace predictions, error variances and gains by those that use the season before, from the second on."""
        first = min(max(season - self.step, 0), len(counts))
        if first:
            self.places = np.concatenate([self.places, np.stack([counts[:first]] * len(SEASON_MEMORIES))], axis=1)
        while first < len(counts):
            place = (self.step + first) % season
            now = slice(first, min(first + season - place, len(counts)))
            both, error = self._take_places(counts, now, place, season)
            predictions[now], ahead[now] = both.values, both.cautious_variances(self.v, error)
            gains[now] = _gains(both.error_variances(self.v, error), self.v)
            first = now.stop

    def _take_places(self, counts: FloatArray, now: slice, place: int, season: int) -> tuple[Predictions, FloatArray]:
        """The better of the recent and of both predictions, of steps of one season from ``place`` on.

        And the standard error of the mean square of their innovations.
        """
        taken, steps = counts[now], np.arange(self.step + now.start, self.step + now.stop)
        numbers = steps - season + 1
        own = reduce(Predictions.or_better, self._of_places(taken, numbers, place, seasons=int(steps[0]) // season))
        recent = self.recent.at(now)
        error = _standard_error(self.v, numbers)
        recent_error = _standard_error(self.v, steps)
        ahead = recent.error_variances(self.v, recent_error)
        own_ahead = own.error_variances(self.v, error)
        values = recent.values + ahead / (ahead + own_ahead) * (own.values - recent.values)
        with np.errstate(divide="ignore"):
            by_model = 1.0 / (1.0 / recent.by_model + 1.0 / own.by_model)
        squares = self._mean_squares(taken - values, self.season_squares, -1, numbers)
        squares = np.where(numbers[:, None] < FIRST_ERRORS, np.inf, squares)
        both = Predictions(values=values, squares=squares, by_model=by_model)
        return recent.or_better(both), np.where(both.squares < recent.squares, error, recent_error)

    def _of_places(self, taken: FloatArray, numbers: Int64Array, place: int, *, seasons: int) -> Iterator[Predictions]:
        """The predictions by each mean over the same places of so many seasons before."""
        places = slice(place, place + len(taken))
        for which, memory in enumerate(SEASON_MEMORIES):
            kept, remembered = self.places[which, places], min(seasons, memory)
            values = kept / remembered
            squares = self._mean_squares(taken - values, self.season_squares, which, numbers)
            by_model = np.full(taken.shape, self.v / (remembered - 1) if remembered > 1 else np.inf)
            self.places[which, places] = taken + (kept if seasons < memory else kept * (1.0 - 1.0 / memory))
            yield Predictions(values=values, squares=squares, by_model=by_model)

    def _mean_squares(self, errors: FloatArray, sums: FloatArray, place: int, numbers: Int64Array) -> FloatArray:
        """Mean squares of innovations with these numbers, counted from 1; one with number 0 is none."""
        none = int(numbers[0] == 0)
        squares = np.full(errors.shape, self.v)
        if len(errors) > none:
            of = forgetting_sums(errors[none:] ** 2, sums[place], memory=MEMORY, number=int(numbers[none]) - 1)
            squares[none:] = of / np.minimum(numbers[none:], MEMORY)[:, None]
            sums[place] = of[-1]
        return squares


def _gains(p: FloatArray, v: float) -> FloatArray:
    """The weights of noisy counts beside predictions with these error variances."""
    p = p * (1.0 + p / (p + v))
    return p / (p + v)


def _standard_error(v: float, numbers: Int64Array) -> FloatArray:
    """The standard error of the mean square of Laplace noise (kurtosis 6), shape (n, 1); too large for sums."""
    error: FloatArray = v * np.sqrt(5.0 / np.clip(numbers, 1, MEMORY))[:, None]
    return error
