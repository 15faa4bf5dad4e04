"""The symmetric binormal ROC curve with a private AUC: budget is spent on one number alone.

If the scores of both classes are normal with equal variance, up to an increasing transformation, the curve is
``TPR = Phi(a + Phi^-1(FPR))`` with ``a = sqrt(2) Phi^-1(AUC)`` (Boyd, Lantz, Page 2015, section 3.3). Under this
assumption the curve is far more accurate than one from counts. Otherwise its error may exceed its band.

Guarantee: that of ``spark_jobs.diagnostics.auc``, which measures the AUC; the rest is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.options import AucSettings, BinormalRocOptions, BinormalRocSettings
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import auc
from spark_jobs.diagnostics._score_figures.measurement import FigureDraw
from spark_jobs.diagnostics._score_figures.shared import figure_of_groups
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics._simulation import DECIMALS
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Diagnostic, Draw, Measurement, Terms
from spark_jobs.diagnostics.roc_area import RocArea
from spark_jobs.diagnostics.undefined import plain_fields, publishable
from spark_jobs.statistics import ScoreCounts

__all__ = ["DIAGNOSTIC", "BinormalDraw", "BinormalRoc", "measure", "release", "summarise"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BinormalDraw(Draw):
    """A noisy AUC with noisy class sizes.

    Attributes:
        area: the draw of the AUC.
        points: number of points of the curve.
    """

    area: FigureDraw
    points: int

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes."""
        return self.area.class_sizes


@dataclass(frozen=True, kw_only=True, eq=False)
class BinormalRoc:
    """A released symmetric binormal ROC curve; the length of all arrays is the request's number of points.

    A band covers the binormal curve with the exact AUC, of the same rows or of their population. It does not measure
    how far the exact curve is from a binormal one.

    Attributes:
        fpr: false positive rates, evenly spaced from 0 to 1.
        tpr: true positive rates; never falling.
        tpr_lower, tpr_upper: simultaneous band at level ``confidence``, for the same rows.
        tpr_population_lower, tpr_population_upper: the same for the population that the rows are a sample of.
        separation: ``a``, the distance of the class means in standard deviations.
        auc, auc_interval: the released area, and its interval for the same rows without noise.
        auc_population_interval: the same for the population.
        auc_privacy_share: share of the width of ``auc_population_interval`` that is due to the noise.
        positives, negatives: noisy class sizes.
        status: status of the area: ``ok``, or ``undefined``; then the curve is NaN and the figures are None.
        confidence: nominal level.
        epsilon, delta: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    separation: float | None
    auc: float | None
    positives: float
    negatives: float
    status: str
    confidence: float
    guarantee: str
    auc_interval: tuple[float, float] | None
    auc_population_interval: tuple[float, float] | None
    auc_privacy_share: float | None
    epsilon: Decimal
    delta: Decimal
    neighbours: Neighbours
    fpr: FloatArray
    tpr: FloatArray
    tpr_lower: FloatArray
    tpr_upper: FloatArray
    tpr_population_lower: FloatArray
    tpr_population_upper: FloatArray

    @property
    def roc_area(self) -> RocArea | None:
        """The area and its errors."""
        return RocArea.of(self.auc, self.auc_interval, self.auc_population_interval, self.confidence)

    def with_roc_area(self, area: RocArea) -> BinormalRoc:
        """The curve with this area."""
        ends = area.at(self.confidence)
        lines = _lines(self.fpr, area.value, ends.noise, ends.population, sizes=(self.negatives, self.positives))
        return replace(self, **lines, **area.auc_fields(self.confidence))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return plain_fields(self)


def measure_area(statistic: ScoreCounts, options: BinormalRocSettings, terms: Terms) -> BinormalDraw:
    """Draw the noise of the curve's AUC; see ``diagnostics.auc`` for the guarantee."""
    area = auc.DIAGNOSTIC.measurement.measure(
        statistic, AucSettings(method=options.method, confidence=options.confidence), terms
    )
    return _through(area, options)


def read_shared(options: BinormalRocSettings, shared: SharedGroups) -> BinormalDraw:
    """The draw of a curve from a measurement that several diagnostics share."""
    return _through(figure_of_groups(options, shared, figure="auc"), options)


def _through(area: FigureDraw, options: BinormalRocSettings) -> BinormalDraw:
    return BinormalDraw(
        area=area,
        points=options.points,
        neighbours=area.neighbours,
        guarantee=area.guarantee,
        spendings=area.spendings,
    )


def summarise(draw: BinormalDraw, *, seed: int) -> BinormalRoc:
    """The released curve of a draw; a function of the draw and the seed."""
    area = auc.summarise(draw.area, seed=seed)
    positives, negatives = area.positives or 0.0, area.negatives or 0.0
    fpr = np.linspace(0.0, 1.0, draw.points)
    value = 0.5 if area.value is None else area.value
    ends, population = area.interval or (0.0, 1.0), area.population_interval or (0.0, 1.0)
    curve = BinormalRoc(
        fpr=fpr,
        **_lines(fpr, value, ends, population, sizes=(negatives, positives)),
        auc=value,
        auc_interval=ends,
        auc_population_interval=population,
        auc_privacy_share=1.0 if area.privacy_share is None else area.privacy_share,
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


def _lines(
    fpr: FloatArray,
    area: float,
    ends: tuple[float, float],
    population: tuple[float, float],
    *,
    sizes: tuple[float, float],
) -> dict[str, Any]:
    """The fields of the curve with this area, and of its bands, between the curves of the ends of its intervals."""
    margin = 1 / (2 * max(min(sizes), 1.0))
    bands = {}
    for name, (low, high) in (("tpr", ends), ("tpr_population", population)):
        bands[f"{name}_lower"] = np.zeros_like(fpr) if low <= 0.0 else _curve(fpr, low, margin)
        bands[f"{name}_upper"] = np.ones_like(fpr) if high >= 1.0 else _curve(fpr, high, margin)
    return {"tpr": _curve(fpr, area, margin), **bands, "separation": round(separation(area, margin), DECIMALS)}


def separation(area: float, margin: float = 1e-3) -> float:
    """The distance of the means, in standard deviations, of normal classes with this AUC.

    The AUC is clipped to ``[margin, 1 - margin]``, so that the distance is finite.

    >>> round(separation(0.76025), 4)
    1.0
    """
    return math.sqrt(2) * float(ndtri(min(max(area, margin), 1 - margin)))


def _curve(fpr: FloatArray, area: float, margin: float) -> FloatArray:
    tpr: FloatArray = ndtr(separation(area, min(margin, 0.5)) + ndtri(fpr))
    inner: FloatArray = np.where(fpr <= 0, 0.0, np.where(fpr >= 1, 1.0, tpr)).round(DECIMALS)
    return inner


class Call(BinormalRocSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=BinormalRocOptions,
    call=Call,
    measurement=Measurement[ScoreCounts, BinormalDraw](draw=BinormalDraw, measure=measure_area),
    summarise=summarise,
    read_shared=read_shared,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
