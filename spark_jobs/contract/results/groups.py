"""Released results of all groups of a public list, and their comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from spark_jobs.contract.figure import DECIMALS, Ends, Figure, Number
from spark_jobs.contract.figure import figure as of_figure
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.contract.published import PublishedFields, Result, as_json, nested
from spark_jobs.contract.result_checks import Fields, ResultCheck, among, finite, null_together, same_length
from spark_jobs.contract.results.curves import SHARE, BinormalCurve, RankingFigures, RocCurve
from spark_jobs.contract.results.pooled import BinnedResiduals, Calibration
from spark_jobs.contract.results.score_figures import Auc, AveragePrecision, ConfusionMatrix, Recalibration

OF_GROUPS: Mapping[str, type[Result]] = {
    "roc_curve": RocCurve,
    "binned_residuals": BinnedResiduals,
    "calibration": Calibration,
    "auc": Auc,
    "average_precision": AveragePrecision,
    "binormal_roc": BinormalCurve,
    "confusion_matrix": ConfusionMatrix,
    "ranking_figures": RankingFigures,
    "recalibration": Recalibration,
}
"""The results that can be read from the noisy counts of one group, by kind."""


@dataclass(frozen=True, kw_only=True)
class GroupComparison(PublishedFields):
    """A figure of all groups, and a test of whether it is equal in the populations of the listed groups.

    Attributes:
        figure: ``positive_rate``, ``auc``, ``mean_residual`` (share of positives less mean score); and, at a threshold,
            ``predicted_positive_rate``, ``recall``, ``false_positive_rate``, ``precision``.
        threshold: the threshold; None for a figure without one.
        values: the figure of every group, in the order of ``ByGroup.keys``; None where the noise leaves it undefined.
            Intervals are for the population of each group, and account for noise and sampling.
        overall: the figure of all rows, including ``other``, with an interval for the population of all rows; None for
            ``auc``, and where the noise leaves it undefined.
        highest, lowest: the two listed groups that differ most, in standard errors of their difference.
        difference: the figure of ``highest`` less that of ``lowest``. The interval is for the populations, and
            simultaneous for all pairs of listed groups.
        p_value: how often so large a difference, in standard errors, occurs among groups that are equal.
        adjusted_p_value: ``p_value`` adjusted for the number of figures that are compared (Holm 1979).
    """

    figure: str
    threshold: float | None
    values: Figure[tuple[float | None, ...]] = of_figure(
        "the figure of each group", "interval", split=True, stem="", nullable=True
    )
    overall: Number = of_figure("the figure of all rows", "interval", nullable=True)
    highest: str | None
    lowest: str | None
    difference: Number = of_figure("the largest difference", "interval", nullable=True)
    p_value: float | None = of_figure("p-value of equal groups", limits=SHARE, nullable=True)
    adjusted_p_value: float | None = of_figure("the same, adjusted", limits=SHARE, nullable=True)

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        null_together("difference", "p_value", "adjusted_p_value", "highest", "lowest"),
    )

    def moved_to(self, share: float) -> Self:
        """The comparison with ``share`` as the figure of all rows; its interval is shifted by the same amount."""
        overall = self.overall
        if overall.value is None or overall.interval is None:
            return self
        by = share - overall.value
        low, high = (round(min(max(end + by, 0.0), 1.0), DECIMALS) for end in overall.ends())
        return replace(self, overall=Figure(value=round(share, DECIMALS), interval=Ends(low, high)))


def _results_of_kinds() -> ResultCheck:
    """Each group's results meet the rules of their kinds."""

    def broken(result: Fields) -> Iterator[str]:
        for by_kind in result["results"]:
            for kind in dict(by_kind):
                yield from (f"{kind}: {line}" for line in OF_GROUPS[kind].violations(by_kind[kind]))

    return ResultCheck(names=("results",), broken=broken)


@dataclass(frozen=True, kw_only=True)
class ByGroup(Result):
    """Released results of all groups.

    Attributes:
        keys: the groups as texts: those of the request, and ``other`` for all rows that are in none of them.
        status: the status of each group: ``ok``, or ``undefined`` if a noisy class size is below 1 or below three
            standard deviations of its noise.
        positives, negatives: noisy class sizes of each group.
        results: for each group, the result of every requested kind.
        comparisons: the figures by which groups are compared.
        p_value_floor: the smallest p-value that the simulation can give.
        confidence: nominal level of the intervals of ``comparisons``.
        epsilon: cost of the release, which is the same as the cost of one group.
    """

    ORDER: ClassVar[str] = "keys status * confidence epsilon neighbours guarantee"

    status: tuple[str, ...]  # type: ignore[assignment]  # of each group
    keys: tuple[str, ...]
    positives: tuple[float, ...]
    negatives: tuple[float, ...]
    results: tuple[Mapping[str, Any], ...]
    comparisons: tuple[GroupComparison, ...] = nested(GroupComparison, many=True)
    p_value_floor: float

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        same_length("status", "keys", "results", "positives", "negatives"),
        among("status", values=(OK, UNDEFINED)),
        finite("positives", "negatives", low=0),
        _results_of_kinds(),
    )

    def with_class_sizes(self, *, negatives: float, positives: float) -> Self:
        """The result with all rows' share of positives from these sizes, which other measurements improved."""
        rows = negatives + positives
        if rows <= 0:
            return self
        moved = (one.moved_to(positives / rows) if one.figure == "positive_rate" else one for one in self.comparisons)
        return replace(self, comparisons=tuple(moved))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        results = [{kind: as_json(one) for kind, one in by_kind.items()} for by_kind in self.results]
        return {**super().to_dict(), "results": results}
