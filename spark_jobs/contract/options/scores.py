"""Diagnostics of a classifier's scores, with their options."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, TypeAdapter, field_validator, model_validator

from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.expressions.parser import check_feature
from spark_jobs.contract.options.base import MIN_EPSILON, SCORE_CELLS, Options, RequestContext, ScoreCells, Statistic
from spark_jobs.contract.result_checks import (
    Check,
    adjoining,
    ascending,
    counts_up,
    ends,
    finite,
    inside,
    never_falls,
    never_rises,
    null_first,
    null_together,
    part,
    same_length,
    within,
)
from spark_jobs.contract.tables import ColumnsModel, LinearModel, LogisticModel

OtherModel = Annotated[ColumnsModel | LinearModel | LogisticModel, Field(discriminator="kind")]
MIN_EPSILON_OF_SMOOTH = Decimal("1e-4")
"""Of noise by smooth sensitivity without a delta: ``mechanisms.pure_release`` is proven from a tenth of it on."""
_OTHER: TypeAdapter[OtherModel] = TypeAdapter(OtherModel)


class OtherScoreCells(Statistic):
    """The statistic of a second classifier on the same rows and label (``statistics.ScoreCounts``).

    Attributes:
        described: the second model, as canonical JSON.
    """

    of_label: ClassVar[bool] = True
    kind: Literal["other_scores"] = "other_scores"
    described: str

    @property
    def max_keys(self) -> int:
        """A count for each label and cell."""
        return 2 * SCORE_CELLS

    @classmethod
    def of(cls, model: OtherModel) -> OtherScoreCells:
        """The statistic of ``model``."""
        return cls(described=json.dumps(model.model_dump(mode="json"), sort_keys=True))

    @property
    def model(self) -> OtherModel:
        """The second model."""
        return _OTHER.validate_json(self.described)


class RocCurveOptions(Options):
    """ROC curve with AUC and bands.

    Attributes:
        method: how counts are noised; see the reference of ``spark_jobs.diagnostics.roc_curve``. ``recursive_medians``
            spends delta.
        thresholds: cells of [0, 1] that the curve is released on; None lets the method choose from public facts.
        confidence: nominal level of the band and of the AUC's interval.
        share: whether it may be made from one noisy release together with other diagnostics of the request.
        histogram: what releases the counts of ``fixed_cells`` and ``recursive_medians``, a name of
            ``spark_jobs.mechanisms.histograms``; None for a tree of them, whose noise is known.
    """

    figures: ClassVar[tuple[str, ...]] = (
        "auc", "auc_interval", "fpr", "tpr", "tpr_lower", "tpr_upper", "tpr_lower_everywhere", "tpr_upper_everywhere",
    )  # fmt: skip
    checks: ClassVar[tuple[Check, ...]] = (
        same_length("thresholds", *figures[2:]),
        within(*figures),
        null_first("thresholds"),
        within("thresholds", nullable=True),
        never_rises("thresholds", nullable=True),
        never_falls("fpr", "tpr"),
        ends("fpr", "tpr", first=0, last=1),
        ascending("tpr_lower", "tpr", "tpr_upper"),
        ascending("tpr_lower_everywhere", "tpr", "tpr_upper_everywhere"),
        inside("auc", "auc_interval"),
        finite("positives", "negatives"),
    )
    kind: Literal["roc_curve"]
    method: Literal["auto", "tree", "fixed_cells", "equi_depth", "recursive_medians"] = "auto"
    thresholds: Annotated[int, Field(ge=2, le=65536)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9
    share: bool = True
    histogram: (
        Literal["adaptive_grid", "ahp", "dawa", "geometric", "greedy_h", "hb", "laplace", "mwem", "uniform"] | None
    ) = None

    @model_validator(mode="after")
    def _of_the_papers(self) -> Self:
        if self.histogram is not None and self.method not in ("fixed_cells", "recursive_medians"):
            raise RequestRefused(
                "histogram", given=self.histogram, bound="is of method: fixed_cells and recursive_medians",
                remedy="choose one of them, or leave it out",
            )  # fmt: skip
        if self.method == "recursive_medians" and self.thresholds is not None and self.thresholds.bit_count() != 1:
            raise RequestRefused(
                "thresholds", given=self.thresholds, bound="must be a power of two for recursive_medians",
                remedy="ask for 8, 16 or 32",
            )  # fmt: skip
        return self

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "recursive_medians"

    @property
    def sharing(self) -> bool:
        """Whether it is made from counts that it may share."""
        return self.share and self.method == "auto"


class RocComparisonOptions(Options):
    """The ROC curves of two models on the same rows, and whether they differ.

    Attributes:
        other: the second model; the first one is the request's. Not a saved pipeline.
        confidence: nominal level of bands and intervals.
    """

    figures: ClassVar[tuple[str, ...]] = (
        "auc_difference", "auc_interval", "auc_p_value", "largest_difference", "p_value",
    )  # fmt: skip
    checks: ClassVar[tuple[Check, ...]] = (
        same_length("first.fpr", "second.fpr"),
        part("first", figures=RocCurveOptions.figures, checks=RocCurveOptions.checks),
        part("second", figures=RocCurveOptions.figures, checks=RocCurveOptions.checks),
        within("auc_difference", "auc_interval", low=-1),
        inside("auc_difference", "auc_interval"),
        within("auc_p_value", "largest_difference", "p_value"),
    )
    kind: Literal["roc_comparison"]
    other: OtherModel
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """Counts of the scores of both models."""
        return ScoreCells(), OtherScoreCells.of(self.other)

    def check(self, request: RequestContext) -> None:
        """Refuse features of the second model that are none of the allow-list's expressions.

        Raises:
            RequestRefused: one of them is not.
        """
        if not isinstance(self.other, ColumnsModel):
            for feature in self.other.coefficients:
                check_feature(feature)

    def chosen(self) -> dict[str, Any]:
        """The options that ``diagnostics.roc_comparison.measure`` takes."""
        return {"confidence": self.confidence}


_BINS: tuple[Check, ...] = (
    adjoining("lower", "upper", first=0, last=1),
    counts_up("pool"),
    finite("rows", least=0),
    finite("positives", "negatives"),
)
"""What bins of the score meet that are pooled where they have too few rows."""


class GroupedOptions(Options):
    """What diagnostics of a classifier that put its scores into groups have in common.

    Attributes:
        method: how groups are placed; see the reference of the diagnostic. Only ``auto`` shares.
        bins: groups of the release; None for the diagnostic's own number.
        confidence: nominal level of intervals and zones.
        share: whether it may be made from one noisy release together with other diagnostics of the request.
    """

    method: Literal["auto", "recursive_medians", "fixed_bins"] = "auto"
    bins: Annotated[int, Field(ge=2, le=256)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    share: bool = True

    @property
    def sharing(self) -> bool:
        """Whether it is made from counts that it may share."""
        return self.share and self.method == "auto"


class BinnedResidualsOptions(GroupedOptions):
    """Binned residuals with error bars and a test of fit; ``bins`` are 20, or 16 of recursive medians.

    Recursive medians need a power of two of them. See ``GroupedOptions``.
    """

    figures: ClassVar[tuple[str, ...]] = (
        "predicted", "residual", "residual_lower", "residual_upper", "zone_lower", "zone_upper",
        "p_value", "trend_p_value", "scatter_p_value",
    )  # fmt: skip
    checks: ClassVar[tuple[Check, ...]] = (
        *_BINS,
        same_length("lower", "upper", "pool", "rows", *figures[:6]),
        within("predicted", "p_value", "trend_p_value", "scatter_p_value"),
        within("residual", "residual_lower", "residual_upper", "zone_lower", "zone_upper", low=-1),
        ascending("residual_lower", "residual", "residual_upper"),
    )
    kind: Literal["binned_residuals"]


class CalibrationOptions(GroupedOptions):
    """Reliability diagram with the Hosmer-Lemeshow test and the expected calibration error.

    ``bins`` are 10, or 8 of recursive medians, which need a power of two. See ``GroupedOptions``.
    """

    figures: ClassVar[tuple[str, ...]] = (
        "predicted", "observed", "observed_lower", "observed_upper", "zone_lower", "zone_upper",
        "statistic", "statistic_interval", "p_value", "ece", "ece_interval", "ece_calibrated",
    )  # fmt: skip
    checks: ClassVar[tuple[Check, ...]] = (
        *_BINS,
        same_length("lower", "upper", "pool", "rows", *figures[:6]),
        within(*figures[:6], "p_value", "ece", "ece_calibrated"),
        ascending("observed_lower", "observed", "observed_upper"),
        finite("statistic", "statistic_interval", "ece_interval"),
        inside("statistic", "statistic_interval"),
        inside("ece", "ece_interval"),
    )
    kind: Literal["calibration"]


class FigureOptions(Options):
    """What single figures of a classifier, released by smooth sensitivity or from counts, have in common.

    Attributes:
        method: how noise is scaled; see the reference of ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        confidence: nominal level of intervals and bands.
    """

    method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] = "auto"
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "laplace"

    @property
    def min_epsilon(self) -> Decimal:
        """The least epsilon, for one row: more for noise whose guarantee is proven from there on."""
        return MIN_EPSILON_OF_SMOOTH if self.method in ("polynomial", "cauchy") else MIN_EPSILON


_AREA: tuple[Check, ...] = (
    within("value"),
    within("interval", nullable=True),
    inside("value", "interval", nullable=True),
    null_together("interval", "positives", "negatives"),
    finite("positives", "negatives", nullable=True),
)
"""What a single figure meets; it has no interval where the sizes of the classes were not paid for."""


class AucOptions(FigureOptions):
    """Area under the ROC curve; see ``FigureOptions``.

    Attributes:
        interval: whether to pay a small part for noisy class sizes, without which no interval can be given.
    """

    figures: ClassVar[tuple[str, ...]] = ("value", "interval")
    checks: ClassVar[tuple[Check, ...]] = _AREA
    kind: Literal["auc"]
    interval: bool = True


class AveragePrecisionOptions(FigureOptions):
    """Average precision, the area under the precision-recall curve, by steps; see ``FigureOptions``.

    Attributes:
        method: as for an AUC, or ``weighted_counts``: counts, and one sum over all rows of weights that they choose.
        interval: of a direct release, whether to pay a small part for noisy class sizes, without which no interval can
            be given.
    """

    figures: ClassVar[tuple[str, ...]] = ("value", "interval")
    checks: ClassVar[tuple[Check, ...]] = _AREA
    kind: Literal["average_precision"]
    method: Literal["auto", "polynomial", "cauchy", "laplace", "counts", "weighted_counts"] = "auto"  # type: ignore[assignment]
    interval: bool = True


class BinormalRocOptions(FigureOptions):
    """Symmetric binormal ROC curve through a private AUC; see ``FigureOptions``.

    Attributes:
        points: points of the curve.
    """

    figures: ClassVar[tuple[str, ...]] = ("separation", "auc", "auc_interval", "tpr", "tpr_lower", "tpr_upper")
    checks: ClassVar[tuple[Check, ...]] = (
        same_length("fpr", "tpr", "tpr_lower", "tpr_upper"),
        within("fpr", "tpr", "tpr_lower", "tpr_upper", "auc", "auc_interval"),
        never_falls("fpr", "tpr"),
        ascending("tpr_lower", "tpr", "tpr_upper"),
        inside("auc", "auc_interval"),
        finite("separation", "positives", "negatives"),
    )
    kind: Literal["binormal_roc"]
    points: Annotated[int, Field(ge=2, le=65536)] = 201


_COUNTS = ("true_positives", "false_positives", "false_negatives", "true_negatives")
_RATES = tuple(
    (f"{rate}_lower", rate, f"{rate}_upper") for rate in ("accuracy", "precision", "recall", "specificity", "f1")
)


class ConfusionMatrixOptions(Options):
    """Confusion matrices at given thresholds, with the rates that follow from them.

    Attributes:
        thresholds: a row counts as positive if its score is at least this; from 0 to 1, ascending.
        confidence: nominal level of the intervals.
    """

    figures: ClassVar[tuple[str, ...]] = tuple(name for rate in _RATES for name in rate)
    checks: ClassVar[tuple[Check, ...]] = (
        same_length("thresholds", *_COUNTS, *figures),
        within("thresholds"),
        finite(*_COUNTS),
        *(null_together(*rate) for rate in _RATES),
        within(*figures, nullable=True),
        *(ascending(*rate, nullable=True) for rate in _RATES),
    )
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
