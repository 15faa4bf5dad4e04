"""The options of curves and groups of a classifier's scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.options.base import (
    HistogramMethod,
    Options,
    Settings,
    SharingOptions,
)
from spark_jobs.contract.result_checks import (
    ResultCheck,
    adjoining,
    ascending,
    counts_up,
    ends,
    finite,
    inside,
    interval,
    never_falls,
    never_rises,
    null_first,
    same_length,
    within,
)

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
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9
    histogram: HistogramMethod | None = None

    @model_validator(mode="after")
    def _of_the_papers(self) -> Self:
        if self.histogram is not None and self.method not in ("fixed_cells", "recursive_medians"):
            raise InvalidRequest(
                "histogram", value=self.histogram,
                requirement="may be given only with method: fixed_cells or recursive_medians",
                remedy="choose one of these methods, or leave it out",
            )  # fmt: skip
        if self.method == "recursive_medians" and self.thresholds is not None and self.thresholds.bit_count() != 1:
            raise InvalidRequest(
                "thresholds", value=self.thresholds, requirement="must be a power of two for recursive_medians",
                remedy="ask for 8, 16 or 32",
            )  # fmt: skip
        return self


class RocCurveOptions(RocCurveSettings, SharingOptions):
    """ROC curve with AUC and bands."""

    figures: ClassVar[tuple[str, ...]] = (
        "auc", "auc_interval", "auc_population_interval", "auc_privacy_share",
        "fpr", "tpr", "tpr_lower", "tpr_upper", "tpr_lower_everywhere", "tpr_upper_everywhere",
        "tpr_population_lower", "tpr_population_upper",
        "tpr_population_lower_everywhere", "tpr_population_upper_everywhere",
    )  # fmt: skip
    checks: ClassVar[tuple[ResultCheck, ...]] = (
        same_length("thresholds", *figures[4:]),
        within("auc", "auc_interval", *figures[4:]),
        within("auc_population_interval", "auc_privacy_share", nullable=True),
        null_first("thresholds"),
        within("thresholds", nullable=True),
        never_rises("thresholds", nullable=True),
        never_falls("fpr", "tpr"),
        ends("fpr", "tpr", first=0, last=1),
        ascending("tpr_lower", "tpr", "tpr_upper", along="fpr"),
        ascending("tpr_lower_everywhere", "tpr", "tpr_upper_everywhere", along="fpr"),
        ascending("tpr_population_lower", "tpr", "tpr_population_upper", along="fpr"),
        ascending("tpr_population_lower_everywhere", "tpr", "tpr_population_upper_everywhere", along="fpr"),
        inside("auc", "auc_interval"),
        inside("auc", "auc_population_interval", nullable=True),
        finite("positives", "negatives"),
    )
    kind: Literal["roc_curve"] = "roc_curve"

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "recursive_medians"


class GroupedSettings(Settings):
    """The settings of diagnostics that group the scores of a classifier into bins.

    Attributes:
        method: how the bins are chosen; see the diagnostic's package. Only ``auto`` can share a measurement.
        bins: the number of bins; None for the diagnostic's default. Recursive medians need a power of two.
        confidence: nominal level of intervals and zones.
    """

    default_bins: ClassVar[Mapping[GroupingMethod, int]]

    method: GroupingMethod = "auto"
    bins: Annotated[int, Field(ge=2, le=256)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95

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


_BINS: tuple[ResultCheck, ...] = (
    adjoining("lower", "upper", first=0, last=1),
    counts_up("pool"),
    finite("rows", low=0),
    finite("positives", "negatives"),
)
"""The rules for bins of scores, which are pooled where they have too few rows."""


class BinnedResidualsOptions(BinnedResidualsSettings, SharingOptions):
    """Binned residuals with error bars and a test of fit."""

    figures: ClassVar[tuple[str, ...]] = (
        "predicted", "residual", "residual_lower", "residual_upper",
        "residual_population_lower", "residual_population_upper", "zone_lower", "zone_upper",
        "residual_privacy_share",
        "p_value", "trend_p_value", "scatter_p_value",
        "mean_distance", "mean_distance_interval", "mean_distance_population_interval", "mean_distance_privacy_share",
        "mean_distance_calibrated",
    )  # fmt: skip
    checks: ClassVar[tuple[ResultCheck, ...]] = (
        *_BINS,
        same_length("lower", "upper", "pool", "rows", *figures[:9]),
        within("predicted", "residual_privacy_share", *figures[9:]),
        inside("mean_distance", "mean_distance_interval"),
        interval("mean_distance_population_interval", forecast=True),
        within(*figures[1:8], low=-1),
        ascending("residual_lower", "residual", "residual_upper"),
        ascending("residual_population_lower", "residual", "residual_population_upper"),
    )
    kind: Literal["binned_residuals"] = "binned_residuals"


class CalibrationOptions(CalibrationSettings, SharingOptions):
    """Reliability diagram with the Hosmer-Lemeshow test and the expected calibration error."""

    figures: ClassVar[tuple[str, ...]] = (
        "predicted", "observed", "observed_lower", "observed_upper",
        "observed_population_lower", "observed_population_upper", "zone_lower", "zone_upper",
        "observed_privacy_share",
        "statistic", "statistic_interval", "p_value",
        "ece", "ece_interval", "ece_population_interval", "ece_privacy_share", "ece_calibrated",
    )  # fmt: skip
    checks: ClassVar[tuple[ResultCheck, ...]] = (
        *_BINS,
        same_length("lower", "upper", "pool", "rows", *figures[:9]),
        within(*figures[:9], *figures[11:]),
        ascending("observed_lower", "observed", "observed_upper"),
        ascending("observed_population_lower", "observed", "observed_population_upper"),
        finite("statistic", "statistic_interval"),
        inside("statistic", "statistic_interval", forecast=False),
        inside("ece", "ece_interval"),
        interval("ece_population_interval", forecast=True),
    )
    kind: Literal["calibration"] = "calibration"


KINDS: tuple[type[Options], ...] = (
    RocCurveOptions,
    BinnedResidualsOptions,
    CalibrationOptions,
)
