"""What a release of lines has drawn: noisy numbers of each group, by method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.diagnostics.diagnostic import Draw
from spark_jobs.mechanisms.regression.lines import NoisyLines
from spark_jobs.mechanisms.regression.moments import NoisyMoments
from spark_jobs.statistics.point_grid import GroupKey


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyHeights:
    """Released heights of lines at two places; G groups.

    Attributes:
        places: the two, in units of the box.
        heights: shape (G, 2), in units of the box.
        rows: public sizes; shape (G,).
    """

    places: tuple[float, float]
    heights: FloatArray
    rows: FloatArray


GroupDraw: TypeAlias = NoisyLines | NoisyMoments | NoisyHeights


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodDraw:
    """What one method drew for its groups.

    Attributes:
        method: its name.
        groups: places of its groups in the list; ascending.
        draw: their noisy numbers, in this order.
    """

    method: str
    groups: Int64Array
    draw: GroupDraw


@dataclass(frozen=True, kw_only=True, eq=False)
class LinesDraw(Draw):
    """The draw: noisy numbers of all groups, and the public facts needed to read them.

    Attributes:
        method: as requested.
        at: where lines are evaluated, in units of the box.
        confidence: nominal level of intervals.
        public_sizes: whether group sizes are public.
        keys: the groups; None for one.
        x_bounds, y_bounds: of the box.
        cells: of an axis.
        parts: what each method drew; every group is in one of them.
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
    def groups(self) -> int:
        """How many lines there are."""
        return sum(part.groups.size for part in self.parts)
