"""The noisy counts of rows that did not count in a release, by cause; ``mechanisms.left_out`` has their cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.values import Frozen

CAUSES = ("no_unit", "not_parsed", "null", "outside")
"""Why a row counts in nothing, in this order: a row has the first cause that fits."""
LEFT_OUT, CAUSE = "left_out", "cause"
"""The name of these counts, and that of a row's cause."""
SHARE = 20
"""Where rows are replaced, the counts of causes have the budget's ``SHARE``-th part; where rows are added or removed,
they cost nothing."""
CONFIDENCE = 0.9
_WORDS = {
    "no_unit": "have no unit",
    "not_parsed": "have a text that is no value of its column's type",
    "null": "lack a value that the request needs",
    "outside": "have a label or a value that the request does not name",
}


class CountLeftOut(Frozen):
    """A noisy count of rows or units, at least 0, and its confidence interval at ``CONFIDENCE``."""

    value: Annotated[int, Field(ge=0)]
    interval: tuple[int, int]


class LeftOut(Frozen):
    """Noisy counts of the rows of a release's blocks that pass its filter but count in none of its diagnostics.

    Attributes:
        of: what is counted: ``rows``; or, if only one row of a unit is used, ``units``: those without a row that
            counts.
        lower_bound: whether the counts may be too small, as rows beyond a unit's bound are not counted.
        no_unit: rows without a value in the unit's column.
        not_parsed: rows with a text that cannot be read as its type, in a column that the request needs.
        null: rows without a value in a column that the request needs.
        outside: rows with a label or a value that the request does not name.
        confidence: the level of each interval.
        notable: the smallest count that noise alone is unlikely to cause: in 19 of 20 releases, no count whose true
            value is 0 reaches it.
    """

    of: Literal["rows", "units"]
    lower_bound: bool
    no_unit: CountLeftOut | None
    not_parsed: CountLeftOut
    null: CountLeftOut
    outside: CountLeftOut
    confidence: float
    notable: float

    @classmethod
    def of_counts(cls, noisy: dict[str, int], *, scale: float, max_rows: int, by_unit: bool) -> Self:
        """The published counts and intervals, from noisy counts.

        Args:
            noisy: the count of each cause, with two-sided geometric noise.
            scale: the scale of that noise.
            max_rows: the most rows of a unit that are used.
            by_unit: whether the request names a unit.
        """
        within = half_width(scale)
        counts = {
            cause: CountLeftOut(value=max(count, 0), interval=(max(count - within, 0), max(count + within, 0)))
            for cause, count in noisy.items()
        }
        return cls(
            of="units" if by_unit and max_rows == 1 else "rows",
            lower_bound=max_rows > 1,
            no_unit=counts.get("no_unit"),
            **{cause: counts[cause] for cause in CAUSES[1:]},
            confidence=CONFIDENCE,
            notable=notable(scale, len(counts)),
        )

    def causes(self) -> dict[str, CountLeftOut]:
        """The counts by cause."""
        counts = {cause: getattr(self, cause) for cause in CAUSES}
        return {cause: count for cause, count in counts.items() if count is not None}

    def sentences(self) -> Iterator[str]:
        """A sentence for each cause whose count is at least ``notable``."""
        bound = "at least " if self.lower_bound else ""
        for cause, count in self.causes().items():
            if count.value >= self.notable:
                low, high = count.interval
                yield (
                    f"{bound}about {count.value:,} {self.of} ({low:,} to {high:,} at {self.confidence:.0%}) "
                    f"{_WORDS[cause]}, and are left out"
                )

    def short(self) -> str:
        """The sum of the counts that are at least ``notable``, in a few words; empty if there are none."""
        number = sum(count.value for count in self.causes().values() if count.value >= self.notable)
        return f"{'at least ' * self.lower_bound}about {number:,} {self.of} did not count" if number else ""

    def line(self) -> str:
        """The sentences in one line, for the end of a run; empty if there are none."""
        return "; ".join(self.sentences())


def noise_scale(epsilon_per_row: float, neighbours: Neighbours) -> float:
    """The scale of the geometric noise in each count: its sensitivity over the epsilon of one row."""
    return (1 if neighbours is Neighbours.ADD_REMOVE else 2) / epsilon_per_row


def half_width(scale: float) -> int:
    """The smallest whole t with ``P(|noise| > t) <= 1 - CONFIDENCE``, for two-sided geometric noise of this scale."""
    ratio = math.exp(-1 / scale)
    tail = (1 - CONFIDENCE) * (1 + ratio) / 2
    # P(|noise| > t) = 2 ratio^(t + 1) / (1 + ratio)
    return max(math.ceil(-scale * math.log(tail)) - 1, 0)


def notable(scale: float, cells: int) -> float:
    """The larger of four standard deviations and the number that the noise of no cell exceeds in 19 of 20 releases."""
    ratio = math.exp(-1 / scale)
    deviation = math.sqrt(2 * ratio) / (1 - ratio)
    return max(4 * deviation, -scale * math.log(0.05 / cells * (1 + ratio)))
