"""A stream of counts as an object that is fed."""

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

    Neighbours: one row, one event, is there or not (``ADD_REMOVE``) or at another step (``REPLACE_ONE``). A person with
    k events in the stream has a loss of k epsilon: bound what a person adds to it, and divide epsilon by that bound.
    Proof and sensitivity: ``mechanisms.streams``.

    Counts are data, and no count raises: it is rounded down to a whole number; what is missing (NaN, None) or below 0
    counts as 0, what is above 2^40 as 2^40. Counts that differ by one row then differ by one at most.

    Memory is that of the open group, at most ``max_group`` counts. Keep ``state()`` before an estimate is published,
    inside the boundary and encrypted: it holds exact counts. A step whose estimate was published and that is taken
    again from an older state, with fresh noise, is paid for twice, and nobody counts it. One thread at a time.

    Args:
        epsilon: what the stream may cost, whatever its length; all of it is spent.
        neighbours: the relation of the guarantee. ``REPLACE_ONE`` doubles all noise.
        group_share: the part of epsilon, in (0, 1), that groups steps; the rest is for the counts.
        threshold: the deviation that a group of steps may have, in units of one over the groups' epsilon.
        max_group: steps that a group may have, up to 65,536; bounds memory.
        smoothing: ``median``, ``mean`` or ``james_stein``: how a group's noisy counts become an estimate.
        noise: sampler of the mechanism's noise; ``SeededNoise`` stamps the stream NOT PRIVATE for ever.

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
        """The next step: its count goes in, an estimate of it, at least 0, comes out.

        Args:
            count: rows of the step; private.

        Raises:
            TypeError: of a type that is no number; the count itself is not told.
        """
        return float(self.steps([count])[0])

    def steps(self, counts: ArrayLike) -> FloatArray:
        """The next steps at once: the same as one after the other, in far less time.

        Args:
            counts: rows of each step, shape (n,); private.

        Returns:
            Estimates, at least 0, shape (n,): each as it was known at its step.

        Raises:
            TypeError: of a type that is no number.
            ValueError: not one row of them.
        """
        exact = _whole(counts)
        after, released = release_steps(self._state, exact, shape=self._shape, noise=self._noise)
        self._state = after
        return released.estimates

    def state(self) -> bytes:
        """All that the next step needs, and the options; **private**: it holds the exact counts of the open group."""
        return Saved.of(self._shape, self._state, self._guarantee).to_bytes()

    @classmethod
    def restore(cls, state: bytes, *, noise: Noise = SECURE) -> CountStream:
        """The stream that ``state()`` gave, to be continued. A stream once NOT PRIVATE stays so.

        Args:
            state: what ``state()`` gave.
            noise: sampler of the noise from here on.

        Raises:
            InvalidRequest: the bytes are of another version, damaged, or never were a state.
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
        """What the whole stream costs."""
        return exact_decimal(self._shape.epsilon)

    @property
    def neighbours(self) -> Neighbours:
        """The relation of the guarantee."""
        return self._shape.neighbours

    @property
    def spendings(self) -> tuple[Spending, ...]:
        """What it costs, part by part."""
        return self._shape.spendings

    @property
    def guarantee(self) -> str:
        """``differentially private``, or ``NOT PRIVATE`` where any noise so far was seeded."""
        return self._guarantee

    @property
    def private(self) -> bool:
        """Whether the estimates may be released."""
        return self._guarantee != NOT_PRIVATE

    @property
    def taken(self) -> int:
        """Steps so far."""
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
    """Counts as whole numbers from 0 to 2^40, whatever they are, as long as they are numbers."""
    values = np.asarray(counts)
    if values.ndim != 1:
        raise ValueError(f"counts: got shape {values.shape}; must be one row")
    if values.dtype.kind == "O":
        values = np.array([_number(value) for value in values], dtype=np.float64)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"counts: got {values.dtype}; must be numbers")
    # what is beyond a float's whole numbers is beyond the clip, too; a warning would tell of it
    with np.errstate(over="ignore", invalid="ignore"):
        floats = values.astype(np.float64)
    whole: Int64Array = np.floor(np.clip(np.where(np.isnan(floats), 0.0, floats), 0.0, MAX_COUNT)).astype(np.int64)
    return whole


def _number(value: Any) -> float:
    known = isinstance(value, (Real, Decimal)) and not (isinstance(value, Decimal) and value.is_nan())
    if not known:
        return math.nan
    # a whole number of Python may be too large for a float
    return float(value) if 0 < value < MAX_COUNT else float(MAX_COUNT if value > 0 else 0)
