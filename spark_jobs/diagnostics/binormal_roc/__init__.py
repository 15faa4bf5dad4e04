"""The symmetric binormal ROC curve with a private AUC: budget is spent on one number alone.

If the scores of both classes are normal with equal variance, up to an increasing transformation, the curve is
``TPR = Phi(a + Phi^-1(FPR))`` with ``a = sqrt(2) Phi^-1(AUC)`` (Boyd, Lantz, Page 2015, section 3.3). If this
assumption holds, the curve is far more accurate than a curve from counts. If it does not hold, the error of the curve
may exceed its band.

Guarantee: that of ``spark_jobs.diagnostics.auc``, which measures the AUC; the rest is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS, Ends, Figure, Number
from spark_jobs.contract.options import AucSettings, BinormalRocOptions, BinormalRocSettings
from spark_jobs.contract.results.curves import BinormalCurve
from spark_jobs.diagnostics import auc
from spark_jobs.diagnostics._score_figures.measurement import FigureDraw
from spark_jobs.diagnostics._score_figures.shared import figure_of_groups
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics._simulation import WIDEST
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Diagnostic, Draw, Measurement, Terms
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
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
class BinormalRoc(BinormalCurve):
    """A released curve, and how to draw it with another area."""

    def with_area(self, area: Number) -> BinormalRoc:
        """The same release, with the curve of this area."""
        return replace(self, auc=area, **_lines(self.fpr, area, sizes=(self.negatives, self.positives)))


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


def summarise(draw: BinormalDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> BinormalRoc:
    """The released curve of a draw; a function of the draw and the seed."""
    area = auc.summarise(draw.area, seed=seed, sampling=sampling)
    positives, negatives = area.positives or 0.0, area.negatives or 0.0
    fpr = np.linspace(0.0, 1.0, draw.points)
    figure = area.figure
    if figure.value is None:
        figure = Figure(value=0.5, interval=WIDEST, population=WIDEST, privacy_share=1.0)
    return BinormalRoc(
        fpr=fpr,
        **_lines(fpr, figure, sizes=(negatives, positives)),
        auc=figure,
        positives=positives,
        negatives=negatives,
        status=area.status,
        confidence=area.confidence,
        epsilon=area.epsilon,
        delta=area.delta,
        neighbours=area.neighbours,
        guarantee=area.guarantee,
    )


def _lines(fpr: FloatArray, area: Number, *, sizes: tuple[float, float]) -> dict[str, Any]:
    """The curve with this area, its bands between the curves of the ends of its intervals, and the separation."""
    margin = 1 / (2 * max(min(sizes), 1.0))

    def band(ends: Ends[float]) -> Ends[FloatArray]:
        return Ends(
            np.zeros_like(fpr) if ends.lower <= 0.0 else _curve(fpr, ends.lower, margin),
            np.ones_like(fpr) if ends.upper >= 1.0 else _curve(fpr, ends.upper, margin),
        )

    tpr = Figure(
        value=_curve(fpr, area.number, margin), interval=band(area.ends()), population=band(area.ends("population"))
    )
    return {"tpr": tpr, "separation": round(separation(area.number, margin), DECIMALS)}


def separation(area: float, margin: float = 1e-3) -> float:
    """The distance of the means of two normal classes with this AUC, in standard deviations of one class.

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
