"""The options of single figures of a classifier, and of confusion matrices."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field, field_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.base import CONFIDENCE, MIN_EPSILON, Confidence, Options, Settings, SharingOptions
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.curves import BinormalCurve, RankingFigures
from spark_jobs.contract.results.score_figures import Auc, AveragePrecision, ConfusionMatrix, Recalibration

AreaMethod = Literal["auto", "polynomial", "cauchy", "laplace", "counts"]
PrecisionMethod = Literal["auto", "polynomial", "cauchy", "laplace", "counts", "weighted_counts"]
MIN_EPSILON_OF_SMOOTH = Decimal("1e-4")
"""The smallest epsilon per row of smooth sensitivity without delta; the proof of ``mechanisms.pure_release`` applies
from a tenth of it on."""


class AucSettings(Settings):
    """How an area under the ROC curve is released.

    Attributes:
        method: how noise is scaled; see ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        interval: whether to spend a small part of the budget on noisy class sizes, which the interval needs; the method
            ``auto`` always does.
        confidence: nominal level of the interval.
    """

    method: AreaMethod = "auto"
    interval: bool = True
    confidence: Confidence = CONFIDENCE


class AveragePrecisionSettings(Settings):
    """How an average precision is released.

    Attributes:
        method: how noise is scaled; see ``spark_jobs.diagnostics.average_precision``. ``laplace`` spends delta;
            ``weighted_counts`` releases counts, and one sum over all rows with weights that these counts determine.
        interval: for a direct release: whether to spend a small part of the budget on noisy class sizes, which the
            interval needs.
        confidence: nominal level of the interval.
    """

    method: PrecisionMethod = "auto"
    interval: bool = True
    confidence: Confidence = CONFIDENCE


class BinormalRocSettings(Settings):
    """How a symmetric binormal ROC curve is computed from a private AUC.

    Attributes:
        method: the method of the AUC, as in ``AucSettings``.
        points: the number of points of the curve.
        confidence: nominal level of the band.
    """

    method: AreaMethod = "auto"
    points: Annotated[int, Field(ge=2, le=65536)] = 201
    confidence: Confidence = CONFIDENCE


def in_ascending_order(value: tuple[float, ...], names: str) -> tuple[float, ...]:
    """These numbers, after checking that each is above the one before; ``names`` is what a message calls them.

    Raises:
        InvalidRequest: they are not in ascending order.
    """
    if any(high <= low for low, high in pairwise(value)):
        raise InvalidRequest("", list(value), "must be in ascending order", f"sort the {names} and list each once")
    return value


class _HasMethod(Protocol):
    @property
    def method(self) -> str: ...


class _FigureOptions(SharingOptions):
    """An entry of a request for a single figure of a classifier."""

    @property
    def approximate(self: _HasMethod) -> bool:
        """Whether it spends delta."""
        return self.method == "laplace"

    @property
    def min_epsilon(self: _HasMethod) -> Decimal:
        """The smallest epsilon per row; larger for noise whose guarantee is proven only from there on."""
        return MIN_EPSILON_OF_SMOOTH if self.method in ("polynomial", "cauchy") else MIN_EPSILON


class AucOptions(AucSettings, _FigureOptions):
    """Area under the ROC curve."""

    result: ClassVar[type[Result]] = Auc
    kind: Literal["auc"] = "auc"


class AveragePrecisionOptions(AveragePrecisionSettings, _FigureOptions):
    """Average precision, the area under the precision-recall curve, by steps."""

    result: ClassVar[type[Result]] = AveragePrecision
    kind: Literal["average_precision"] = "average_precision"


class BinormalRocOptions(BinormalRocSettings, _FigureOptions):
    """Symmetric binormal ROC curve through a private AUC."""

    result: ClassVar[type[Result]] = BinormalCurve
    kind: Literal["binormal_roc"] = "binormal_roc"


class ConfusionMatrixSettings(Settings):
    """How confusion matrices are released from counts of both classes.

    Attributes:
        thresholds: a row counts as positive if its score is at least this; from 0 to 1, ascending.
        confidence: nominal level of the intervals.
    """

    thresholds: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1, max_length=100)] = (0.5,)
    confidence: Confidence = CONFIDENCE

    @field_validator("thresholds")
    @classmethod
    def _ascending(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return in_ascending_order(value, "thresholds")


SHARES_OF_ROWS = ("recall", "precision", "specificity", "accuracy")
"""The rates that are shares of some rows among others."""


def rate_at(rate: str, place: int) -> str:
    """The name of a rate at the request's threshold with this index."""
    return f"{rate}[{place}]"


class ConfusionMatrixOptions(ConfusionMatrixSettings, SharingOptions):
    """Confusion matrices at given thresholds, with the rates that follow from them."""

    result: ClassVar[type[Result]] = ConfusionMatrix
    thresholds_of: ClassVar[tuple[str, ...]] = ("thresholds",)
    kind: Literal["confusion_matrix"] = "confusion_matrix"

    @property
    def unit_figures(self) -> tuple[str, ...]:
        """The names of the rates that are shares of rows, threshold by threshold."""
        return tuple(rate_at(rate, place) for place in range(len(self.thresholds)) for rate in SHARES_OF_ROWS)


class RankingFiguresSettings(Settings):
    """How figures of a classifier's ranking are read from a private ROC curve.

    Attributes:
        depths: fractions of all rows, those with the highest scores first, for gains and lift; above 0, at most 1,
            ascending.
        points: the number of recalls at which the precision is given: the midpoints of as many equal parts of [0, 1].
        false_positive_cost: the cost of a negative row that is predicted positive.
        false_negative_cost: the cost of a positive row that is predicted negative.
        confidence: nominal level of intervals and bands.
    """

    depths: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1, max_length=100)] = (
        0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
    )  # fmt: skip
    points: Annotated[int, Field(ge=2, le=1000)] = 50
    false_positive_cost: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    false_negative_cost: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    confidence: Confidence = CONFIDENCE

    @field_validator("depths")
    @classmethod
    def _ascending(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return in_ascending_order(value, "depths")


class RankingFiguresOptions(RankingFiguresSettings, SharingOptions):
    """Precision-recall curve, gains and lift, KS, Gini, and the threshold of least cost."""

    result: ClassVar[type[Result]] = RankingFigures
    kind: Literal["ranking_figures"] = "ranking_figures"


class RecalibrationSettings(Settings):
    """How Brier score, log loss, calibration slope and recalibration map are read from groups of scores.

    Attributes:
        clip: scores are clipped to [clip, 1 - clip] for the log loss, which would otherwise be unbounded, and wherever
            log-odds are taken: for the slope, the intercept and the map.
        confidence: nominal level of intervals and bands.
    """

    clip: Annotated[float, Field(ge=1e-4, le=0.1)] = 0.001
    confidence: Confidence = CONFIDENCE


class RecalibrationOptions(RecalibrationSettings, SharingOptions):
    """Brier score, log loss, calibration slope and intercept, and a map that recalibrates scores."""

    result: ClassVar[type[Result]] = Recalibration
    kind: Literal["recalibration"] = "recalibration"


KINDS: tuple[type[Options], ...] = (
    AucOptions,
    AveragePrecisionOptions,
    BinormalRocOptions,
    ConfusionMatrixOptions,
    RankingFiguresOptions,
    RecalibrationOptions,
)
