"""What a released stream shows: sums over windows, changes and silence, with bands; post-processing, free.

Everything is a function of released counts and public facts. Bands are of two kinds, and each states its kind: a
*pointwise* band contains the exact figure of one window with the stated probability; the bands of listed changes hold
*together*, for all windows and counts of the whole stream at once, because a list of the largest changes would
otherwise show noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.mechanisms.streams.noise_sums import noise_quantiles, windows

EVERY = slice(None)
DEFAULT_CONFIDENCE = 0.9
"""Level of bands where the method has none of its own."""
MAX_CHANGES = 8
"""The most changes that are listed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamHistory:
    """Everything that was released of some counts of a stream, from its first step on.

    Attributes:
        names: the counts' names.
        noisy: noisy counts, shape (n, names); 0 where a count was not measured.
        estimates: estimates of the counts, shape (n, names).
        lower, upper: the ends of their bands, shape (n, names); None for a method without bands.
        measured: whether each count was measured, shape (n, names).
        scales: the scale of the noise of each noisy count, shape (n, names); public.
        terms: the number of independent noises, each of this scale, that add up in a noisy count, shape (names,): 1 for
            a count that was released by itself, the number of states for a sum over states.
    """

    names: tuple[str, ...]
    noisy: Int64Array
    estimates: FloatArray
    lower: FloatArray | None
    upper: FloatArray | None
    measured: BoolArray
    scales: FloatArray
    terms: Int64Array

    @property
    def steps(self) -> int:
        """The number of steps so far."""
        return int(self.noisy.shape[0])

    def part(self, *, steps: slice = EVERY, places: Sequence[int] | slice = EVERY) -> StreamHistory:
        """The history of some steps, or of the counts at some places, alone."""
        at = list(range(len(self.names))[places]) if isinstance(places, slice) else list(places)

        def cut(values: Any) -> Any:
            return None if values is None else values[steps][:, at]

        return StreamHistory(
            names=tuple(self.names[place] for place in at),
            noisy=cut(self.noisy),
            estimates=cut(self.estimates),
            lower=cut(self.lower),
            upper=cut(self.upper),
            measured=cut(self.measured),
            scales=cut(self.scales),
            terms=self.terms[at],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class BandedSums:
    """Sums over windows with bands.

    Attributes:
        width: the number of steps of a window.
        ends: the step after each window, shape (m,).
        sums: noisy sums, shape (m, names); NaN where a count of the window was not measured.
        lower, upper: the ends of pointwise bands, at least 0, as no exact sum is below 0.
        complete: whether all counts of the window were measured.
    """

    width: int
    ends: Int64Array
    sums: FloatArray
    lower: FloatArray
    upper: FloatArray
    complete: BoolArray


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change from one window to the next that noise does not explain.

    Attributes:
        name: index of the count in the history's names.
        at: the step at which the second window begins.
        before, after: the noisy sums of both windows.
        lower, upper: ends of the band for the exact change; both above 0, or both below.
    """

    name: int
    at: int
    before: int
    after: int
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The state of one count after the newest step.

    Attributes:
        name: index of the count in the history's names.
        estimate, lower, upper: the estimate for the newest step and the ends of its band, which are NaN for a method
            without bands.
        total, total_lower, total_upper: noisy sum over the newest window, and the ends of its band; NaN if a count of
            the window was not measured.
        change: the sum over the newest window less the sum over the window before; NaN if there is no window before.
        status: ``rise`` or ``fall`` if noise alone does not explain the change, ``silent`` if the sum cannot be
            distinguished from 0, otherwise ``steady``; ``not measured`` if a count of the window was not measured.
    """

    name: int
    estimate: float
    lower: float
    upper: float
    total: float
    total_lower: float
    total_upper: float
    change: float
    status: str


def banded_sums(history: StreamHistory, *, width: int, confidence: float, every: int = 1) -> BandedSums:
    """The sums of noisy counts over windows of ``width`` steps, with pointwise bands at level ``confidence``.

    Args:
        history: what was released.
        width: the number of steps of a window, at least 1.
        confidence: the level of each band, which allows for the noise alone.
        every: the number of steps from the beginning of a window to that of the next; the first begins at step 0.

    Raises:
        ValueError: ``width`` or ``every`` is below 1.
    """
    added = windows(history.noisy, history.scales, history.measured, history.terms, width=width, every=every)
    half = added.half_widths((1 - confidence) / 2)
    sums = np.where(added.complete, added.sums, np.nan)
    return BandedSums(
        width=width,
        ends=added.ends,
        sums=sums,
        lower=np.maximum(sums - half, 0.0),
        upper=np.maximum(sums + half, 0.0),
        complete=added.complete,
    )


def band_of_sum(scale: float, *, number: int, confidence: float) -> int:
    """Half the width of the band of a sum of ``number`` noisy counts whose noise has this scale."""
    tail = (1 - confidence) / 2
    return int(noise_quantiles(number * scale**2, number * scale**4, tail=tail))


def certain_changes(history: StreamHistory, *, width: int, confidence: float, comparisons: int) -> tuple[Change, ...]:
    """The largest changes from one window to the next whose bands exclude 0, largest first, at most ``MAX_CHANGES``.

    Windows are consecutive and do not overlap. The bands hold together: with probability ``confidence`` all of them
    contain their exact changes, whichever are listed (Bonferroni).

    Args:
        history: what was released.
        width: the number of steps of a window.
        confidence: the joint level of all bands.
        comparisons: the number of changes in the whole stream, past and future, over all its counts.
    """
    sums = windows(history.noisy, history.scales, history.measured, history.terms, width=width, every=width)
    if sums.ends.size < 2:
        return ()
    changes = sums.changes(1)
    half = changes.half_widths(joint_tail(confidence, comparisons))
    beyond = np.where(changes.complete, np.abs(changes.sums) - half, -1.0)
    order = np.argsort(-beyond, axis=None, kind="stable")[:MAX_CHANGES]
    listed = [np.unravel_index(one, beyond.shape) for one in order if beyond.ravel()[one] > 0]
    return tuple(
        Change(
            name=int(name),
            at=int(changes.ends[at]) - width,
            before=int(sums.sums[at, name]),
            after=int(sums.sums[at + 1, name]),
            lower=float(changes.sums[at, name] - half[at, name]),
            upper=float(changes.sums[at, name] + half[at, name]),
        )
        for at, name in listed
    )


def readings(history: StreamHistory, *, width: int, confidence: float) -> tuple[Reading, ...]:
    """The state of each count after the newest step, from its last ``width`` steps.

    Bands of sums are pointwise. Whether a count rises or falls is decided with bands that hold together for all counts.
    """
    steps, tail = history.steps, (1 - confidence) / 2
    newest = slice(max(steps - 2 * width, steps % width), None)
    sums = windows(
        history.noisy[newest],
        history.scales[newest],
        history.measured[newest],
        history.terms,
        width=width,
        every=width,
    )
    nothing = np.full(len(history.names), np.nan)
    total, half, change, beyond = nothing, nothing, nothing, nothing
    if sums.ends.size:
        total, half = np.where(sums.complete, sums.sums, np.nan)[-1], sums.half_widths(tail)[-1]
    if sums.ends.size > 1:
        moved = sums.changes(1)
        change = np.where(moved.complete, moved.sums, np.nan)[-1]
        beyond = moved.half_widths(joint_tail(confidence, len(history.names)))[-1]
    ends = [nothing if end is None else end[-1] for end in (history.lower, history.upper)]
    return tuple(
        Reading(
            name=name,
            estimate=float(history.estimates[-1, name]),
            lower=float(ends[0][name]),
            upper=float(ends[1][name]),
            total=float(total[name]),
            total_lower=float(np.maximum(total[name] - half[name], 0.0)),
            total_upper=float(np.maximum(total[name] + half[name], 0.0)),
            change=float(change[name]),
            status=_status(total[name] - half[name], change[name], beyond[name]),
        )
        for name in range(len(history.names))
    )


def _status(low: float, change: float, beyond: float) -> str:
    if np.isnan(low):
        return "not measured"
    if abs(change) > beyond:
        return "rise" if change > 0 else "fall"
    return "silent" if low <= 0 else "steady"


def joint_tail(confidence: float, comparisons: int) -> float:
    """The probability of each tail with which ``comparisons`` two-sided bands hold together at level ``confidence``."""
    return (1 - confidence) / (2 * max(comparisons, 1))


def with_total(history: StreamHistory, *, name: str, confidence: float) -> StreamHistory:
    """The history with the total of all counts, which must be disjoint, in the first place.

    The noisy total is the sum of the noisy counts, and its estimate too, because a sum of estimates would have no band.
    Every count must have been measured, with noise of one scale.
    """
    total = history.noisy.sum(axis=1, keepdims=True)
    terms = int(history.terms.sum())
    half = band_of_sum(float(history.scales[0, 0]), number=terms, confidence=confidence)
    ends = (np.maximum(total - half, 0.0), np.maximum(total + half, 0.0))

    def beside(first: Any, others: Any) -> Any:
        return None if others is None else np.concatenate([first, others], axis=1)

    return StreamHistory(
        names=(name, *history.names),
        noisy=beside(total, history.noisy),
        estimates=beside(np.maximum(total, 0.0), history.estimates),
        lower=beside(ends[0], history.lower),
        upper=beside(ends[1], history.upper),
        measured=beside(history.measured.all(axis=1, keepdims=True), history.measured),
        scales=beside(history.scales[:, :1], history.scales),
        terms=np.append(terms, history.terms),
    )


def joined(parts: Sequence[StreamHistory]) -> StreamHistory:
    """One history from those of consecutive runs."""

    def stacked(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    banded = all(part.lower is not None for part in parts)
    return StreamHistory(
        names=parts[0].names,
        noisy=stacked("noisy"),
        estimates=stacked("estimates"),
        lower=stacked("lower") if banded else None,
        upper=stacked("upper") if banded else None,
        measured=stacked("measured"),
        scales=stacked("scales"),
        terms=parts[0].terms,
    )
