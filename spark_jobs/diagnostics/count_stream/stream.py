"""A private stream of counts, as an object that takes one count at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, exact_decimal, plain
from spark_jobs.contract.release import NOT_PRIVATE
from spark_jobs.diagnostics.count_stream.saved import Shape, State, from_bytes, saved, to_bytes
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.mechanisms.streams import local_level
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState
from spark_jobs.mechanisms.streams.local_level import LocalLevelShape
from spark_jobs.mechanisms.streams.parameters import MAX_COUNT
from spark_jobs.papers.streams import pegasus
from spark_jobs.papers.streams.open_groups import PegasusState
from spark_jobs.papers.streams.pegasus import PegasusShape
from spark_jobs.papers.streams.smoothing import Smoother

SECURE = SecureNoise()


class StreamMethod(StrEnum):
    """How counts become estimates.

    ``LOCAL_LEVEL``, the default, spends all of epsilon on the counts and filters them; it has bands, and its error is
    never much above that of the noise alone. ``PEGASUS`` spends a part of epsilon on grouping steps with similar
    counts: use it for counts that are known to stay the same over many steps.
    """

    LOCAL_LEVEL = "local_level"
    PEGASUS = "pegasus"


@dataclass(frozen=True, kw_only=True, eq=False)
class CountSteps:
    """The release of several steps.

    Attributes:
        first: number of the first step, counted from 0.
        noisy: noisy counts, shape (n,): unbiased, for sums over windows.
        estimates: estimates of the counts, at least 0, shape (n,); each depends only on counts up to its own step.
        lower, upper: ends of the bands for the exact counts, shape (n,); None with ``pegasus``.
    """

    first: int
    noisy: Int64Array
    estimates: FloatArray
    lower: FloatArray | None
    upper: FloatArray | None


class CountStream:
    """Counts of rows, step by step, made private; ``epsilon``-DP for a stream of any length.

    Neighbours: one row (one event) is present or not (``ADD_REMOVE``), or moves to another step (``REPLACE_ONE``). A
    person with k events in the stream has a privacy loss of k epsilon: bound the events per person, and divide epsilon
    by that bound. Proof and sensitivity: ``mechanisms.streams.local_level`` and ``papers.streams.pegasus``.

    Counts are data, so no value of a count raises an error: it is rounded down to a whole number; a missing count (NaN,
    None) or one below 0 becomes 0, and one above 2^40 becomes 2^40. Streams that differ by one row therefore differ by
    at most 1 in a count.

    Save ``state()`` before an estimate is published. If a step whose estimate was published is repeated from an older
    state, with fresh noise, its privacy cost is spent twice, and no ledger records it. Not thread-safe.

    Args:
        epsilon: privacy cost of the stream, whatever its length; all of it is spent.
        neighbours: neighbouring relation of the guarantee. ``REPLACE_ONE`` doubles all noise.
        method: ``local_level`` or ``pegasus``; see ``StreamMethod``.
        season: for ``local_level``: number of steps in a season, up to 65,536, such as 24 for hours; 0, the default,
            for none.
        confidence: for ``local_level``: nominal level of the bands; 0.9 by default.
        group_share: for ``pegasus``: fraction of epsilon, in (0, 1), for the grouping of steps; 0.2 by default.
        threshold: for ``pegasus``: largest deviation within a group of steps, in units of one over the epsilon of the
            grouping; 5 by default.
        max_group: for ``pegasus``: largest number of steps in a group, up to 65,536; bounds memory; 1,024 by default.
        smoothing: for ``pegasus``: ``median`` (the default), ``mean`` or ``james_stein``: how a group's noisy counts
            become an estimate.
        noise: sampler of the mechanism's noise; ``SeededNoise`` stamps the stream NOT PRIVATE permanently.

    Raises:
        InvalidRequest: an option is out of its bounds, or belongs to the other method.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> stream = CountStream(epsilon="0.5", noise=SeededNoise(1))
        >>> kept = [stream.step(count) for count in (20, 22, 19)], stream.state()
        >>> later = CountStream.restore(kept[1], noise=SeededNoise(2))
        >>> later.taken, later.steps([250, 240]).shape, later.guarantee
        (3, (2,), 'NOT PRIVATE')
    """

    def __init__(
        self,
        *,
        epsilon: Cost,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        method: str = StreamMethod.LOCAL_LEVEL,
        season: int | None = None,
        confidence: float | None = None,
        group_share: Cost | None = None,
        threshold: float | None = None,
        max_group: int | None = None,
        smoothing: str | None = None,
        noise: Noise = SECURE,
    ) -> None:
        common: dict[str, Any] = {
            "epsilon": exact_decimal(epsilon, what="epsilon"),
            "neighbours": _one_of(Neighbours, "neighbours", neighbours),
        }
        filters = _given(season=season, confidence=confidence)
        groups = _given(group_share=group_share, threshold=threshold, max_group=max_group, smoothing=smoothing)
        if _one_of(StreamMethod, "method", method) is StreamMethod.LOCAL_LEVEL:
            _refuse_others(groups, StreamMethod.LOCAL_LEVEL)
            self._begin(LocalLevelShape(**common, **filters), LocalLevelState(), noise, noise.guarantee)
            return
        _refuse_others(filters, StreamMethod.PEGASUS)
        if "group_share" in groups:
            groups["group_share"] = exact_decimal(groups["group_share"], what="group_share")
        if "smoothing" in groups:
            groups["smoother"] = _one_of(Smoother, "smoothing", groups.pop("smoothing"))
        self._begin(PegasusShape(**common, **groups), PegasusState(), noise, noise.guarantee)

    def _begin(self, shape: Shape, state: State, noise: Noise, guarantee: str) -> None:
        self._shape, self._state, self._noise, self._guarantee = shape, state, noise, guarantee

    def step(self, count: float) -> float:
        """Take the next step.

        Args:
            count: number of rows at this step; private.

        Returns:
            An estimate of the count, at least 0.

        Raises:
            TypeError: the count is not a number; the error does not quote it.
        """
        return float(self.steps([count])[0])

    def steps(self, counts: ArrayLike) -> FloatArray:
        """Take several steps at once, with the same result as one after the other but much faster.

        Args:
            counts: number of rows at each step, shape (n,); private.

        Returns:
            Estimates, at least 0, shape (n,); each depends only on counts up to its own step.

        Raises:
            TypeError: the counts are not numbers.
            ValueError: the counts are not one-dimensional.
        """
        return self.release(counts).estimates

    def release(self, counts: ArrayLike) -> CountSteps:
        """Take several steps at once, and return everything that is released of them: noisy counts and bands too.

        Args:
            counts: number of rows at each step, shape (n,); private.

        Raises:
            TypeError: the counts are not numbers.
            ValueError: the counts are not one-dimensional.
        """
        exact, shape, state = _whole(counts), self._shape, self._state
        if isinstance(shape, LocalLevelShape) and isinstance(state, LocalLevelState):
            self._state, steps = local_level.release_filtered_steps(state, exact, shape=shape, noise=self._noise)
            return CountSteps(**vars(steps))
        if isinstance(shape, PegasusShape) and isinstance(state, PegasusState):
            self._state, grouped = pegasus.release_steps(state, exact, shape=shape, noise=self._noise)
            return CountSteps(
                first=grouped.first, noisy=grouped.noisy, estimates=grouped.estimates, lower=None, upper=None
            )
        raise TypeError("a state of another method")

    def state(self) -> bytes:
        """The state that the next step needs, with the options; **private** with ``pegasus``."""
        return to_bytes(saved(self._shape, self._state, self._guarantee))

    @classmethod
    def restore(cls, state: bytes, *, noise: Noise = SECURE) -> CountStream:
        """Continue a stream from its saved state. A stream that is NOT PRIVATE stays so.

        Args:
            state: bytes from ``state()``.
            noise: sampler of the noise from now on.

        Raises:
            InvalidRequest: the bytes are of another version, damaged, or not a saved state.
        """
        kept = from_bytes(state)
        stream = cls.__new__(cls)
        stamp = NOT_PRIVATE if NOT_PRIVATE in (kept.guarantee, noise.guarantee) else noise.guarantee
        stream._begin(kept.shape, kept.state, noise, stamp)
        return stream

    @property
    def method(self) -> StreamMethod:
        """How counts become estimates."""
        return StreamMethod.LOCAL_LEVEL if isinstance(self._shape, LocalLevelShape) else StreamMethod.PEGASUS

    @property
    def epsilon(self) -> Decimal:
        """Privacy cost of the whole stream."""
        return exact_decimal(self._shape.epsilon)

    @property
    def neighbours(self) -> Neighbours:
        """Neighbouring relation of the guarantee."""
        return self._shape.neighbours

    @property
    def spendings(self) -> tuple[Spending, ...]:
        """Privacy cost of each part of the mechanism."""
        return self._shape.spendings

    @property
    def guarantee(self) -> str:
        """``differentially private``, or ``NOT PRIVATE`` if any noise so far was seeded."""
        return self._guarantee

    @property
    def private(self) -> bool:
        """Whether the estimates may be released, because none of their noise was seeded."""
        return self._guarantee != NOT_PRIVATE

    @property
    def taken(self) -> int:
        """Number of steps taken so far."""
        state = self._state
        return state.step if isinstance(state, LocalLevelState) else int(state.step[0])

    def __repr__(self) -> str:
        return (
            f"CountStream(epsilon={plain(self.epsilon)}, neighbours={self.neighbours}, taken={self.taken}, "
            f"guarantee={self.guarantee!r})"
        )


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse_others(options: dict[str, Any], method: StreamMethod) -> None:
    for name, value in options.items():
        raise InvalidRequest(name, value, f"is no option of method {method}", "leave it out, or change the method")


def _one_of(kind: Any, what: str, given: object) -> Any:
    try:
        return kind(given)
    except ValueError:
        bound = f"must be one of {', '.join(kind)}"
        raise InvalidRequest(what, given, bound, "leave it out for the default") from None


def _whole(counts: ArrayLike) -> Int64Array:
    """Counts as whole numbers from 0 to 2^40; any number is accepted."""
    values = np.asarray(counts)
    if values.ndim != 1:
        raise ValueError(f"counts: got shape {values.shape}; must be one-dimensional")
    if values.dtype.kind == "O":
        values = np.array([_number(value) for value in values], dtype=np.float64)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"counts: got {values.dtype}; must be numbers")
    # values beyond the range of floats are clipped too; a warning would reveal them
    with np.errstate(over="ignore", invalid="ignore"):
        floats = values.astype(np.float64)
    whole: Int64Array = np.floor(np.clip(np.where(np.isnan(floats), 0.0, floats), 0.0, MAX_COUNT)).astype(np.int64)
    return whole


def _number(value: Any) -> float:
    known = isinstance(value, (Real, Decimal)) and not (isinstance(value, Decimal) and value.is_nan())
    if not known:
        return math.nan
    # a Python int may be too large for a float
    return float(value) if 0 < value < MAX_COUNT else float(MAX_COUNT if value > 0 else 0)
