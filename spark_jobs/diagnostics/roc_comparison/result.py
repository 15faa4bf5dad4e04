"""Two released ROC curves and how they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.roc_curve import CurveDifference, RocCurve


@dataclass(frozen=True, kw_only=True, eq=False)
class RocComparison:
    """The curves of two models on the same rows, with as many points each, and a test that says whether they differ.

    Attributes:
        first, second: the released curves; each ``epsilon`` is that curve's own.
        comparison: the difference of the areas with an interval, the largest difference, and p-values. The hypothesis
            is that the *exact curves of these rows* are equal; nothing is said of other rows.
    """

    first: RocCurve
    second: RocCurve
    comparison: CurveDifference

    @property
    def status(self) -> str:
        """``ok``, or ``undefined`` where one of the curves is nothing but noise."""
        return self.comparison.status

    @property
    def guarantee(self) -> str:
        """``differentially private`` or ``NOT PRIVATE``."""
        return self.comparison.guarantee

    @property
    def neighbours(self) -> Neighbours:
        """The relation of the guarantee."""
        return self.first.neighbours

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**self.comparison.to_dict(), "first": self.first.to_dict(), "second": self.second.to_dict()}
