"""Keys of a public list, such as groups or states, and the place of a row's key in the list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import GroupKey as GroupKey

MAX_GROUPS = 2**20
LONGEST_KEY = 255


def checked_keys(keys: Iterable[object], *, field: str) -> tuple[GroupKey, ...]:
    """The keys of a public list.

    Raises:
        InvalidRequest: they are not distinct short texts and whole numbers; the field of the error is ``field``.
    """
    checked = tuple(_checked_key(key, field) for key in keys)
    texts = {str(key) for key in checked}
    if not 1 <= len(checked) <= MAX_GROUPS or len(texts) < len(checked):
        raise InvalidRequest(
            field, f"{len(checked)} keys, {len(texts)} of them distinct",
            f"must be from 1 to {MAX_GROUPS} distinct keys", "remove the repeated keys (17 and '17' are the same key)",
        )  # fmt: skip
    return checked


def key_places(keys: Iterable[GroupKey]) -> dict[str, int]:
    """The place of each key in the list, by its text."""
    return {str(key): place for place, key in enumerate(keys)}


def row_places(values: ArrayLike, places: Mapping[str, int], *, field: str) -> Int64Array:
    """The place of each row's key in the list; -1 for a key that is not listed, and for a missing one.

    Raises:
        InvalidRequest: the values are not one column of texts or whole numbers.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(object), None)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuUO":
        raise InvalidRequest(
            field, f"{array.ndim} dimensions of {array.dtype}", "must be one column of texts or whole numbers",
            "convert the column first",
        )  # fmt: skip
    if array.dtype.kind in "iuU":
        named, rows = np.unique(array, return_inverse=True)
        return _places_of(named.tolist(), places)[rows]
    return _places_of(array.tolist(), places)


def is_key(value: object) -> bool:
    """Whether a value in a column can be a key."""
    return isinstance(value, (str, int, np.integer)) and not isinstance(value, bool)


def _places_of(values: list[object], places: Mapping[str, int]) -> Int64Array:
    indices = (places.get(str(value), -1) if is_key(value) else -1 for value in values)
    return np.fromiter(indices, np.int64, count=len(values))


def _checked_key(key: object, field: str) -> GroupKey:
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and -(2**63) <= key < 2**64:
        return int(key)
    if isinstance(key, str) and len(key) <= LONGEST_KEY and is_sound(key):
        return key
    raise InvalidRequest(
        field, "a number beyond 64 bits" if isinstance(key, int) and abs(key) >= 2**63 else key,
        f"must be texts of at most {LONGEST_KEY} characters or whole numbers of 64 bits",
        "write each of them as it is in the column",
    )  # fmt: skip


def is_sound(text: str) -> bool:
    """Whether the text is valid Unicode, without half of a surrogate pair: only then can a column contain it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
