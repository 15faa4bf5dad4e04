"""Rows whose order the grid of scores hides, at its ends and inside; post-processing of released counts.

A score beyond an end was clamped to the end; a score nearer to an end than ``2^-30`` shares the cell of the end. A pair
of a positive and a negative row in one such cell counts half in the area under the curve, whichever score was higher.
So the area of the cells differs from that of the scores themselves by at most half the share of such pairs.

Inside, scores that share a fine cell count as ties, unless nearly all rows of both classes are in a few neighbouring
cells. In this case either all scores are equal, or they differ by so little that the grid hides their order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.figure import DECIMALS, Ends, Figure, Number
from spark_jobs.contract.figures import COARSE, DEFINED_ABOVE, OK, UNDEFINED
from spark_jobs.contract.grids import SCORE_CELLS, TAIL_DOUBLINGS
from spark_jobs.mechanisms.prefix_sums import NoisyTree
from spark_jobs.score_grid import edges_of, values_inside

CROWDED = 0.9
"""The share of each class in neighbouring cells from which their order counts as hidden."""
CLEAR_OF_NOISE = 5.0
"""Standard deviations of the noise in such a number of rows that the smaller class must have, so that scores that can
be told from each other are called hidden once in 500 releases at most."""
IN_CELLS = 0.5
"""The share of the pairs of both classes in one counted cell, from which an interval that allows for half of their
orders is as wide as it is for that reason."""
STATED_FROM = 0.01
"""The share of rows at the ends from which a report says it."""
NEAR = 2.0 ** (1 - TAIL_DOUBLINGS)
"""A counted cell that ends within this distance of an end holds only scores that are equal on the grid."""


class CountedCells(Protocol):
    """Noisy counts of both classes in cells of the grid of scores."""

    @property
    def grid(self) -> int: ...

    @property
    def cuts(self) -> Int64Array: ...

    @property
    def steps(self) -> int | None: ...


@dataclass(frozen=True, kw_only=True)
class AtEnds:
    """What released counts say of rows whose scores are at the ends of the grid.

    Attributes:
        share: these rows as a noisy share of all rows; None if no counts show it.
        tied: the share of the pairs of both classes whose order the ends hide; 0 where the noise hides these rows.
        in_cells: the share of the pairs of both classes that lie in one counted cell; the interval of the area already
            allows for any order of these.
    """

    share: float | None = None
    tied: float = 0.0
    in_cells: float = 0.0

    @classmethod
    def of_counts(cls, draw: CountedCells, negatives: object, positives: object) -> AtEnds:
        """From the counts of a curve; all unknown on grids of equal cells, and for counts whose noise is unknown."""
        if draw.grid != SCORE_CELLS or not (isinstance(negatives, NoisyTree) and isinstance(positives, NoisyTree)):
            return cls()
        hidden = np.ones(draw.cuts.size - 1, dtype=np.bool_)
        if draw.steps is not None:
            hidden = values_inside(draw.cuts, draw.steps, draw.grid) > 1
        in_cells = _pairs_in_cells(negatives.counts(), positives.counts(), hidden)
        edges = edges_of(draw.grid)[draw.cuts]
        ends = [place for place, near in ((0, edges[1] <= NEAR), (-1, edges[-2] >= 1 - NEAR)) if near]
        if not ends:
            return cls(in_cells=in_cells)
        stddev = math.sqrt(negatives.range_variance(0, 1))
        at_ends = cls.of_rows(_at(negatives.counts(), ends), _at(positives.counts(), ends), stddev=stddev)
        return replace(at_ends, in_cells=in_cells, tied=at_ends.tied if draw.steps is None else 0.0)

    @classmethod
    def of_rows(cls, negatives: list[float], positives: list[float], *, stddev: float) -> AtEnds:
        """From noisy numbers of rows of each class: the numbers at each end, followed by the size of the class."""
        whole = max(negatives[-1] + positives[-1], 1.0)
        at = sum(negatives[:-1]) + sum(positives[:-1])
        share = round(min(max(at / whole, 0.0), 1.0), DECIMALS)
        if at < DEFINED_ABOVE * stddev * math.sqrt(2 * (len(negatives) - 1)):
            return cls(share=share)
        pairs = sum(max(one, 0.0) * max(other, 0.0) for one, other in zip(negatives[:-1], positives[:-1], strict=True))
        return cls(share=share, tied=min(pairs / (max(negatives[-1], 1.0) * max(positives[-1], 1.0)), 1.0))

    def is_hidden(self, area: Number) -> bool:
        """Whether the order that the ends hide may move an area by more than half the width of its interval."""
        return area.interval is not None and self.tied / 2 > (area.upper - area.lower) / 2

    def status(self, area: Number) -> str:
        """``coarse`` if the ends hide the order, or if pairs in one cell make the interval wide; else ``ok``."""
        wide = area.interval is not None and (area.upper - area.lower) / 2 >= self.in_cells / 4
        return COARSE if self.is_hidden(area) or (wide and self.in_cells >= IN_CELLS) else OK

    def widened(self, area: Figure[Any]) -> Figure[Any]:
        """The area; if the ends hide the order, with intervals widened to contain the area of the scores themselves."""
        if not self.is_hidden(area):
            return area
        interval, population = (self._wide(area.ends(of)) for of in ("interval", "population"))
        return replace(area, interval=interval, population=population)

    def _wide(self, ends: Ends[float]) -> Ends[float]:
        return Ends(
            round(max(ends.lower - self.tied / 2, 0.0), DECIMALS), round(min(ends.upper + self.tied / 2, 1.0), DECIMALS)
        )


def notice(status: str, at_ends: float | None) -> str | None:
    """A report's sentences on rows at the ends; None if these are few or all figures are withheld."""
    if status == UNDEFINED or (status != COARSE and (at_ends is None or at_ends <= STATED_FROM)):
        return None
    share = "Many" if at_ends is None else f"About {100 * at_ends:.3g} %"
    text = (
        f"{share} of the rows have scores at an end of the range from 0 to 1, or beyond it, where all count as equal."
    )
    if status != COARSE:
        return text
    if at_ends is not None and at_ends <= STATED_FROM:
        text = "Nearly all rows have almost equal scores: these take a very small part of the range from 0 to 1."
    return (
        f"{text} The area's interval allows for any order of them: give scores between 0 and 1 that keep the order, or "
        "the step of scores that take few values."
    )


def _pairs_in_cells(negatives: FloatArray, positives: FloatArray, hidden: BoolArray) -> float:
    """The share of pairs of both classes in one of these cells; unbiased, as the noise of both is independent."""
    pairs = float((negatives * positives)[hidden].sum())
    return min(max(pairs / (max(float(negatives.sum()), 1.0) * max(float(positives.sum()), 1.0)), 0.0), 1.0)


def _at(counts: FloatArray, ends: list[int]) -> list[float]:
    return [*(float(counts[end]) for end in ends), float(counts.sum())]
