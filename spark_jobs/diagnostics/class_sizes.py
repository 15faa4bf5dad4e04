"""The numbers of positives and negatives of a release: one estimate from all its measurements; post-processing.

Measurements of the same rows have independent noise of known variance, so the mean of their sizes, each weighted by the
inverse of its variance, has the smallest variance of all unbiased combinations. Every result then states this mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from scipy.special import ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS
from spark_jobs.contract.figures import DEFINED_ABOVE
from spark_jobs.contract.release import PublishedSizes

R = TypeVar("R")
CONFIDENCE = 0.9
"""Level at which a normal interval also covers Laplace noise: 0.902 of it lies within 1.645 standard deviations."""
_SMALLEST_VARIANCE = 1e-12


class _Counts(Protocol):
    """Noisy counts of one class in disjoint cells."""

    def counts(self) -> FloatArray: ...

    def range_variance(self, first: int, last: int) -> float: ...


@dataclass(frozen=True, kw_only=True)
class ClassSizes:
    """Noisy sizes of both classes.

    Attributes:
        negatives, positives: unbiased estimates, possibly negative.
        variance: variance of the noise in each of them.
    """

    negatives: float
    positives: float
    variance: float

    @classmethod
    def of_counts(cls, negatives: _Counts, positives: _Counts) -> ClassSizes:
        """The sizes of both classes as the sums of their noisy counts."""
        sizes = negatives.counts(), positives.counts()
        variance = negatives.range_variance(0, sizes[0].size)
        return cls(negatives=float(sizes[0].sum()), positives=float(sizes[1].sum()), variance=variance)

    @classmethod
    def combined(cls, estimates: Iterable[ClassSizes | None]) -> ClassSizes | None:
        """The mean of independent estimates, weighted by inverse variance; None if there are none."""
        sizes = [one for one in estimates if one is not None]
        if len(sizes) < 2:
            return sizes[0] if sizes else None
        weights = [1 / max(one.variance, _SMALLEST_VARIANCE) for one in sizes]
        negatives, positives = (
            sum(weight * getattr(one, name) for weight, one in zip(weights, sizes, strict=True)) / sum(weights)
            for name in ("negatives", "positives")
        )
        return cls(negatives=negatives, positives=positives, variance=1 / sum(weights))

    @property
    def are_known(self) -> bool:
        """Whether both sizes are at least 1, and at least three standard deviations of their noise."""
        return min(self.negatives, self.positives) >= max(1.0, DEFINED_ABOVE * math.sqrt(self.variance))

    @property
    def shown(self) -> dict[str, float]:
        """Both sizes rounded as they are published."""
        return {name: round(max(getattr(self, name), 0.0), DECIMALS) for name in ("negatives", "positives")}

    def published(self) -> PublishedSizes:
        """Both sizes with their intervals."""
        reach = float(ndtri((1 + CONFIDENCE) / 2)) * math.sqrt(self.variance)
        ends = {
            f"{name}_interval": tuple(round(max(getattr(self, name) + side, 0.0), DECIMALS) for side in (-reach, reach))
            for name in self.shown
        }
        return PublishedSizes.parse({**self.shown, **ends, "confidence": CONFIDENCE})


def restated(result: R, sizes: ClassSizes | None) -> R:
    """``result`` with these class sizes, if it states any; ``with_class_sizes`` adapts what must add up to them."""
    if sizes is None or getattr(result, "positives", None) is None:
        return result
    restate: Callable[..., R] = getattr(result, "with_class_sizes", None) or partial(replace, result)
    return restate(**sizes.shown)
