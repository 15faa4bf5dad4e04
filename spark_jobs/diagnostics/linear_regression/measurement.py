"""The draw of a linear regression: noisy numbers of each group, by method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.grids import EARLIEST_ROUNDING
from spark_jobs.diagnostics.diagnostic import Draw
from spark_jobs.mechanisms.regression.lines import NoisyLines
from spark_jobs.mechanisms.regression.moments import NoisyMoments
from spark_jobs.statistics.public_keys import GroupKey


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyHeights:
    """Released heights of lines at two places; G groups.

    Attributes:
        places: the two places, in units of the box.
        heights: heights of the lines at these places, in units of the box; shape (G, 2).
        rows: public group sizes; shape (G,).
    """

    places: tuple[float, float]
    heights: FloatArray
    rows: FloatArray


GroupDraw: TypeAlias = NoisyLines | NoisyMoments | NoisyHeights


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodDraw:
    """The draw of one method, for the groups that use it.

    Attributes:
        method: name of the method.
        groups: ascending indices of its groups in the list of groups.
        draw: noisy numbers of these groups, in this order.
    """

    method: str
    groups: Int64Array
    draw: GroupDraw


@dataclass(frozen=True, kw_only=True, eq=False)
class LinesDraw(Draw):
    """The draw: noisy numbers of all groups, with the public facts that are needed to interpret them.

    Attributes:
        method: the requested method.
        at: places at which lines are evaluated, in units of the box.
        confidence: nominal level of the intervals.
        public_sizes: whether group sizes are public.
        keys: keys of the groups; None for a single group of all rows.
        x_bounds, y_bounds: bounds of the box.
        cells: number of cells per axis.
        parts: draw of each method; every group is in exactly one of them.
    """

    method: str
    at: tuple[float, ...]
    confidence: float
    public_sizes: bool
    keys: tuple[GroupKey, ...] | None
    x_bounds: tuple[float, float]
    y_bounds: tuple[float, float]
    cells: int
    parts: tuple[MethodDraw, ...]

    @property
    def off(self) -> float:
        """The most by which rounding moved a value, as a fraction of the box; 0 under the earliest rounding rule."""
        return 0.0 if self.rounding == EARLIEST_ROUNDING else 1 / (2 * (self.cells - 1))

    @property
    def groups(self) -> int:
        """The number of groups, each of which has one line."""
        return sum(part.groups.size for part in self.parts)
