"""The options of a comparison of two ROC curves: of two models on the same rows, or with an earlier release."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, TypeAdapter, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.parser import check_feature
from spark_jobs.contract.grids import PAIR_CELLS
from spark_jobs.contract.options.base import (
    CONFIDENCE,
    Confidence,
    Options,
    RequestContext,
    ScoreCells,
    Settings,
    SharingOptions,
    Statistic,
    require_filled_in,
)
from spark_jobs.contract.privacy import ExactDecimal, Neighbours
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.curves import RocComparison, RocCurve
from spark_jobs.contract.tables import ColumnsModel, LinearModel, LogisticModel
from spark_jobs.contract.values import Frozen

MAX_POINTS = 4096
"""The most thresholds of an earlier curve, which a request then holds."""
OtherModel = Annotated[ColumnsModel | LinearModel | LogisticModel, Field(discriminator="kind")]
_OTHER: TypeAdapter[OtherModel] = TypeAdapter(OtherModel)
_Rates = Annotated[tuple[float | None, ...], Field(max_length=MAX_POINTS + 1)]


class PairedScoreCells(Statistic):
    """The statistic of two classifiers on the same rows and label (``statistics.PairedScoreCounts``).

    Attributes:
        described: the second model, as canonical JSON; the first is the ``model`` of the request.
    """

    of_label: ClassVar[bool] = True
    of_model: ClassVar[str | None] = "scores"
    kind: Literal["paired_scores"] = "paired_scores"
    described: str

    @property
    def max_keys(self) -> int:
        """The number of counts: one for each label and pair of cells."""
        return 2 * PAIR_CELLS**2

    @classmethod
    def of(cls, model: OtherModel) -> PairedScoreCells:
        """The statistic of the request's model and ``model``."""
        return cls(described=json.dumps(model.model_dump(mode="json"), sort_keys=True))

    @property
    def model(self) -> OtherModel:
        """The second model."""
        return _OTHER.validate_json(self.described)


class PublishedCurve(Frozen):
    """A ROC curve as a release published it, with the fields of ``diagnostics.roc_curve.RocCurve``."""

    status: Literal["ok", "coarse", "undefined"]
    auc: float | None
    auc_interval: tuple[float, float] | None
    auc_population_interval: tuple[float, float] | None = None
    auc_privacy_share: float | None = None
    confidence: Confidence
    positives: Annotated[float, Field(ge=0, le=1e30)]
    negatives: Annotated[float, Field(ge=0, le=1e30)]
    epsilon: ExactDecimal
    neighbours: Neighbours
    guarantee: Annotated[str, Field(max_length=100)]
    thresholds: _Rates
    fpr: _Rates
    tpr: _Rates
    tpr_lower: _Rates
    tpr_upper: _Rates
    tpr_lower_everywhere: _Rates
    tpr_upper_everywhere: _Rates
    tpr_population_lower: _Rates = ()
    tpr_population_upper: _Rates = ()
    tpr_population_lower_everywhere: _Rates = ()
    tpr_population_upper_everywhere: _Rates = ()

    @model_validator(mode="before")
    @classmethod
    def _of_an_earlier_version(cls, fields: Any) -> Any:
        """A release of an earlier version lacks bands for the population; these are the widest."""
        tpr = fields.get("tpr") if isinstance(fields, Mapping) else None
        if not isinstance(tpr, list | tuple):
            return fields
        ends = {"lower": 0.0, "upper": 1.0, "lower_everywhere": 0.0, "upper_everywhere": 1.0}
        widest = {
            f"tpr_population_{name}": [rate if rate is None else end for rate in tpr] for name, end in ends.items()
        }
        return {**widest, **fields}

    @model_validator(mode="after")
    def _is_a_curve(self) -> Self:
        result = self.model_dump(mode="json")
        if self.auc_population_interval is None:  # a release of an earlier version
            result["auc_privacy_share"] = None
        broken = RocCurve.violations(result)
        sizes = {len(getattr(self, name)) for name in ("thresholds", "fpr", "tpr")}
        if broken or len(sizes) != 1 or not sizes <= set(range(3, MAX_POINTS + 2)):
            raise InvalidRequest(
                "", None, "must be a ROC curve: " + (broken[0] if broken else "its lists have other lengths"),
                "name the release that it comes from",
            )  # fmt: skip
        return self


