"""Two released ROC curves and how they differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from spark_jobs.contract.privacy import Neighbours, plain
from spark_jobs.diagnostics.roc_area import RocArea
from spark_jobs.diagnostics.roc_curve import RocCurve

SAME, INDEPENDENT = "same", "independent"


@dataclass(frozen=True, kw_only=True, eq=False)
class RocComparison:
    """The ROC curves of two models, with as many points each, and the difference of their areas.

    Attributes:
        names: of the models; the request's own is the first.
        rows: ``same`` if both models scored the same rows; ``independent`` if the second curve is an earlier release's,
            whose rows are taken as another sample.
        first_is_shared: of two models on the same rows: whether the first curve is read from the noisy release that
            other diagnostics share; it then counts rows without a score of the second model, too.
        auc_difference: area of the first curve less that of the second.
        auc_interval: its interval at level ``confidence`` for the exact curves of these rows; it measures the noise.
        auc_interval_population: its interval for the populations that the rows are samples of; it measures the
            sampling as well.
        auc_privacy_share: share of the width of ``auc_interval_population`` that is due to the noise.
        auc_p_value: p-value of the hypothesis that the areas are equal *in the population*.
        p_value_floor: the smallest that the simulation can give; 0 for independent rows, whose test needs none.
        largest_difference: largest difference of TPR, and so of FPR, at equal FPR + TPR of the released curves.
        positives, negatives: noisy class sizes: of the rows that have both scores, or of the first model's rows if
            those of the second are others.
        first, second: the curves; each ``epsilon`` is that curve's own, each interval and band as in ``RocCurve``.
        released_by: release key of the second curve if it is an earlier release's, else None.
        status: ``ok``, or ``undefined`` if one of the curves is, or a class is hidden by the noise; then differences,
            intervals and p-value are None.
        confidence: nominal level.
        epsilon: cost of all that it is computed from, with that of a shared release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    names: tuple[str, str]
    rows: str
    first_is_shared: bool
    auc_difference: float | None
    auc_interval: tuple[float, float] | None
    auc_interval_population: tuple[float, float] | None
    auc_privacy_share: float | None
    auc_p_value: float | None
    p_value_floor: float
    largest_difference: float | None
    positives: float
    negatives: float
    first: RocCurve
    second: RocCurve
    released_by: str | None
    status: str
    confidence: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str

    def with_class_sizes(self, *, negatives: float, positives: float) -> RocComparison:
        """The comparison with these sizes of the first curve's rows; rows with both scores keep sizes of their own."""
        first = replace(self.first, negatives=negatives, positives=positives)
        if self.rows == SAME:
            return replace(self, first=first)
        return replace(self, first=first, negatives=negatives, positives=positives)

    @property
    def roc_area(self) -> RocArea | None:
        """The first curve's area and its errors, if another diagnostic states it, too."""
        return self.first.roc_area if self.first_is_shared else None

    def with_roc_area(self, area: RocArea) -> RocComparison:
        """The same comparison, with this area of the first curve; the difference is measured on its own."""
        return replace(self, first=self.first.with_roc_area(area))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        curves = {"first": self.first.to_dict(), "second": self.second.to_dict()}
        pairs = ("names", "auc_interval", "auc_interval_population")
        listed = {name: None if getattr(self, name) is None else list(getattr(self, name)) for name in pairs}
        kept = (
            "auc_difference", "auc_privacy_share", "auc_p_value", "p_value_floor", "largest_difference",
            "positives", "negatives",
        )  # fmt: skip
        figures = {
            name: getattr(self, name)
            for name in ("rows", "first_is_shared", *kept, "released_by", "status", "confidence", "guarantee")
        }
        return {
            **listed,
            **figures,
            "epsilon": plain(self.epsilon),
            "neighbours": str(self.neighbours),
            **curves,
        }
