"""Exact sums of points on a grid, for many groups at once: the sufficient statistics of least-squares lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import Int64Array

MAX_STEPS = 1 << 20
BOUND = (1 << 63) - 1
"""Whole numbers are clipped to this before independent noise is added; that increases no number's sensitivity."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupSums:
    """Exact sums over the rows of each group, as Python integers of shape (groups,); private.

    Attributes:
        steps: the coordinate u from 0 to ``steps`` represents ``u / steps``; public and even.
        rows: the number of rows.
        x, y: sums of the coordinates.
        xx, xy: sums of the squares of x and of the products of x and y.

    Raises:
        ValueError: the shapes differ, or ``steps`` is not an even number from 2 to 2^20.
    """

    steps: int
    rows: NDArray[np.object_]
    x: NDArray[np.object_]
    y: NDArray[np.object_]
    xx: NDArray[np.object_]
    xy: NDArray[np.object_]

    def __post_init__(self) -> None:
        if not 2 <= self.steps <= MAX_STEPS or self.steps % 2:
            raise ValueError(f"steps: got {self.steps}; must be even and from 2 to {MAX_STEPS}")
        for name in ("rows", "x", "y", "xx", "xy"):
            sums = whole(getattr(self, name))
            if sums.ndim != 1 or sums.shape != np.shape(self.rows):
                raise ValueError(f"{name}: got shape {sums.shape}; must be one number for each group")
            object.__setattr__(self, name, sums)

    @classmethod
    def from_cells(
        cls, group: ArrayLike, x: ArrayLike, y: ArrayLike, counts: ArrayLike, *, groups: int, steps: int
    ) -> GroupSums:
        """The sums over rows that are given as counts of distinct points.

        Args:
            group: the group of each point, 0 to ``groups - 1``; shape (k,).
            x: the x of each point, 0 to ``steps``.
            y: the y of each point, 0 to ``steps``.
            counts: the number of rows at each point.
            groups: the number of groups; a group without points has no rows.
            steps: as in ``GroupSums``.
        """
        at, number = np.asarray(group, dtype=np.int64), np.asarray(counts, dtype=np.int64)
        u, v = (np.asarray(place, dtype=np.int64) for place in (x, y))
        terms = {"rows": whole(number), "x": number * whole(u), "y": number * whole(v)}
        terms |= {"xx": number * whole(u * u), "xy": number * whole(u * v)}
        added: dict[str, NDArray[np.object_]] = {}
        for name, term in terms.items():
            added[name] = whole(np.zeros(groups, dtype=np.int64))
            np.add.at(added[name], at, term)
        return cls(steps=steps, **added)

    @property
    def covariation(self) -> NDArray[np.object_]:
        """``rows`` times the sum of ``(x - mean x) (y - mean y)``, in units of ``steps^-2``."""
        return np.asarray(self.rows * self.xy - self.x * self.y)

    @property
    def variation(self) -> NDArray[np.object_]:
        """``rows`` times the sum of ``(x - mean x)^2``, in units of ``steps^-2``."""
        return np.asarray(self.rows * self.xx - self.x * self.x)

    def centred(self) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
        """Sums of ``a = 2 x - steps`` and of ``b = 2 y - steps``, which lie in [-steps, steps]."""
        return 2 * self.x - self.rows * self.steps, 2 * self.y - self.rows * self.steps

    def centred_products(self) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
        """Sums of ``a a`` and of ``a b``, with ``a`` and ``b`` of ``centred``."""
        squares = 4 * self.xx - 4 * self.steps * self.x + self.rows * self.steps**2
        products = 4 * self.xy - 2 * self.steps * (self.x + self.y) + self.rows * self.steps**2
        return squares, products


def whole(values: ArrayLike) -> NDArray[np.object_]:
    """The values as Python integers, which do not overflow.

    Raises:
        TypeError: the values are not whole numbers.
    """
    array = np.asarray(values)
    if array.dtype != object and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"values: got {array.dtype}; must be whole numbers of grid steps")
    return array.astype(object)


def rounded(numerators: NDArray[np.object_], denominators: ArrayLike) -> Int64Array:
    """Exact fractions, rounded to the nearest whole numbers (halves upwards) and clipped to int64.

    Two fractions that differ by at most a whole number d give whole numbers that differ by at most d: rounding does not
    increase a sensitivity that is a whole number of lattice steps.

    Args:
        numerators: whole numbers.
        denominators: whole numbers above 0.
    """
    below = whole(denominators)
    nearest = (2 * numerators + below) // (2 * below)
    clipped: Int64Array = np.minimum(np.maximum(nearest, -BOUND), BOUND).astype(np.int64)
    return clipped
