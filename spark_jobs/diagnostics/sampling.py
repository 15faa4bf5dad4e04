"""What was sampled from a population: single rows, or units with several rows each.

Intervals for a population allow for its sampling. Where units are sampled with all their rows, a figure varies more
than if its rows were sampled one by one: its variance is ``D`` times as large, and ``D``, the design effect, is at most
the largest number of rows of a unit. So n rows that are sampled with their units carry as much information as ``n / D``
rows that are sampled one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.mechanisms.unit_squares import DesignEffect
from spark_jobs.statistics.unit_squares import OfCells


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The sampling behind the rows of a release.

    Attributes:
        max_rows: the largest number of rows of one unit.
        effects: released design effects, by the name of the figure; for other figures ``max_rows`` is an upper limit.
    """

    max_rows: int = 1
    effects: Mapping[str, DesignEffect] = field(default_factory=dict)

    def effect(self, figure: str = "") -> DesignEffect:
        """The design effect of a figure; the largest possible one unless it was released."""
        return self.effects.get(figure) or DesignEffect(value=float(self.max_rows), at_most=self.max_rows > 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """The change of a figure when one row is added, times the number of rows; from released counts.

    Attributes:
        of_cells: for each cell of a row, its part of the row's influence (``unit_passes.cells_of_rows``).
        largest: the largest absolute influence that one row can have.
        rows_square: the sum of squared influences over rows.
    """

    of_cells: OfCells
    largest: float
    rows_square: float

    @classmethod
    def of_groups(cls, influences: FloatArray, rows: FloatArray, cuts: Int64Array) -> Influence:
        """The influence of rows that are counted in ``ScoreCounts``.

        Args:
            influences: by label and group of scores, negatives first; shape (2, groups).
            rows: released numbers of rows, at least 0; shape (2, groups).
            cuts: the groups, as cuts of the scores' grid.
        """
        return cls(
            of_cells=OfCells(
                starts=np.concatenate([cuts[:-1], cuts[:-1] + cuts[-1]]),
                size=2 * int(cuts[-1]),
                values=influences.reshape(-1),
            ),
            largest=float(np.abs(influences).max()),
            rows_square=float((rows * influences**2).sum()),
        )


OF_ROWS = Sampling()
"""Rows that are sampled one by one: each is a unit of its own."""