class EarlierCurve(Frozen):
    """A ROC curve that an earlier release published, noise included, with which a new one is compared.

    Attributes:
        released_by: the key of that release.
        release: the URI of that release; a request is verified against it when it is charged. None outside a request.
        curve: the curve.
    """

    released_by: Annotated[str, Field(min_length=1)]
    release: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    curve: PublishedCurve

    @classmethod
    def of(cls, result: Mapping[str, Any], *, released_by: str, release: str | None = None) -> EarlierCurve:
        """The curve in a release's ``results["roc_curve"]``.

        Raises:
            InvalidRequest: ``result`` is not such a curve, or has more than 4,096 thresholds.
            KeyError: a field is missing.
        """
        if len(result["fpr"]) > MAX_POINTS + 1:
            raise InvalidRequest(
                "", f"{len(result['fpr']) - 1} thresholds", f"must have at most {MAX_POINTS}",
                "release the earlier curve with fewer thresholds",
            )  # fmt: skip
        known = PublishedCurve.model_fields.items()
        fields = {name: result[name] for name, field in known if field.is_required() or name in result}
        return cls.parse({"released_by": released_by, "release": release, "curve": fields})


def _one_line(name: str) -> str:
    if not name.isprintable() or not name.strip():
        raise InvalidRequest("", name, "must be one line of text", "name the model in a few words")
    return name


ModelName = Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_one_line)]


class RocComparisonSettings(Settings):
    """How two ROC curves are compared.

    Attributes:
        names: the names of the two models in the report, the request's model first; None for "first model" and "second
            model", or "first model" and "earlier release".
        compare_with: the ROC curve of an earlier release, which takes the place of a second model's curve. A request
            names the release, ``{"release": URI}``; ``dp_operators.releasing`` fills in the curve from the manifest.
        confidence: nominal level of bands and intervals.
    """

    names: tuple[ModelName, ModelName] | None = None
    compare_with: EarlierCurve | None = None
    confidence: Confidence = CONFIDENCE

    @field_validator("compare_with", mode="before")
    @classmethod
    def _filled_in(cls, value: Any) -> Any:
        return require_filled_in(value)

    @model_validator(mode="after")
    def _two_names(self) -> Self:
        if self.names is not None and self.names[0] == self.names[1]:
            raise InvalidRequest("names", list(self.names), "must be two different names", "rename one of them")
        return self

    @property
    def named(self) -> tuple[str, str]:
        """The names of both models."""
        return self.names or ("first model", "second model" if self.compare_with is None else "earlier release")


class RocComparisonOptions(RocComparisonSettings, SharingOptions):
    """The ROC curves of two models, the difference of their AUCs with intervals, and a test of whether it is 0.

    Attributes:
        other: the second model, on the same rows; it cannot be a saved pipeline. The first is the request's ``model``.
    """

    result: ClassVar[type[Result]] = RocComparison
    kind: Literal["roc_comparison"] = "roc_comparison"
    other: OtherModel | None = None

    @property
    def unit_figures(self) -> tuple[str, ...]:
        """``auc_difference``, for two models on the same rows; otherwise none."""
        return () if self.other is None else ("auc_difference",)

    @model_validator(mode="after")
    def _with_one(self) -> Self:
        if (self.other is None) == (self.compare_with is None):
            raise InvalidRequest(
                "other", None, "must be given if compare_with names no earlier release, and must be left out otherwise",
                "give the second model in other, or the earlier release in compare_with",
            )  # fmt: skip
        return self

    @property
    def can_share(self) -> bool:
        """Whether it can be computed from a shared measurement: if the other curve is an earlier release's."""
        return self.share and self.other is None

    @property
    def uses_shared(self) -> bool:
        """Whether the first model's curve can be read from a shared measurement: if both models score the same rows."""
        return self.share and self.other is not None

    @property
    def halves_shared(self) -> bool:
        """Whether its own measurement takes half of the shared pool: for two models on the same rows and no weight."""
        return self.uses_shared and self.weight is None

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """Joint counts of both models' scores, or counts of one model's if the other curve is an earlier release's."""
        return (ScoreCells() if self.other is None else PairedScoreCells.of(self.other),)

    def check(self, request: RequestContext) -> None:
        """Reject features of the second model that are not expressions of the allow-list.

        Raises:
            InvalidRequest: a feature is not such an expression.
        """
        if isinstance(self.other, (LinearModel, LogisticModel)):
            for feature in self.other.coefficients:
                check_feature(feature)


KINDS: tuple[type[Options], ...] = (RocComparisonOptions,)
