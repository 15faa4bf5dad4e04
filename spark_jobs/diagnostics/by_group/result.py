"""The released results of all groups, and their comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._simulation import DECIMALS
from spark_jobs.diagnostics.undefined import plain_fields


@dataclass(frozen=True, kw_only=True)
class GroupComparison:
    """One figure of all groups, and a test of whether the listed groups' populations have the same.

    Attributes:
        figure: ``positive_rate``, ``auc``, ``mean_residual`` (share of positives less mean score); and, at a threshold,
            ``predicted_positive_rate``, ``recall``, ``false_positive_rate``, ``precision``.
        threshold: the threshold; None for a figure without one.
        values: of every group, in the order of ``ByGroup.keys``; None where the noise leaves it undefined.
        lower, upper: ends of intervals for the population of each group: noise and sampling.
        overall: of all rows, those of ``other`` too; None for ``auc``, and where the noise leaves it undefined.
        overall_interval: its interval for the population of all rows.
        highest, lowest: the two listed groups that differ most, in standard errors of their difference.
        difference: what ``highest`` has more than ``lowest``.
        difference_interval: for the populations; simultaneous for all pairs of listed groups.
        p_value: how often so large a difference, in standard errors, occurs among groups that are equal.
        adjusted_p_value: the same, adjusted for the number of figures that are compared (Holm 1979).
    """

    figure: str
    threshold: float | None
    values: tuple[float | None, ...]
    lower: tuple[float | None, ...]
    upper: tuple[float | None, ...]
    overall: float | None = None
    overall_interval: tuple[float, float] | None = None
    highest: str | None = None
    lowest: str | None = None
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None


@dataclass(frozen=True, kw_only=True)
class ByGroup:
    """Released results of all groups.

    Attributes:
        keys: the groups as texts: those of the request, and ``other`` for all rows that are in none of them.
        status: of each group, ``ok``, or ``undefined`` if a noisy class size is below 1 or below three standard
            deviations of its noise.
        positives, negatives: noisy class sizes of each group.
        results: of each group, the result of every requested kind.
        comparisons: the figures by which groups are compared.
        p_value_floor: the smallest p-value that the simulation can give.
        confidence: nominal level of the intervals of ``comparisons``.
        epsilon: cost of the release: that of one group.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    keys: tuple[str, ...]
    status: tuple[str, ...]
    positives: tuple[float, ...]
    negatives: tuple[float, ...]
    results: tuple[Mapping[str, Any], ...]
    comparisons: tuple[GroupComparison, ...]
    p_value_floor: float
    confidence: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str

    def with_class_sizes(self, *, negatives: float, positives: float) -> ByGroup:
        """With the share of positives of all rows by these class sizes, which other measurements have made nearer.

        Its interval is moved along and stays as wide.
        """
        return replace(self, comparisons=tuple(_moved(one, negatives, positives) for one in self.comparisons))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            **plain_fields(self),
            "results": [{kind: result.to_dict() for kind, result in results.items()} for results in self.results],
            "comparisons": [plain_fields(comparison) for comparison in self.comparisons],
        }


def _moved(comparison: GroupComparison, negatives: float, positives: float) -> GroupComparison:
    value, ends = comparison.overall, comparison.overall_interval
    if comparison.figure != "positive_rate" or value is None or ends is None or negatives + positives <= 0:
        return comparison
    share = positives / (negatives + positives)
    low, high = (round(min(max(end + share - value, 0.0), 1.0), DECIMALS) for end in ends)
    return replace(comparison, overall=round(share, DECIMALS), overall_interval=(low, high))
