"""The area under the ROC curve that a release states: one estimate from all its measurements; post-processing.

Several measurements of the same rows have independent noise, and the interval of each area states how wide its noise
is. The stated area is the mean of the measured areas, each weighted by the inverse square of this width; on average it
is more accurate than any one of them. Every result of the release states this mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from scipy.special import ndtri

from spark_jobs.contract.figure import DECIMALS, Ends, Figure, Number

_SMALLEST_REACH = 1e-9


@dataclass(frozen=True, kw_only=True)
class RocArea:
    """An area with the spread of its errors, stated without a confidence level.

    Attributes:
        value: the released area.
        below, above: the distances from the area down and up to the ends of its interval for the same rows, divided by
            the standard normal quantile of the interval's level.
        sampling: standard deviation of the exact area over samples of rows, from the population's interval.
    """

    value: float
    below: float
    above: float
    sampling: float

    @classmethod
    def of(cls, area: Number | None, confidence: float) -> Self | None:
        """The area that a result states; None if the area is undefined or has no interval."""
        if area is None or area.value is None or area.interval is None or area.population is None:
            return None
        deviate = _deviate(confidence)
        (below, above), both = (_reaches(area.value, ends) for ends in (area.ends(), area.ends("population")))
        widest, alone = sum(both) / 2, (below + above) / 2
        sampling = math.sqrt(max(widest**2 - alone**2, 0.0))
        # the area of a Gini coefficient is that of the curve but for its last digit
        value = round(area.value, DECIMALS)
        return cls(value=value, below=below / deviate, above=above / deviate, sampling=sampling / deviate)

    @property
    def reach(self) -> float:
        """The mean of ``below`` and ``above``."""
        return (self.below + self.above) / 2

    @classmethod
    def combined(cls, estimates: Iterable[Self | None]) -> Self | None:
        """The weighted mean of independent estimates of the same rows' area; None if there are fewer than two."""
        areas = [one for one in estimates if one is not None]
        if len(areas) < 2:
            return None
        reaches = np.array([(one.below, one.above) for one in areas])
        weights = np.maximum(reaches.mean(axis=1), _SMALLEST_REACH) ** -2.0
        weights /= weights.sum()
        below, above = np.sqrt(((weights[:, np.newaxis] * reaches) ** 2).sum(axis=0))
        return cls(
            value=round(float(weights @ [one.value for one in areas]), DECIMALS),
            below=float(below),
            above=float(above),
            sampling=areas[int(weights.argmax())].sampling,
        )

    def at(self, confidence: float) -> Figure[float]:
        """The area with both its intervals at this level."""
        deviate = _deviate(confidence)
        noise, population = (
            Ends(
                *(
                    round(min(max(self.value + side * deviate * math.hypot(reach, spread), 0.0), 1.0), DECIMALS)
                    for side, reach in ((-1, self.below), (1, self.above))
                )
            )
            for spread in (0.0, self.sampling)
        )
        both = math.hypot((self.below + self.above) / 2, self.sampling)
        share = 1 - self.sampling / both if both > 0 else 0.0
        return Figure(value=self.value, interval=noise, population=population, privacy_share=round(share, DECIMALS))


@runtime_checkable
class StatesArea(Protocol):
    """A result that states an area under the ROC curve of all rows."""

    @property
    def confidence(self) -> float:
        """Nominal level of its intervals."""

    @property
    def area(self) -> Number | None:
        """The area; None if it is taken from another measurement than the result's own."""

    def with_area(self, area: Number) -> Any:
        """The result with this area in place of its own."""


R = TypeVar("R")


def with_one_area(results: dict[str, R], *, sharing: Iterable[str]) -> dict[str, R]:
    """``results`` with the same area in each that states one.

    Args:
        results: the results by kind.
        sharing: the kinds that are computed from one shared measurement, which counts once. A curve of few points has a
            different area; the most precise of their areas counts.
    """
    stated = {
        kind: RocArea.of(one.area, one.confidence) for kind, one in results.items() if isinstance(one, StatesArea)
    }
    defined = {kind: area for kind, area in stated.items() if area is not None}
    shared = sorted((kind for kind in sharing if kind in defined), key=lambda kind: defined[kind].reach)
    area = RocArea.combined(one for kind, one in defined.items() if kind not in shared[1:])
    if area is None and len({one.value for one in defined.values()}) > 1:
        area = defined[shared[0]]
    if area is None:
        return results
    return {
        kind: one.with_area(area.at(one.confidence))
        if isinstance(one, StatesArea) and stated[kind] is not None
        else one
        for kind, one in results.items()
    }


def _deviate(confidence: float) -> float:
    return float(ndtri((1 + confidence) / 2))


def _reaches(value: float, ends: Ends[float]) -> tuple[float, float]:
    """How far an interval reaches to both sides; where it was cut off at 0 or 1, as far as to the other side."""
    below, above = max(value - ends[0], 0.0), max(ends[1] - value, 0.0)
    return (max(below, above) if ends[0] <= 0 else below), (max(below, above) if ends[1] >= 1 else above)
