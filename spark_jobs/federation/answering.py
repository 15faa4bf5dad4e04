"""A server's answers from comparison keys: shares of the noisy number of hidden values below requested points.

Each answered point is paid for: before the server draws noise, it writes the point into an object, a *place*, in a
folder of its own. A place can be created only once, and there are as many places as evaluations. The noise of a point
is derived from the server's key, the silos' keys and the point, so that asking again, in whatever round, gives the same
number.

Neighbours and guarantee: those of ``mechanisms.paid_counts``, for rows of one person in up to ``silos_per_person``
silos, against all who see the answers and the secrets of the other server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.objects import open_store
from spark_jobs.federation.additive import Share, residues
from spark_jobs.federation.agreement import Keys
from spark_jobs.federation.comparison import ComparisonKeys, comparison_keys, evaluate, packed, packed_size, unpacked
from spark_jobs.federation.derived import DerivedWords, derived_key
from spark_jobs.federation.messages import Header, MessageRejected
from spark_jobs.federation.noise_shares import NoiseShare


@dataclass(frozen=True, kw_only=True)
class Answering:
    """One server's side of all points of one release.

    Attributes:
        silo_keys: the server's keys of each silo's values.
        header: the header of the silos' keys; its ``epsilon`` pays for all evaluations, and its ``l1_sensitivity`` is
            the number of evaluations.
        keys: the server's private keys.
        receipt: hash of the silos' keys.
        places: a folder or URI for paid points, which this server alone can write to.
        silos_per_person: the largest number of silos that hold rows of one person.
    """

    silo_keys: Sequence[ComparisonKeys] = field(repr=False)
    header: Header
    keys: Keys
    receipt: bytes = field(repr=False)
    places: str
    silos_per_person: int
    _paid: dict[int, None] = field(default_factory=dict, repr=False)

    @property
    def left(self) -> int:
        """How many points may still be asked for."""
        self._read_places()
        return self.header.l1_sensitivity - len(self._paid)

    def answer(self, points: Int64Array) -> Share:
        """This server's shares of the noisy numbers of values below each point.

        Raises:
            MessageRejected: too few evaluations are left for the points, of which none is answered then.
            InvalidRequest: a point is out of range.
        """
        wanted = points.tolist()
        self._require_left(wanted)
        sums = np.sum([evaluate(own, points) for own in self.silo_keys], axis=0, dtype=np.uint64)
        self._pay(wanted)
        return sums + np.concatenate([self._noise(int(point)) for point in points])

    def _noise(self, point: int) -> Share:
        law = NoiseShare(
            epsilon=self.header.epsilon,
            l1_sensitivity=self.silos_per_person * self.header.l1_sensitivity,
            contributors=2,
            colluding=1,
        )
        bound = [np.frombuffer(self.receipt, dtype=np.uint64), np.array([point], dtype=np.uint64)]
        key = derived_key(self.keys, "evaluation", header=self.header, vectors=bound)
        return residues(law.draw((1,), noise=DerivedWords(key)))

    def _require_left(self, points: Sequence[int]) -> None:
        """Reject points that are not paid for, or a list that repeats them, before any work is done for them."""
        left, new = self.left, len(set(points) - self._paid.keys())
        if new > left:
            raise MessageRejected(
                f"{new} more evaluations are requested, but only {left} of the {self.header.l1_sensitivity} "
                "evaluations that were paid for are left"
            )
        if len(points) > self.header.l1_sensitivity:
            raise MessageRejected(f"{len(points)} points are requested in one round, and some of them twice")

    def _pay(self, points: Sequence[int]) -> None:
        store = open_store(self.places)
        for point in sorted(set(points)):
            while point not in self._paid:
                if len(self._paid) == self.header.l1_sensitivity:
                    raise MessageRejected("none of the evaluations that were paid for is left")
                failpoint("before_keep_receipt")
                store.create(self._place(len(self._paid)), str(point).encode())
                failpoint("after_keep_receipt")
                self._read_places()

    def _read_places(self) -> None:
        store = open_store(self.places)
        while (content := store.read(self._place(len(self._paid)))) is not None:
            self._paid[int(content)] = None

    def _place(self, number: int) -> str:
        return f"{self.places.rstrip('/')}/{number}"


def hidden(counts: Int64Array, capacity: int) -> tuple[Int64Array, int]:
    """The values to hide in ``capacity`` keys, and their number of bits: the cell of each row, smallest cells first.

    Surplus keys hide a value above every edge of the grid, so that they never count; rows beyond ``capacity`` are left
    out.

    Args:
        counts: exact counts per cell of the grid; private.
        capacity: the public number of keys.
    """
    bits = counts.size.bit_length()
    within = np.diff(np.minimum(np.cumsum(counts), capacity), prepend=0)
    values = np.full(capacity, (1 << bits) - 1, dtype=np.int64)
    rows = np.repeat(np.arange(counts.size), within)
    values[: rows.size] = rows
    return values, bits


def keys_of(values: Int64Array, bits: int, words: DerivedWords) -> tuple[Share, Share]:
    """The two servers' keys of hidden values, each as one vector."""
    first, second = comparison_keys(values, bits=bits, noise=words)
    return packed(first), packed(second)


def key_words(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the vector of keys, from the number of keys and of bits in the header.

    Raises:
        MessageRejected: there can be no keys of these numbers.
    """
    if len(shape) != 2:
        raise MessageRejected("the silos' keys have no number and bits")
    return (packed_size(*shape),)


def opened_keys(vector: Share, shape: tuple[int, ...], *, server: int, sender: str) -> ComparisonKeys:
    """The keys in a silo's vector.

    Raises:
        MessageRejected: the vector does not hold keys of this number of bits.
    """
    try:
        return unpacked(vector, server=server, size=shape[0], bits=shape[1])
    except InvalidRequest:
        raise MessageRejected(f"the keys of {sender} are not {shape[0]} of {shape[1]} bits") from None


def tag_of(points: bytes) -> str:
    """The hash of a question's points, which identifies the question."""
    return hashlib.sha256(points).hexdigest()
