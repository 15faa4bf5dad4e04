"""Public grids for points in a box, one for each group of a public list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.public_keys import GroupKey, checked_keys, key_places
from spark_jobs.statistics.value_grid import ValueGrid

Bound = float | tuple[float, float]
"""One bound for both x and y, or a pair of bounds."""

DEFAULT_POINT_CELLS = 1024
MAX_POINT_CELLS = 2**13
"""With this limit, products of positions are below 2^28, so that sums over 2^35 rows fit 64 bits."""


@dataclass(frozen=True, kw_only=True)
class PointGrid:
    """Square cells of a public box, repeated for each group; fixed independently of the data.

    A cell represents its middle. In *half cells*, of which an axis has ``2 * cells``, the middles are the odd numbers
    and the middle of the box is ``cells``; all exact sums are in half cells.

    Attributes:
        x, y: linear grids of the two axes, with the same number of cells: a power of two from 2 to 8,192.
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
            object.__setattr__(self, "keys", checked_keys(self.keys, field="groups"))

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
        return key_places(self.keys or ())


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
