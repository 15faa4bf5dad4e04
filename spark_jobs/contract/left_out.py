"""How many rows did not count in a release, by cause: public shapes; ``mechanisms.left_out`` says what they cost."""

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
    """A noisy count, at least 0, and its interval at ``CONFIDENCE``."""

    value: Annotated[int, Field(ge=0)]
    interval: tuple[int, int]


class LeftOut(Frozen):
    """What did not count in any diagnostic of a release, of the rows in its blocks that its filter does not leave out.

    Attributes:
        of: ``rows``, or ``units`` where each unit has one row: those none of whose rows counts.
        lower_bound: whether rows of units whose places are full may be missing.
        no_unit: rows without a value in the unit's column.
        not_parsed: with a text that its type does not take, in a column that the request needs.
        null: without a value there.
        outside: with a label or a value that the request does not name.
        confidence: the level of each interval.
        notable: counts of at least this many are no noise: it is passed by none of the empty ones in 19 of 20 releases.
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
        """The published counts.

        Args:
            noisy: the count of each cause, with two-sided geometric noise.
            scale: of that noise.
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
        """What is said of the causes that are no noise; nothing of the others."""
        bound = "at least " if self.lower_bound else ""
        for cause, count in self.causes().items():
            if count.value >= self.notable:
                low, high = count.interval
                yield (
                    f"{bound}about {count.value:,} {self.of} ({low:,} to {high:,} at {self.confidence:.0%}) "
                    f"{_WORDS[cause]}, and are left out"
                )

    def short(self) -> str:
        """How many rows did not count for a cause that is no noise, in a few words; empty if there is none."""
        number = sum(count.value for count in self.causes().values() if count.value >= self.notable)
        return f"{'at least ' * self.lower_bound}about {number:,} {self.of} did not count" if number else ""

    def line(self) -> str:
        """One line on the causes that are no noise, for the end of a run; empty if there are none."""
        return "; ".join(self.sentences())


def noise_scale(epsilon_per_row: float, neighbours: Neighbours) -> float:
    """The scale of the noise in each count, at the epsilon of one row."""
    return (1 if neighbours is Neighbours.ADD_REMOVE else 2) / epsilon_per_row


def half_width(scale: float) -> int:
    """The least whole number that two-sided geometric noise exceeds with probability at most 1 - ``CONFIDENCE``."""
    ratio = math.exp(-1 / scale)
    tail = (1 - CONFIDENCE) * (1 + ratio) / 2
    # P(|noise| > t) = 2 ratio^(t + 1) / (1 + ratio)
    return max(math.ceil(-scale * math.log(tail)) - 1, 0)


def notable(scale: float, cells: int) -> float:
    """The larger of four standard deviations, and what no noise of so many cells exceeds in 19 of 20 releases."""
    ratio = math.exp(-1 / scale)
    deviation = math.sqrt(2 * ratio) / (1 - ratio)
    return max(4 * deviation, -scale * math.log(0.05 / cells * (1 + ratio)))
