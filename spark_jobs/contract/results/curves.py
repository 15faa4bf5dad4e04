"""Released ROC curves, their comparison, and the figures of a ranking."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from spark_jobs.contract.figure import DECIMALS, Number, Numbers, figure
from spark_jobs.contract.published import Result, nested
from spark_jobs.contract.result_checks import (
    ResultCheck,
    ends,
    finite,
    never_falls,
    never_rises,
    null_first,
    same_length,
    within,
)

if TYPE_CHECKING:
    from decimal import Decimal
    from typing import Any

    from spark_jobs.arrays import FloatArray

SAME, INDEPENDENT = "same", "independent"
SHARE = (0, 1)
"""The limits of a share, a rate or a probability."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RocCurve(Result):
    """A released ROC curve, in scikit-learn's order: thresholds fall, and the first is infinite.

    The length of all arrays is the number of thresholds plus one, which the request fixes.

    Attributes:
        auc: area under the curve, by trapezoids; if a release measured the area more than once, the pooled estimate.
        positives, negatives: noisy class sizes.
        thresholds: a row is predicted positive if its score is at least this; scores are rounded down to the grid.
        fpr: false positive rates; from 0 to 1, never falling.
        tpr: true positive rates, with pointwise and simultaneous bands at ``fpr``; from 0 to 1, never falling.
        at_ends: noisy share of the rows whose scores are at 0 or 1, or clipped to them, so that their order is lost;
            None if the counts do not show it.
        status: ``ok``, ``coarse`` or ``undefined``. ``coarse``: the grid of scores hides the order of too many rows.
            Either the order of the rows of ``at_ends`` could move the area by more than half the width of its interval,
            which is then widened by that much; or, in at least half of all pairs of a positive and a negative row, both
            rows lie in one cell, and their unknown order makes the interval wide. ``undefined``: a noisy class size is
            below 1 or below three standard deviations of its noise. The rates are then NaN, and the area, its intervals
            and the share are None.
    """

    ORDER: ClassVar[str] = f"{Result.ORDER} at_ends"

    auc: Number = figure(
        "area under the curve", "interval", "population", share=True, limits=SHARE, optional=("population",),
        headline="AUC",
    )  # fmt: skip
    positives: float
    negatives: float
    thresholds: FloatArray
    fpr: FloatArray = figure("false positive rate", limits=SHARE, axis="thresholds")
    tpr: Numbers = figure(
        "true positive rate", "interval", "everywhere", "population", "population_everywhere",
        limits=SHARE, axis="thresholds", along="fpr",
    )  # fmt: skip
    at_ends: float | None = None

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        null_first("thresholds"),
        within("thresholds", nullable=True),
        never_rises("thresholds", nullable=True),
        never_falls("fpr", "tpr"),
        ends("fpr", "tpr", first=0, last=1),
        finite("positives", "negatives"),
    )

    @property
    def area(self) -> Number:
        """The area under the ROC curve."""
        return self.auc

    def with_area(self, area: Number) -> Self:
        """The same points with this area, which other measurements of the same release may have improved."""
        return replace(self, auc=area)

    def published(self) -> dict[str, Any]:
        """The published fields; null stands for the infinite threshold."""
        return {**super().published(), "thresholds": [None, *self.thresholds[1:].tolist()]}


@dataclass(frozen=True, kw_only=True, eq=False)
class BinormalCurve(Result):
    """A released symmetric binormal ROC curve; the length of all arrays is the request's number of points.

    A band covers the binormal curve with the exact AUC, of the same rows or of their population. It does not measure
    how far the exact curve is from a binormal one.

    Attributes:
        separation: the distance between the class means, in standard deviations.
        auc: the released area.
        positives, negatives: noisy class sizes.
        delta: cost of the release, beside ``epsilon``.
        fpr: false positive rates, evenly spaced from 0 to 1.
        tpr: true positive rates, with simultaneous bands; never falling.
        status: status of the area: ``ok`` or ``undefined``. If it is undefined, the curve is NaN and the figures are
            None.
    """

    ORDER: ClassVar[str] = "separation auc positives negatives status confidence guarantee * epsilon delta neighbours"

    separation: float | None = figure("distance of the class means in standard deviations")
    auc: Number = figure("area under the curve", "interval", "population", share=True, limits=SHARE, headline="AUC")
    positives: float
    negatives: float
    delta: Decimal
    fpr: FloatArray
    tpr: Numbers = figure("true positive rate", "interval", "population", limits=SHARE, axis="fpr")

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        within("fpr"),
        never_falls("fpr", "tpr"),
        finite("positives", "negatives"),
    )

    @property
    def area(self) -> Number:
        """The area under the ROC curve."""
        return self.auc


