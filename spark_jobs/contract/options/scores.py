"""The options of curves and groups of a classifier's scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.options.base import CONFIDENCE, Confidence, HistogramMethod, Options, Settings, SharingOptions
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.curves import RocCurve
from spark_jobs.contract.results.pooled import BinnedResiduals, Calibration

CurveMethod = Literal["auto", "tree", "fixed_cells", "equi_depth", "recursive_medians"]
GroupingMethod = Literal["auto", "recursive_medians", "fixed_bins"]


class RocCurveSettings(Settings):
    """How a ROC curve is released from counts of both classes.

    Attributes:
        method: how the counted cells are chosen; see ``spark_jobs.diagnostics.roc_curve``. ``recursive_medians``
            spends delta.
        thresholds: the number of cells of [0, 1] on which the curve is released; None lets the method choose it from
            public facts.
        confidence: nominal level of the band and of the AUC's interval.
        histogram: the mechanism that releases the counts of ``fixed_cells`` and ``recursive_medians``, a name of
            ``spark_jobs.mechanisms.histograms``; None for a tree of counts, whose noise has a known distribution.
    """

    method: CurveMethod = "auto"
    thresholds: Annotated[int, Field(ge=2, le=SCORE_CELLS)] | None = None
    confidence: Confidence = CONFIDENCE
    histogram: HistogramMethod | None = None

    @model_validator(mode="after")
    def _of_the_papers(self) -> Self:
        if self.histogram is not None and self.method not in ("fixed_cells", "recursive_medians"):
            raise InvalidRequest(
                "histogram", self.histogram, "may be given only with method: fixed_cells or recursive_medians",
                "choose one of these methods, or leave it out",
            )  # fmt: skip
        if self.method == "recursive_medians" and self.thresholds is not None and self.thresholds.bit_count() != 1:
            raise InvalidRequest(
                "thresholds", self.thresholds, "must be a power of two for recursive_medians", "ask for 8, 16 or 32"
            )
        return self


class RocCurveOptions(RocCurveSettings, SharingOptions):
    """ROC curve with AUC and bands."""

    result: ClassVar[type[Result]] = RocCurve
    kind: Literal["roc_curve"] = "roc_curve"

    @property
    def unit_figures(self) -> tuple[str, ...]:
        """The area; none for a curve from histograms, whose errors have no known distribution."""
        return ("auc",) if self.histogram is None else ()

    @property
    def approximate(self) -> bool:
        """Whether the method spends delta."""
        return self.method == "recursive_medians"


class GroupedSettings(Settings):
    """The settings of diagnostics that group the scores of a classifier into bins.

    Attributes:
        method: how the bins are chosen; see the diagnostic's package. Only ``auto`` can share a measurement.
        bins: the number of bins; None for the diagnostic's default. Recursive medians need a power of two.
        confidence: nominal level of intervals and acceptance zones.
    """

    default_bins: ClassVar[Mapping[GroupingMethod, int]]

    method: GroupingMethod = "auto"
    bins: Annotated[int, Field(ge=2, le=256)] | None = None
    confidence: Confidence = CONFIDENCE

    def bins_on(self, cells: int) -> int:
        """The number of bins on a grid of ``cells`` cells: ``bins``, or the default, halved to fit the grid."""
        if self.bins is not None:
            return self.bins
        bins = self.default_bins[self.method]
        while bins > cells:
            bins //= 2
        return bins


class BinnedResidualsSettings(GroupedSettings):
    """How binned residuals are released; ``bins`` is 20 by default, or 16 with recursive medians."""

    default_bins: ClassVar[Mapping[GroupingMethod, int]] = {"auto": 20, "recursive_medians": 16, "fixed_bins": 20}


class CalibrationSettings(GroupedSettings):
    """How a calibration is released; ``bins`` is 10 by default, or 8 with recursive medians."""

    default_bins: ClassVar[Mapping[GroupingMethod, int]] = {"auto": 10, "recursive_medians": 8, "fixed_bins": 10}


class BinnedResidualsOptions(BinnedResidualsSettings, SharingOptions):
    """Binned residuals with error bars and a test of fit."""

    result: ClassVar[type[Result]] = BinnedResiduals
    kind: Literal["binned_residuals"] = "binned_residuals"


class CalibrationOptions(CalibrationSettings, SharingOptions):
    """Reliability diagram with the Hosmer-Lemeshow test and the expected calibration error."""

    result: ClassVar[type[Result]] = Calibration
    kind: Literal["calibration"] = "calibration"


KINDS: tuple[type[Options], ...] = (
    RocCurveOptions,
    BinnedResidualsOptions,
    CalibrationOptions,
)
