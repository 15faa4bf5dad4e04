"""The diagnostics a request may ask for, with their options."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import MAX_EPSILON, ExactDecimal, exact_decimal, plain
from spark_jobs.contract.values import Frozen


class ScoreCells(Frozen):
    """The statistic of a classifier: rows per label and cell of the score grid (``statistics.ScoreCounts``)."""

    kind: Literal["scores"] = "scores"


Statistic = ScoreCells
"""What Spark counts for a diagnostic. Equal statistics of one request are counted once, all of them in one pass."""


class Options(Frozen):
    """What the options of every diagnostic have.

    Attributes:
        kind: which diagnostic.
        weight: its part of the budget, against the weights of the request's other diagnostics; 1 if left out.
    """

    kind: str
    weight: ExactDecimal | None = None

    @field_validator("weight", mode="before")
    @classmethod
    def _positive(cls, value: Any) -> Decimal | None:
        if value is None:
            return None
        weight = exact_decimal(value, what="weight")
        if not 0 < weight <= MAX_EPSILON:
            raise RequestRefused(
                "weight", given=plain(weight), bound="must be above 0 and at most 10^12",
                remedy="weights are relative: 2 gets twice the budget of 1",
            )  # fmt: skip
        return weight

    @property
    def part(self) -> Decimal:
        """The weight that holds: the request's, or 1."""
        return Decimal(1) if self.weight is None else self.weight

    @property
    def statistic(self) -> Statistic:
        """What Spark has to count for it."""
        return ScoreCells()

    @property
    def approximate(self) -> bool:
        """Whether it spends delta; its ``measure`` is then given its share of the budget's delta as ``delta``."""
        return False

    @property
    def sharing(self) -> bool:
        """Whether it is made from counts that it may share with others of the request, at one cost."""
        return False

    def chosen(self) -> dict[str, Any]:
        """The options that the diagnostic's own ``measure`` takes."""
        return self.model_dump(exclude={"kind", "weight", "share"})


class RocCurveOptions(Options):
    """ROC curve with AUC and bands.

    Attributes:
        method: how counts are noised; see the reference of ``spark_jobs.diagnostics.roc_curve``.
        thresholds: cells of [0, 1] that the curve is released on; None lets the method choose from public facts.
        confidence: nominal level of the band and of the AUC's interval.
    """

    kind: Literal["roc_curve"]
    method: Literal["auto", "tree", "fixed_cells", "equi_depth"] = "auto"
    thresholds: Annotated[int, Field(ge=2, le=65536)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9


class BinnedResidualsOptions(Options):
    """Binned residuals with error bars and a test of fit.

    Attributes:
        method: how bins are placed; see the reference of ``spark_jobs.diagnostics.binned_residuals``.
        bins: bins of the release; None for 20, or 16 of recursive medians, which need a power of two.
        confidence: nominal level of intervals and zones.
    """

    kind: Literal["binned_residuals"]
    method: Literal["auto", "recursive_medians", "fixed_bins"] = "auto"
    bins: Annotated[int, Field(ge=2, le=256)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95


class CalibrationOptions(Options):
    """Reliability diagram with the Hosmer-Lemeshow test and the expected calibration error.

    Attributes:
        method: how groups are placed; see the reference of ``spark_jobs.diagnostics.calibration``.
        bins: groups of the release; None for 10, or 8 of recursive medians, which need a power of two.
        confidence: nominal level of intervals and zones.
    """

    kind: Literal["calibration"]
    method: Literal["auto", "recursive_medians", "fixed_bins"] = "auto"
    bins: Annotated[int, Field(ge=2, le=256)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95


class AucOptions(Options):
    """Area under the ROC curve.

    Attributes:
        method: how noise is scaled; see the reference of ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        interval: whether to pay a small part for noisy class sizes, without which no interval can be given.
        confidence: nominal level of the interval.
    """

    kind: Literal["auc"]
    method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] = "auto"
    interval: bool = True
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "laplace"


class AveragePrecisionOptions(Options):
    """Average precision: the area under the precision-recall curve, by steps.

    Attributes:
        method: how noise is scaled; see the reference of ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        interval: whether to pay a small part for noisy class sizes, without which no interval can be given.
        confidence: nominal level of the interval.
    """

    kind: Literal["average_precision"]
    method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] = "auto"
    interval: bool = True
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "laplace"


class BinormalRocOptions(Options):
    """Symmetric binormal ROC curve through a private AUC.

    Attributes:
        method: how the AUC is released; see the reference of ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        points: points of the curve.
        confidence: nominal level of the band.
    """

    kind: Literal["binormal_roc"]
    method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] = "auto"
    points: Annotated[int, Field(ge=2, le=65536)] = 201
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "laplace"


class ConfusionMatrixOptions(Options):
    """Confusion matrices at given thresholds, with the rates that follow from them.

    Attributes:
        thresholds: a row counts as positive if its score is at least this; from 0 to 1, ascending.
        confidence: nominal level of the intervals.
    """

    kind: Literal["confusion_matrix"]
    thresholds: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1, max_length=100)] = (0.5,)
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @field_validator("thresholds")
    @classmethod
    def _ascending(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(high <= low for low, high in pairwise(value)):
            raise RequestRefused(
                "", given=list(value), bound="must ascend", remedy="sort the thresholds and name each once"
            )
        return value


DIAGNOSTICS: dict[str, type[Options]] = {
    "roc_curve": RocCurveOptions,
    "auc": AucOptions,
    "average_precision": AveragePrecisionOptions,
}
"""Every kind a request may name, with its options. A new diagnostic adds its line here."""