@dataclass(frozen=True, kw_only=True, eq=False)
class RocComparison(Result):
    """The ROC curves of two models, with the same number of points, and the difference of their areas.

    Attributes:
        names: names of the two models; the first is the request's model.
        rows: ``same`` if both models scored the same rows; ``independent`` if the second curve is an earlier release's,
            whose rows are treated as an independent sample.
        first_is_shared: for two models on the same rows: whether the first curve is read from the noisy release that
            other diagnostics share; it then counts rows without a score of the second model, too.
        auc_difference: area of the first curve less that of the second.
        auc_p_value: p-value of the hypothesis that the areas are equal *in the population*.
        p_value_floor: the smallest p-value that the simulation can give; 0 for independent rows, which need no
            simulation.
        largest_difference: largest difference of TPR, and so of FPR, at equal FPR + TPR of the released curves.
        positives, negatives: noisy class sizes: of the rows with both scores, or, if ``rows`` is ``independent``, of
            the first model's rows.
        first, second: the curves; each ``epsilon`` is that curve's own, each interval and band as in ``RocCurve``.
        released_by: release key of the second curve if it is an earlier release's, else None.
        status: ``ok``, or ``undefined`` if one of the curves is undefined or the noise hides a class; then differences,
            intervals and p-value are None.
        epsilon: cost of all measurements from which the comparison is computed, including a shared release.
    """

    ORDER: ClassVar[str] = (
        "names auc_interval auc_interval_population rows first_is_shared auc_difference auc_privacy_share * "
        "positives negatives released_by status confidence guarantee epsilon neighbours first second"
    )

    names: tuple[str, str]
    rows: str
    first_is_shared: bool
    auc_difference: Number = figure(
        "difference of the areas", "interval", "population", share=True, limits=(-1, 1), stem="auc",
        population_last=True, headline="difference of the AUCs",
    )  # fmt: skip
    auc_p_value: float | None = figure("p-value of equal areas", limits=SHARE)
    p_value_floor: float
    largest_difference: float | None = figure("largest difference of the rates", limits=SHARE)
    positives: float
    negatives: float
    first: RocCurve = nested(RocCurve)
    second: RocCurve = nested(RocCurve)
    released_by: str | None

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        same_length("first.fpr", "second.fpr"),
        finite("positives", "negatives"),
    )

    def with_class_sizes(self, *, negatives: float, positives: float) -> Self:
        """The comparison with these class sizes of the first curve; sizes of the rows with both scores are kept."""
        first = replace(self.first, negatives=negatives, positives=positives)
        if self.rows == SAME:
            return replace(self, first=first)
        return replace(self, first=first, negatives=negatives, positives=positives)

    @property
    def area(self) -> Number | None:
        """The first curve's area if it is read from the shared release (``first_is_shared``); else None."""
        return self.first.auc if self.first_is_shared else None

    def with_area(self, area: Number) -> Self:
        """The same comparison, with this area of the first curve; the difference is measured on its own."""
        return replace(self, first=self.first.with_area(area))


@dataclass(frozen=True, kw_only=True, eq=False)
class RankingFigures(Result):
    """Released figures of a ranking: precision-recall curve, gains and lift, KS, Gini, and the threshold of least cost.

    Attributes:
        gini: Gini coefficient (accuracy ratio), ``2 AUC - 1``.
        ks: Kolmogorov-Smirnov distance: the largest TPR - FPR.
        threshold: the edge of the counted cells at which the expected cost is lowest; above 1 if the cost is lowest
            when no row is predicted positive.
        cost: the expected cost of a row at this threshold.
        false_positive_cost, false_negative_cost: costs of the two errors; from the request.
        positives, negatives: noisy class sizes.
        recall: the recalls at which the precision is given; public.
        precision: the share of positives among the rows above the threshold that reaches each recall. The band for the
            population is simultaneous.
        depths: fractions of all rows, those with the highest scores first; from the request.
        gain: the share of all positives among these rows.
        lift: gain divided by depth: how many times more frequent positives are among these rows than among all.
        status: ``ok``; ``coarse`` as in ``RocCurve``; ``undefined`` if a noisy class size is below 1 or below three
            standard deviations of its noise: all figures are then None, and NaN in arrays.
    """

    gini: Number = figure("Gini coefficient", "interval", "population", share=True, limits=(-1, 1), headline="Gini")
    ks: Number = figure(
        "Kolmogorov-Smirnov distance", "interval", "population", share=True, limits=SHARE, headline="KS"
    )
    threshold: float | None = figure("threshold of least cost", limits=(0, None))
    cost: Number = figure("cost of a row there", "interval", "population", share=True, limits=(0, None))
    false_positive_cost: float
    false_negative_cost: float
    positives: float
    negatives: float
    recall: FloatArray
    precision: Numbers = figure(
        "precision", "interval", "everywhere", "population", limits=SHARE, axis="recall", along="recall"
    )
    depths: FloatArray
    gain: Numbers = figure("gain", "interval", "population", limits=SHARE, axis="depths")
    lift: Numbers = figure("lift", "interval", "population", limits=(0, None), axis="depths")

    RULES: ClassVar[tuple[ResultCheck, ...]] = (within("recall", "depths"), finite("positives", "negatives"))

    @property
    def area(self) -> Number:
        """The area under the ROC curve, from the Gini coefficient."""
        return self.gini.mapped(lambda gini: None if gini is None else (1 + gini) / 2)

    def with_area(self, area: Number) -> Self:
        """The result with the Gini coefficient that this area under the ROC curve implies."""
        return replace(self, gini=gini_of(area))


def gini_of(area: Number) -> Number:
    """The Gini coefficient of an area under the ROC curve."""
    return area.mapped(lambda end: None if end is None else round(2 * end - 1, DECIMALS))
