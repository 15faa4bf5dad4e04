"""Public grids for points in a box, one for each group of a public list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.value_grid import ValueGrid

GroupKey = str | int
Bound = float | tuple[float, float]
"""One bound for both x and y, or a pair of bounds."""

DEFAULT_POINT_CELLS = 1024
MAX_POINT_CELLS = 2**14
"""With this limit, products of positions are below 2^30, so that sums over 2^33 rows fit 64 bits."""
MAX_GROUPS = 2**20
LONGEST_KEY = 255


@dataclass(frozen=True, kw_only=True)
class PointGrid:
    """Square cells of a public box, repeated for each group; fixed independently of the data.

    A cell represents its middle. In *half cells*, of which an axis has ``2 * cells``, the middles are the odd numbers
    and the middle of the box is ``cells``; all exact sums are in half cells.

    Attributes:
        x, y: linear grids of the two axes, with the same number of cells: a power of two from 2 to 16,384.
        keys: the groups, which the user lists or which come from a public table: texts and whole numbers, where 17 and
            "17" are the same; None for a single group of all rows.

    Raises:
        InvalidRequest: the axes differ in cells or have too many, or the keys are not distinct short texts and whole
            numbers.
    """

    x: ValueGrid
    y: ValueGrid
    keys: tuple[GroupKey, ...] | None = None

    def __post_init__(self) -> None:
        if self.x.cells > MAX_POINT_CELLS or self.y.cells != self.x.cells:
            raise InvalidRequest(
                "cells",
                value=max(self.x.cells, self.y.cells),
                requirement=f"must be the same on both axes, at most {MAX_POINT_CELLS}",
                remedy=f"use the default {DEFAULT_POINT_CELLS}",
            )
        if self.keys is not None:
            object.__setattr__(self, "keys", _checked_keys(self.keys))

    @classmethod
    def between(
        cls,
        lower: Bound = 0.0,
        upper: Bound = 1.0,
        *,
        cells: int = DEFAULT_POINT_CELLS,
        keys: Iterable[GroupKey] | None = None,
    ) -> PointGrid:
        """The grid of the box between public bounds: one bound for both axes, or a pair (x, y).

        Raises:
            InvalidRequest: the bounds are not finite and ascending, or the cells or keys are invalid.
        """
        (x_lower, y_lower), (x_upper, y_upper) = _pair(lower), _pair(upper)
        return cls(
            x=ValueGrid(lower=x_lower, upper=x_upper, cells=cells),
            y=ValueGrid(lower=y_lower, upper=y_upper, cells=cells),
            keys=None if keys is None else tuple(keys),
        )

    @property
    def cells(self) -> int:
        """The number of cells of an axis."""
        return self.x.cells

    @property
    def groups(self) -> int:
        """The number of groups."""
        return 1 if self.keys is None else len(self.keys)

    @property
    def stride(self) -> int:
        """The number of packed keys of one group: its cells, and one for its rows without a point."""
        return self.cells * self.cells + 1

    @property
    def size(self) -> int:
        """The number of packed keys of all groups."""
        return self.groups * self.stride

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each key in the list, by its text; empty for a single unnamed group."""
        return {str(key): place for place, key in enumerate(self.keys or ())}

    def place(self, groups: NDArray[np.generic] | list[object]) -> Int64Array:
        """The index of each row's group in the list; -1 for a group that is not listed."""
        array = np.asarray(groups)
        if array.dtype.kind in "iuU":
            named, rows = np.unique(array, return_inverse=True)
            return self._places_of(named.tolist())[rows]
        return self._places_of(array.tolist())

    def _places_of(self, groups: list[object]) -> Int64Array:
        places = (self.places.get(str(group), -1) if _is_key(group) else -1 for group in groups)
        return np.fromiter(places, np.int64, count=len(groups))


def _is_key(group: object) -> bool:
    return isinstance(group, (str, int, np.integer)) and not isinstance(group, bool)


def _pair(bound: Bound) -> tuple[float, float]:
    if isinstance(bound, (tuple, list)):
        if len(bound) != 2:
            raise InvalidRequest(
                "bounds",
                value=list(bound),
                requirement="must be one number or a pair",
                remedy="give one for x and one for y",
            )
        return bound[0], bound[1]
    return bound, bound


def _checked_keys(keys: Iterable[object]) -> tuple[GroupKey, ...]:
    checked = tuple(_checked_key(key) for key in keys)
    texts = {str(key) for key in checked}
    if not 1 <= len(checked) <= MAX_GROUPS or len(texts) < len(checked):
        raise InvalidRequest(
            "groups",
            value=f"{len(checked)} keys, {len(texts)} of them distinct",
            requirement=f"must be from 1 to {MAX_GROUPS} distinct keys",
            remedy="remove the repeated keys (17 and '17' are the same key)",
        )
    return checked


def _checked_key(key: object) -> GroupKey:
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and -(2**63) <= key < 2**64:
        return int(key)
    if isinstance(key, str) and len(key) <= LONGEST_KEY and _sound(key):
        return key
    raise InvalidRequest(
        "groups",
        value="a number beyond 64 bits" if isinstance(key, int) and abs(key) >= 2**63 else key,
        requirement=f"must be texts of at most {LONGEST_KEY} characters or whole numbers of 64 bits",
        remedy="write each group as it is in the column",
    )


def _sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no column can contain
        return False
    return True
