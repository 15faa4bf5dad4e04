"""How many rows of each unit a stream has used: exact, private, and of a public size.

*What it is for.* A stream counts each step when it is due, from the version of the table at that time. Which rows of a
unit were used before cannot be found again from a later version: rows arrive late, vanish and return. So the stream
keeps a keyed hash of each unit of which a row was used, with the number of used rows. A step uses at most ``max_rows``
minus this number of the unit's rows.

*Neighbours and stability.* Let all rows of one unit, in every version of the table, be added or removed
(``ADD_REMOVE``) or replaced (``REPLACE_ONE``). The stream has a public number of ``places``, each for one unit. New
units get places in the order of the step of their first counted row and, within a step, in the order of their hashes;
no place is ever taken away. How many rows are used of a unit with a place depends only on the unit's own rows and on
its own number of used rows, and is at most ``max_rows`` over all steps, whatever the versions are. So if there are at
most as many units as places, the counts of all steps together differ by at most ``max_rows`` in 1-norm
(``REPLACE_ONE``: twice that). If there are more units than places, the place of the unit that differs goes to exactly
one other unit when that unit is absent. All other units keep their order, so that the units with places are the same
except for these two; a unit without a place is tried again in later steps and gets none. The counts then differ by at
most ``2 max_rows`` under either relation.

*What its size shows.* The use is written as ``places`` records of 34 bytes, a hash of 32 bytes and a number of 2,
sorted by hash; records without a unit have a hash whose bits are all 1, and the number 0. The records are encrypted
wherever they are stored.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import Int64Array

HASH_BYTES = 32
RECORD_BYTES = HASH_BYTES + 2
_MARKED = f"S{HASH_BYTES + 1}"
"""A hash with a mark after it, because numpy takes zeros at the end of bytes away."""
_MARK = 1


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnitUse:
    """The number of used rows of each unit; private, so its ``repr`` shows nothing.

    Attributes:
        places: the number of units for which there is room; public.
        hashes: the hash of each unit of which a row was used, sorted, with a mark; shape (units,).
        used: the number of used rows of each, at least 1, shape (units,).
    """

    places: int
    hashes: NDArray[Any]
    used: Int64Array

    @classmethod
    def none(cls, places: int) -> Self:
        """The use before the first step of a stream."""
        return cls(places=places, hashes=np.zeros(0, dtype=_MARKED), used=np.zeros(0, dtype=np.int64))

    @property
    def free(self) -> int:
        """How many more units can get a place; private."""
        return self.places - len(self.hashes)

    def of(self, hashes: NDArray[Any]) -> Int64Array:
        """The number of used rows of the units with these hashes; 0 for those without a place."""
        if not len(self.hashes):
            return np.zeros(len(hashes), dtype=np.int64)
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[at] == hashes, self.used[at], 0)

    def admits(self, hashes: NDArray[Any], begins: Int64Array) -> NDArray[np.bool_]:
        """Whether each row is of a unit that has a place or gets a free one.

        Args:
            hashes: the hash of each row's unit.
            begins: the step of the first counted row of each row's unit.
        """
        known = self.of(hashes) > 0
        new, at = np.unique(hashes[~known], return_index=True)
        first = new[np.lexsort((new, begins[~known][at]))[: max(self.free, 0)]]
        return known | np.isin(hashes, first)

    def after(self, hashes: NDArray[Any], rows: Int64Array) -> Self:
        """The use after ``rows`` more rows of the units with these hashes, which may be repeated; new ones get places.

        Raises:
            ValueError: there are more units than places, or more rows of a unit than a record can hold.
        """
        units, at = np.unique(np.concatenate([self.hashes, hashes]), return_inverse=True)
        used = np.zeros(len(units), dtype=np.int64)
        np.add.at(used, at, np.concatenate([self.used, rows]))
        units, used = units[used > 0], used[used > 0]
        if len(units) > self.places or (used > np.iinfo(np.uint16).max).any():
            raise ValueError("more units, or rows of a unit, than there is room for")
        return type(self)(places=self.places, hashes=units, used=used)

    def to_records(self) -> NDArray[np.uint8]:
        """All records, shape (places, 34)."""
        records = np.full((self.places, RECORD_BYTES), 0xFF, dtype=np.uint8)
        records[:, HASH_BYTES:] = 0
        kept = np.frombuffer(self.hashes.tobytes(), dtype=np.uint8).reshape(-1, HASH_BYTES + 1)
        records[: len(kept), :HASH_BYTES] = kept[:, :HASH_BYTES]
        records[: len(kept), HASH_BYTES:] = self.used.astype(">u2").view(np.uint8).reshape(-1, 2)
        return records

    @classmethod
    def from_records(cls, records: NDArray[np.uint8]) -> Self:
        """The use that ``to_records`` wrote."""
        used = np.ascontiguousarray(records[:, HASH_BYTES:]).view(">u2").ravel().astype(np.int64)
        hashes = marked(np.ascontiguousarray(records[used > 0, :HASH_BYTES]).tobytes())
        return cls(places=len(records), hashes=hashes, used=used[used > 0])


def marked(hashes: bytes) -> NDArray[Any]:
    """Concatenated hashes as an array that numpy can sort and compare: each with a mark after it."""
    rows = np.frombuffer(hashes, dtype=np.uint8).reshape(-1, HASH_BYTES)
    with_mark = np.concatenate([rows, np.full((len(rows), 1), _MARK, dtype=np.uint8)], axis=1)
    return np.ascontiguousarray(with_mark).view(_MARKED).ravel()


def unmarked(hashes: NDArray[Any]) -> list[bytes]:
    """The hashes of an array as bytes."""
    return [bytes(one)[:HASH_BYTES] for one in hashes.tolist()]


def unit_hashes(units: Iterable[object], key: bytes) -> NDArray[Any]:
    """HMAC-SHA-256 of the text of each unit under ``key``, as an array that numpy can sort and compare."""
    return marked(b"".join(hmac.digest(key, str(unit).encode(), "sha256") for unit in units))
