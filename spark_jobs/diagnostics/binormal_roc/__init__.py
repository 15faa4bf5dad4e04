"""The symmetric binormal ROC curve through a private AUC: one number is bought, and a whole curve is drawn from it.

If the scores of both classes are normal with one variance, up to a rising transformation, the curve is
``TPR = Phi(a + Phi^-1(FPR))`` with ``a = sqrt(2) Phi^-1(AUC)`` (Boyd, Lantz, Page 2015, section 3.3). Where that holds,
the curve is far more accurate than one from counts; where it does not, it is off by more than its band says.

Guarantee: that of ``spark_jobs.diagnostics.auc``, whose release it is made from; the rest is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.options import BinormalRocOptions
from spark_jobs.contract.privacy import Neighbours, plain
from spark_jobs.diagnostics import auc
from spark_jobs.diagnostics.undefined import listed, publishable
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.statistics import ScoreCounts

__all__ = ["BinormalRoc", "Measurement", "measure", "release", "summarise"]

SECURE = SecureNoise()
DECIMALS = 9


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """The draw: a noisy AUC with noisy class sizes, and how many points to draw.

    Attributes:
        area: the release of the AUC.
        points: of the curve.
    """

    area: auc.Measurement
    points: int

    @property
    def spendings(self) -> tuple[Spending, ...]:
        """What each part cost."""
        return self.area.spendings

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"area": self.area.to_dict(), "points": self.points}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Measurement:
        """The measurement that ``to_dict`` described."""
        return cls(area=auc.Measurement.from_dict(fields["area"]), points=fields["points"])


@dataclass(frozen=True, kw_only=True, eq=False)
class BinormalRoc:
    """A released symmetric binormal ROC curve; all arrays have as many values as points were asked for.

    The band holds the binormal curve of the exact AUC of the same rows. It says nothing of how far the true curve is
    from a binormal one.

    Attributes:
        fpr: rates of false positives, even from 0 to 1.
        tpr: rates of true positives; never falling.
        tpr_lower, tpr_upper: band at level ``confidence``; simultaneous, as all points follow from one number.
        separation: ``a``, the distance of the classes' means in standard deviations.
        auc, auc_interval: the released area, and its interval.
        positives, negatives: noisy class sizes.
        status: of the area: ``ok``, or ``undefined``, where the curve is NaN and the figures are None.
        confidence: nominal level.
        epsilon, delta: what the release cost.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    fpr: FloatArray
    tpr: FloatArray
    tpr_lower: FloatArray
    tpr_upper: FloatArray
    separation: float | None
    auc: float | None
    auc_interval: tuple[float, float] | None
    positives: float
    negatives: float
    status: str
    confidence: float
    epsilon: Decimal
    delta: Decimal
    neighbours: Neighbours
    guarantee: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        names = ("separation", "auc", "positives", "negatives", "status", "confidence", "guarantee")
        return {
            **{name: getattr(self, name) for name in names},
            "auc_interval": None if self.auc_interval is None else list(self.auc_interval),
            "epsilon": plain(self.epsilon),
            "delta": plain(self.delta),
            "neighbours": str(self.neighbours),
            **{name: listed(getattr(self, name)) for name in ("fpr", "tpr", "tpr_lower", "tpr_upper")},
        }


def measure(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    points: int = 201,
    confidence: float = 0.9,
) -> Measurement:
    """Draw the noise of the curve's AUC; see the package for the guarantee.

    Args:
        statistic: exact counts of both classes; private.
        epsilon: what the release may cost.
        delta: what ``laplace`` may spend; the others spend none.
        neighbours: the relation.
        noise: where the noise comes from.
        method: of the AUC; see ``spark_jobs.diagnostics.auc``.
        points: of the curve.
        confidence: nominal level of the band.

    Raises:
        RequestRefused: an option is out of its bounds, or ``laplace`` without a delta.
    """
    options = BinormalRocOptions(kind="binormal_roc", method=method, points=points, confidence=confidence)
    area = auc.measure(
        statistic,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        noise=noise,
        method=options.method,
        confidence=options.confidence,
    )
    return Measurement(area=area, points=options.points)


def summarise(measurement: Measurement, *, seed: int) -> BinormalRoc:
    """The curve that a measurement makes; the same measurement and seed give the same one."""
    area = auc.summarise(measurement.area, seed=seed)
    positives, negatives = area.positives or 0.0, area.negatives or 0.0
    least = 1 / (2 * max(min(positives, negatives), 1.0))
    fpr = np.linspace(0.0, 1.0, measurement.points)
    value = 0.5 if area.value is None else area.value
    low, high = ends = area.interval or (0.0, 1.0)
    lower, upper = (_curve(fpr, end, least) for end in ends)
    if low <= 0.0:
        lower = np.zeros_like(fpr)
    if high >= 1.0:
        upper = np.ones_like(fpr)
    curve = BinormalRoc(
        fpr=fpr,
        tpr=_curve(fpr, value, least),
        tpr_lower=lower,
        tpr_upper=upper,
        separation=round(separation(value, least), DECIMALS),
        auc=value,
        auc_interval=ends,
        positives=positives,
        negatives=negatives,
        status=area.status,
        confidence=area.confidence,
        epsilon=area.epsilon,
        delta=area.delta,
        neighbours=area.neighbours,
        guarantee=area.guarantee,
    )
    return publishable("binormal_roc", curve)


def separation(area: float, least: float = 1e-3) -> float:
    """The distance of the means, in standard deviations, of normal classes with this AUC, kept off its ends.

    >>> round(separation(0.76025), 4)
    1.0
    """
    return math.sqrt(2) * float(ndtri(min(max(area, least), 1 - least)))


def _curve(fpr: FloatArray, area: float, least: float) -> FloatArray:
    tpr: FloatArray = ndtr(separation(area, min(least, 0.5)) + ndtri(fpr))
    inner: FloatArray = np.where(fpr <= 0, 0.0, np.where(fpr >= 1, 1.0, tpr)).round(DECIMALS)
    return inner


def release(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    points: int = 201,
    confidence: float = 0.9,
) -> BinormalRoc:
    """Measure and summarise in one call; see ``measure`` for arguments and the package for the guarantee.

    Raises:
        RequestRefused: an option is out of its bounds, or ``laplace`` without a delta.
    """
    measurement = measure(
        statistic,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        noise=noise,
        method=method,
        points=points,
        confidence=confidence,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
