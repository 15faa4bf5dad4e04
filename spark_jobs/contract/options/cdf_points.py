"""The options of a distribution function at a few points; their number is fixed and paid for beforehand."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.base import CONFIDENCE, Confidence, Options, Settings
from spark_jobs.contract.options.score_figures import in_ascending_order
from spark_jobs.contract.options.values import FiniteFloat, OfValues
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.values import CdfPoints


class CdfPointsSettings(Settings):
    """At which points a distribution function is evaluated.

    Attributes:
        thresholds: values up to which rows are counted, ascending; all rows in a threshold's cell are counted with it.
        quantiles: levels whose quantiles are found by bisection, in [0, 1]; each quantile takes as many evaluations as
            the number of cells has bits.
        more_evaluations: evaluations paid for in addition to those of ``thresholds`` and ``quantiles``. The
            participants of a federation can use them later, at points that need not be known in advance.
        silo_rows: in a federation, the public number of keys that each silo sends. A silo with more rows leaves out
            those with the largest values.
        confidence: nominal level of intervals.
    """

    thresholds: Annotated[tuple[FiniteFloat, ...], Field(max_length=1000)] = ()
    quantiles: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(max_length=99)] = (0.5,)
    more_evaluations: Annotated[int, Field(ge=0, le=10_000)] = 0
    silo_rows: Annotated[int, Field(ge=1, le=2**18)] = 2**16
    confidence: Confidence = CONFIDENCE

    @field_validator("thresholds")
    @classmethod
    def _ascending(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return in_ascending_order(value, "thresholds")

    @model_validator(mode="after")
    def _of_some_point(self) -> Self:
        if not self.thresholds and not self.quantiles:
            raise InvalidRequest(
                "thresholds", None, "must not be empty, unless there are quantiles", "list at least one threshold"
            )
        return self

    def evaluations(self, cells: int) -> int:
        """How many evaluations are paid for on a grid of ``cells`` cells; one of them is the number of rows."""
        return 1 + len(self.thresholds) + len(self.quantiles) * (cells - 1).bit_length() + self.more_evaluations


class CdfPointsOptions(CdfPointsSettings, OfValues):
    """Distribution function at chosen thresholds, and quantiles by search, of a column or of the model's scores."""

    result: ClassVar[type[Result]] = CdfPoints
    needs_bounds: ClassVar[bool] = True
    thresholds_of: ClassVar[tuple[str, ...]] = ("thresholds",)
    kind: Literal["cdf_points"] = "cdf_points"

    @model_validator(mode="after")
    def _within_public_bounds(self) -> Self:
        if self.column is not None and self.bounds is None:
            raise InvalidRequest("bounds", None, "is required with a column", "give public bounds of the values")
        lower, upper = (0.0, 1.0) if self.bounds is None else self.bounds
        outside = [threshold for threshold in self.thresholds if not lower <= threshold <= upper]
        if outside:
            raise InvalidRequest(
                "thresholds", outside[0], f"must lie within the bounds, [{lower:g}, {upper:g}]",
                "change the threshold, or give wider bounds",
            )  # fmt: skip
        return self


KINDS: tuple[type[Options], ...] = (CdfPointsOptions,)
