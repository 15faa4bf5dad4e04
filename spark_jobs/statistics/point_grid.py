"""Public grids for points in a box, one for each group of a public list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
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
    """A lattice of public places in a box, repeated for each group; fixed independently of the data.

    Each axis has ``cells`` places, evenly spaced from the lower bound to the upper one, both included, so that an
    outcome that is 0 or 1 is not moved. A value counts as the nearest place and is thereby moved by at most half the
    distance of two places (``off``). Exact sums are in *half steps*, which are half the distance of two places: an axis
    has ``steps`` half steps, and the middle of the box is a whole number of them, too.

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
                "cells", max(self.x.cells, self.y.cells), f"must be the same on both axes, at most {MAX_POINT_CELLS}",
                f"use the default {DEFAULT_POINT_CELLS}",
            )  # fmt: skip
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
    def steps(self) -> int:
        """The number of half steps of an axis; place j lies at half step 2 j."""
        return 2 * (self.x.cells - 1)

    @property
    def off(self) -> float:
        """The largest distance by which rounding moves a value within the bounds, as a part of the box."""
        return 1 / self.steps

    def places_of(self, values: FloatArray, axis: ValueGrid) -> Int64Array:
        """The place nearest to each value along an axis, after clipping to the bounds. NaN is not allowed."""
        return nearest_places(values, axis.lower, axis.upper, axis.cells - 1).astype(np.int64)

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


def nearest_places(values: FloatArray, lower: float, upper: float, steps: int) -> FloatArray:
    """The nearest of places 0 to ``steps``, evenly spaced between the bounds, for values clipped to these; NaN stays.

    ``spark.points.nearest_place`` rounds with the same operations.
    """
    within = np.clip(values, lower, upper)
    places: FloatArray = np.floor((within - lower) / (upper - lower) * float(steps) + 0.5)
    return np.clip(places, 0, steps)


def _pair(bound: Bound) -> tuple[float, float]:
    if isinstance(bound, (tuple, list)):
        if len(bound) != 2:
            raise InvalidRequest("bounds", list(bound), "must be one number or a pair", "give one for x and one for y")
        return bound[0], bound[1]
    return bound, bound
