"""Released single figures of a classifier, confusion matrices, and the recalibration of scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from spark_jobs.contract.figure import DECIMALS, Number, Numbers, figure
from spark_jobs.contract.published import OfOneFigure, Result, withheld
from spark_jobs.contract.result_checks import ResultCheck, finite, null_together, same_length, within
from spark_jobs.contract.results.curves import SHARE

if TYPE_CHECKING:
    from decimal import Decimal

    from spark_jobs.arrays import FloatArray


@dataclass(frozen=True, kw_only=True)
class ScoreFigure(OfOneFigure, Result):
    """One released number in [0, 1].

    Attributes:
        figure: the number; it has intervals only if the noisy class sizes that they need were paid for.
        positives, negatives: noisy class sizes; None if they were not paid for.
        method: method of the release; never ``auto``.
        delta: cost of the release, beside ``epsilon``.
        at_ends: for an AUC, the noisy share of the rows whose scores are at 0 or 1, or clipped to them, so that their
            order is lost; None if it is not known.
        status: ``ok``; ``coarse`` if the grid of scores hides the order of so many rows that an AUC is uncertain (as in
            ``RocCurve``); ``undefined`` if a noisy class size is below 1 or below three standard deviations of its
            noise; ``unchecked`` if the sizes were not paid for.
    """

    ORDER: ClassVar[str] = "status * confidence positives negatives method epsilon delta neighbours guarantee at_ends"

    figure: Number = figure(
        "the figure", "interval", "population", share=True, limits=SHARE, value="value", stem="",
        optional=("interval", "population"), headline="figure",
    )  # fmt: skip
    positives: float | None
    negatives: float | None
    method: str
    delta: Decimal
    at_ends: float | None = None

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        null_together("interval", "positives", "negatives"),
        finite("positives", "negatives", nullable=True),
    )


@dataclass(frozen=True, kw_only=True)
class Auc(ScoreFigure):
    """A released area under the ROC curve; the exact area is defined as 1/2 if a class is empty."""

    @property
    def area(self) -> Number:
        """The area under the ROC curve."""
        return self.figure

    def with_area(self, area: Number) -> Self:
        """The result with this area in place of its own."""
        return replace(self, figure=area)


@dataclass(frozen=True, kw_only=True)
class AveragePrecision(ScoreFigure):
    """A released average precision; the exact one is defined as 0 if there are no positives."""


COUNTS = ("true_positives", "false_positives", "false_negatives", "true_negatives")
RATES = ("accuracy", "precision", "recall", "specificity", "f1")


_RATE: dict[str, Any] = {"limits": SHARE, "share": True, "axis": "thresholds", "nullable": True}


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfusionMatrix(Result):
    """Released confusion matrices and rates; the length of all arrays is the number of thresholds.

    Attributes:
        positives, negatives: noisy class sizes.
        thresholds: the thresholds that were used: those of the request, each rounded down to the start of its cell of
            the score grid. A row is predicted positive if its score is at least this threshold.
        requested: the thresholds of the request.
        true_positives, false_positives, false_negatives, true_negatives: noisy counts at each threshold, at least 0.
        accuracy, precision, recall, specificity, f1: rates at each threshold; NaN if the denominator is below 1 or
            below three standard deviations of its noise.
        status: ``ok``, or ``undefined`` if a noisy class size is below 1 or below three standard deviations of its
            noise; then all rates are NaN.
    """

    ORDER: ClassVar[str] = " ".join(
        (
            "positives negatives status confidence epsilon neighbours guarantee thresholds requested",
            *COUNTS, *RATES, *(f"{rate}_{end}" for end in ("lower", "upper") for rate in RATES),
            *(f"{rate}_population_{end}" for end in ("lower", "upper") for rate in RATES),
        )
    )  # fmt: skip

    positives: float
    negatives: float
    thresholds: FloatArray
    requested: FloatArray
    true_positives: FloatArray
    false_positives: FloatArray
    false_negatives: FloatArray
    true_negatives: FloatArray
    accuracy: Numbers = figure("share of the rows that are predicted right", "interval", "population", **_RATE)
    precision: Numbers = figure(
        "share of positives among the rows that are predicted positive", "interval", "population", **_RATE
    )
    recall: Numbers = figure("share of the positives that are predicted positive", "interval", "population", **_RATE)
    specificity: Numbers = figure(
        "share of the negatives that are predicted negative", "interval", "population", **_RATE
    )
    f1: Numbers = figure("harmonic mean of precision and recall", "interval", "population", **_RATE)

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        same_length("thresholds", "requested", *COUNTS),
        within("thresholds"),
        finite(*COUNTS),
    )

    def with_class_sizes(self, *, negatives: float, positives: float) -> Self:
        """The matrices with counts scaled to these class sizes; the share of each count in its class stays the same."""
        counts = {}
        for size, inside, outside in zip((positives, negatives), COUNTS[:2], COUNTS[2:], strict=True):
            predicted, other = getattr(self, inside), getattr(self, outside)
            counts[inside] = (size * predicted / (predicted + other).clip(1.0)).round(DECIMALS) + 0.0
            counts[outside] = (size - counts[inside]).round(DECIMALS) + 0.0
        return replace(self, **counts, negatives=negatives, positives=positives)


@dataclass(frozen=True, kw_only=True, eq=False)
class Recalibration(Result):
    """Released figures of scores as probabilities, and the map that recalibrates them.

    Attributes:
        brier: Brier score: the mean squared difference of score and label.
        log_loss: the mean negative natural logarithm of the probability that the score gives the label, with scores
            clipped to [clip, 1 - clip].
        slope: slope of the logistic regression of the label on the log-odds of the clipped score: 1 if the model is
            calibrated, below 1 if its scores are too extreme. At most 20 in absolute value.
        intercept: intercept of that regression: 0 if the model is calibrated. At most 60 in absolute value.
        map: ``intercept``, ``slope`` and ``clip``: the recalibrated probability of a score ``s`` is ``1 / (1 +
            exp(-(intercept + slope ln(c / (1 - c)))))`` with ``c`` the clipped score.
        clip: the clip of the request.
        positives, negatives: noisy class sizes.
        score: scores at which the map is evaluated; public.
        recalibrated: the recalibrated probabilities of these scores, with pointwise bands.
        status: ``ok``, or ``undefined`` if a noisy class size is below 1 or below three standard deviations of its
            noise; then all figures are None, and NaN in arrays.
    """

    brier: Number = figure("Brier score", "interval", "population", share=True, limits=SHARE, headline="Brier score")
    log_loss: Number = figure("log loss", "interval", "population", share=True, limits=(0, None))
    slope: Number = figure("calibration slope", "interval", "population", share=True, headline="calibration slope")
    intercept: Number = figure("calibration intercept", "interval", "population", share=True)
    map: dict[str, float] | None = withheld()
    clip: float
    positives: float
    negatives: float
    score: FloatArray
    recalibrated: Numbers = figure(
        "recalibrated probability", "interval", "population", limits=SHARE, axis="score", along="score"
    )

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        within("score"),
        finite("map.slope", "map.intercept", "map.clip", "positives", "negatives"),
    )
