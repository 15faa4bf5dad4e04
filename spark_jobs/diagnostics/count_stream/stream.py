"""A private stream of counts, as an object that takes one count at a time."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, exact_decimal, plain
from spark_jobs.contract.release import NOT_PRIVATE
from spark_jobs.diagnostics.count_stream.saved import Saved
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.mechanisms.streams.pegasus import MAX_COUNT, PegasusShape, PegasusState, release_steps
from spark_jobs.mechanisms.streams.smoothing import Smoother

SECURE = SecureNoise()


class CountStream:
    """Counts of rows, step by step, made private by PeGaSus; ``epsilon``-DP for a stream of any length.

    Neighbours: one row (one event) is present or not (``ADD_REMOVE``), or at another step (``REPLACE_ONE``). A person
        with
    k events in the stream has a privacy loss of k epsilon: bound the events per person, and divide epsilon by that
    bound. Proof and sensitivity: ``mechanisms.streams``.

    Counts are data, so no value of a count raises an error: it is rounded down to a whole number; a missing count (NaN,
    None) or one below 0 becomes 0, and one above 2^40 becomes 2^40. Streams that differ by one row therefore differ by
    at most 1 in a count.

    Memory is that of the open group, at most ``max_group`` counts. Save ``state()`` before an estimate is published,
    inside the privacy boundary and encrypted: it contains exact counts. If a step whose estimate was published is
    repeated from an older state, with fresh noise, its privacy cost is spent twice, and no ledger records it. Not
    thread-safe.

    Args:
        epsilon: privacy cost of the stream, whatever its length; all of it is spent.
        neighbours: neighbouring relation of the guarantee. ``REPLACE_ONE`` doubles all noise.
        group_share: fraction of epsilon, in (0, 1), for the grouping of steps; the rest is for the counts.
        threshold: largest deviation within a group of steps, in units of one over the epsilon of the grouping.
        max_group: largest number of steps in a group, up to 65,536; bounds memory.
        smoothing: ``median``, ``mean`` or ``james_stein``: how a group's noisy counts become an estimate.
        noise: sampler of the mechanism's noise; ``SeededNoise`` stamps the stream NOT PRIVATE permanently.

    Raises:
        InvalidRequest: an option is out of its bounds.

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
        group_share: Cost = "0.2",
        threshold: float = 5.0,
        max_group: int = 1024,
        smoothing: str = "median",
        noise: Noise = SECURE,
    ) -> None:
        self._shape = PegasusShape(
            epsilon=exact_decimal(epsilon, what="epsilon"),
            neighbours=_one_of(Neighbours, "neighbours", neighbours),
            group_share=exact_decimal(group_share, what="group_share"),
            threshold=threshold,
            max_group=max_group,
            smoother=_one_of(Smoother, "smoothing", smoothing),
        )
        self._noise = noise
        self._guarantee = noise.guarantee
        self._state = PegasusState()

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
        """Take several steps at once: equal to one after the other, but much faster.

        Args:
            counts: number of rows at each step, shape (n,); private.

        Returns:
            Estimates, at least 0, shape (n,); each depends on the counts up to its own step alone.

        Raises:
            TypeError: the counts are not numbers.
            ValueError: the counts are not one-dimensional.
        """
        exact = _whole(counts)
        after, released = release_steps(self._state, exact, shape=self._shape, noise=self._noise)
        self._state = after
        return released.estimates

    def state(self) -> bytes:
        """The state that the next step needs, with the options; **private**: it has exact counts of the open group."""
        return Saved.of(self._shape, self._state, self._guarantee).to_bytes()

    @classmethod
    def restore(cls, state: bytes, *, noise: Noise = SECURE) -> CountStream:
        """Continue a stream from its saved state. A stream that is NOT PRIVATE stays so.

        Args:
            state: bytes from ``state()``.
            noise: sampler of the noise from now on.

        Raises:
            InvalidRequest: the bytes are of another version, damaged, or not a saved state.
        """
        saved = Saved.from_bytes(state)
        shape = saved.shape
        stream = cls(
            epsilon=shape.epsilon,
            neighbours=shape.neighbours,
            group_share=shape.group_share,
            threshold=shape.threshold,
            max_group=shape.max_group,
            smoothing=shape.smoother,
            noise=noise,
        )
        stream._state = saved.state
        stream._guarantee = NOT_PRIVATE if NOT_PRIVATE in (saved.guarantee, noise.guarantee) else noise.guarantee
        return stream

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
        """Whether the estimates may be released."""
        return self._guarantee != NOT_PRIVATE

    @property
    def taken(self) -> int:
        """Number of steps taken so far."""
        return self._state.group.step

    def __repr__(self) -> str:
        return (
            f"CountStream(epsilon={plain(self.epsilon)}, neighbours={self.neighbours}, taken={self.taken}, "
            f"guarantee={self.guarantee!r})"
        )


def _one_of(kind: Any, what: str, given: object) -> Any:
    try:
        return kind(given)
    except ValueError:
        bound = f"must be one of {', '.join(kind)}"
        raise InvalidRequest(what, value=given, requirement=bound, remedy="leave it out for the default") from None


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
