"""A public tree over the cells of a line or a grid, each level of which joins pairs of nodes along one axis.

Level 0 holds the cells, the last level a single node. Axes take turns, so that the nodes of a grid are squares or pairs
of squares. A level is an array of nodes; where their number along an axis is odd, the last one has no partner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class HalvingTree:
    """The public shape of a tree.

    Attributes:
        shapes: the shape of the array of nodes, for each level.
        axes: for each level, the axis along which its nodes are paired to make the nodes of the next level.
    """

    shapes: tuple[tuple[int, ...], ...]
    axes: tuple[int, ...]

    @classmethod
    def over(cls, shape: tuple[int, ...]) -> HalvingTree:
        """The tree over an array of cells of this shape."""
        shapes, axes = [shape], list[int]()
        wanted = [(size - 1).bit_length() for size in shape]
        while any(wanted[axis] > axes.count(axis) for axis in range(len(shape))):
            open_axes = [axis for axis in range(len(shape)) if wanted[axis] > axes.count(axis)]
            axis = min(open_axes, key=lambda axis: (axes.count(axis), -axis))
            shapes.append(tuple(-(-size // 2) if at == axis else size for at, size in enumerate(shapes[-1])))
            axes.append(axis)
        return cls(shapes=tuple(shapes), axes=tuple(axes))

    @property
    def root(self) -> int:
        """The level of the root."""
        return len(self.axes)

    def size(self, level: int) -> int:
        """The number of nodes of a level."""
        return math.prod(self.shapes[level])

    def halves(self, level: int, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """A level's values, as first and second children of the next level's nodes; 0 for a missing second child."""
        along = np.moveaxis(values, self.axes[level], 0)
        first, second = along[0::2], along[1::2]
        if len(second) < len(first):
            second = np.concatenate([second, np.zeros_like(first[:1])])
        return np.moveaxis(first, 0, self.axes[level]), np.moveaxis(second, 0, self.axes[level])

    def joined(self, level: int, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """A level's values from those of first and second children: the inverse of ``halves``."""
        axis = self.axes[level]
        both = np.stack([np.moveaxis(first, axis, 0), np.moveaxis(second, axis, 0)], axis=1)
        values = both.reshape(-1, *both.shape[2:])[: self.shapes[level][axis]]
        return np.moveaxis(values, 0, axis)

    def sums(self, cells: NDArray[Any]) -> list[NDArray[Any]]:
        """The sum of the cells' values in every node: one array for each level, cells first."""
        levels = [cells]
        for level in range(self.root):
            levels.append(np.add(*self.halves(level, levels[-1])))
        return levels

    def repeated(self, values: NDArray[Any], *, above: int, below: int) -> NDArray[Any]:
        """For each node of the level ``below``, the value of its ancestor at the level ``above``."""
        for level in range(above - 1, below - 1, -1):
            values = self.joined(level, values, values)
        return values
