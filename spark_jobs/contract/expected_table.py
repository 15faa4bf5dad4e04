"""What a caller states about a table before it is read; forecasts are computed from these statements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import are_bounds
from spark_jobs.contract.options import (
    AggregateCells,
    CrossProductCells,
    LabelledRowCells,
    PointCells,
    PointSums,
    ProfileCells,
    ResidualCells,
    Statistic,
    ValueCells,
)
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.values import Frozen, did_you_mean

_Share = Annotated[float, Field(gt=0, lt=1)]
ROUNDED = 1.2
"""How far recalls and shares may contradict each other: they are stated to few digits."""


class ExpectedTable(Frozen):
    """What a caller expects of a table that nobody has read; it must not be copied from the table itself.

    Attributes:
        rows: the number of rows that are used.
        positive_rate: the share of positives among these rows; required for diagnostics that read a label.
        auc: the area under the ROC curve of the scores, or of a fit on its features.
        flagged: by threshold, the share of the rows whose score is at least the threshold; by default as if the scores
            were calibrated probabilities.
        recalls: by threshold, the share of the positives whose score is at least the threshold; by default as the AUC
            and ``flagged`` suggest.
        r_squared: the share of an outcome's variance that the model, the line or the fit explains.
        values: by the column or expression in the request, the two numbers between which the middle 90% of its values
            lie; by default the middle half of public bounds.
    """

    rows: Annotated[int, Field(ge=1, le=10**12)]
    positive_rate: _Share | None = None
    auc: Annotated[float, Field(ge=0.5, le=0.999)] = 0.8
    flagged: dict[_Share, _Share] = Field(default_factory=dict)
    recalls: dict[_Share, Annotated[float, Field(gt=0, le=1)]] = Field(default_factory=dict)
    r_squared: Annotated[float, Field(ge=0, le=0.999)] = 0.5
    values: dict[str, tuple[float, float]] = Field(default_factory=dict)

    @field_validator("flagged", "recalls")
    @classmethod
    def _fall(cls, value: dict[float, float], info: ValidationInfo) -> dict[float, float]:
        shares = [value[threshold] for threshold in sorted(value)]
        of_rows = info.field_name == "flagged"
        if any(later > earlier or (of_rows and later == earlier) for earlier, later in pairwise(shares)):
            raise InvalidRequest(
                str(info.field_name), value,
                f"must {'decrease' if of_rows else 'not increase'} from each threshold to the next",
                f"state which share of the {'rows' if of_rows else 'positives'} reaches each threshold",
            )  # fmt: skip
        return dict(sorted(value.items()))

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.recalls and list(self.recalls) != list(self.flagged):
            raise InvalidRequest(
                "recalls", list(self.recalls), "must be stated for the same thresholds as flagged",
                "state for each threshold which share of the rows reaches it (flagged), and which share of the "
                "positives does (recalls)",
            )  # fmt: skip
        for threshold, recall in self.recalls.items():
            largest = 1.0 if self.positive_rate is None else self.flagged[threshold] / self.positive_rate
            if recall > ROUNDED * largest:
                raise InvalidRequest(
                    f"recalls.{threshold}", recall,
                    f"must be at most {largest:.3g}, the largest share that flagged and positive_rate allow",
                    "state shares that agree with each other",
                )  # fmt: skip
        return self

    @field_validator("values")
    @classmethod
    def _are_ranges(cls, value: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        for name, ends in value.items():
            if not are_bounds(ends):
                raise InvalidRequest(
                    name, list(ends), "must be two finite numbers in ascending order",
                    "state the two numbers between which most of the values lie",
                )  # fmt: skip
        return value

    def check(self, request: ReleaseRequest) -> None:
        """Reject these statements if one that a forecast of ``request`` needs is missing, or if one is not needed.

        Raises:
            InvalidRequest: names the field, and what it must be.
        """
        if self.positive_rate is None and request.uses_label:
            raise InvalidRequest(
                "positive_rate", None, "is required, because the request reads a label",
                "state which share of the rows you expect to be positive, such as 0.06",
            )  # fmt: skip
        read = dict(numbers for statistic in request.statistics for numbers in _numbers_of(statistic))
        for name, has_default in read.items():
            if name not in self.values and not has_default:
                raise InvalidRequest(
                    "values", None, f"must state where most values of {name} lie",
                    f"state the ends of the middle 90%, such as {name}=10:60",
                )  # fmt: skip
        for name in self.values:
            if name not in read:
                raise InvalidRequest(
                    "values", name, "must be a column that the request reads as a number",
                    f"leave the column out{did_you_mean(name, read)}",
                )  # fmt: skip


def _numbers_of(statistic: Statistic) -> Iterator[tuple[str, bool]]:
    """The columns and expressions that a statistic reads as numbers, and whether bounds can stand for a statement."""
    match statistic:
        case ValueCells():
            yield statistic.column, statistic.scale == "linear"
        case ResidualCells():
            yield statistic.outcome, False
        case AggregateCells():
            yield from ((measure.of, True) for measure in statistic.measures if not measure.counts_units)
        case ProfileCells():
            yield from ((one.column, True) for one in statistic.columns if one.bounds is not None)
        case PointCells() | PointSums():
            yield from ((statistic.x, True), (statistic.y, True))
        case CrossProductCells():
            yield from ((number.name, True) for number in (*statistic.features, statistic.outcome))
        case LabelledRowCells():
            yield from ((number.name, True) for number in statistic.features)
