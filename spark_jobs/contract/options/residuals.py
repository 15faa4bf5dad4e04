"""Residual plots of a given model: their options, and the statistic that they are computed from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import MAX_BOUND, RESIDUAL_KEYS
from spark_jobs.contract.options.base import CONFIDENCE, Confidence, HistogramChoice, Options, Settings, Statistic
from spark_jobs.contract.options.linear import Amount, expression, power_of_two
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.lines import ResidualPlot


class ResidualCells(Statistic):
    """The statistic of a residual plot: rows per cell of fitted value and residual (``statistics.ResidualCounts``).

    Attributes:
        outcome: what the model predicts; the residual is the outcome minus the model's output.
        unit: the smallest size of fitted values and residuals that matters.
    """

    of_model: ClassVar[str | None] = "fitted values"
    kind: Literal["residuals"] = "residuals"
    outcome: str
    unit: float

    @property
    def max_keys(self) -> int:
        """The number of counts: one for each cell."""
        return RESIDUAL_KEYS


class ResidualPlotSettings(Settings):
    """How a residual plot is released from its counts.

    Attributes:
        method: the mechanism that releases the counts, a name of ``spark_jobs.mechanisms.histograms``; ``auto`` chooses
            by public facts.
        bins: the number of bins of each axis, a power of two; None for one derived from the scale of the noise.
        coverage: the fraction of rows that the range of each axis should cover.
        confidence: nominal level of intervals.
    """

    method: HistogramChoice = "auto"
    bins: Annotated[int, Field(ge=2, le=256)] | None = None
    coverage: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    confidence: Confidence = CONFIDENCE

    @field_validator("bins")
    @classmethod
    def _power(cls, value: int | None) -> int | None:
        return value if value is None else power_of_two(value)


class ResidualPlotOptions(ResidualPlotSettings, Options):
    """Residuals against fitted values, with a trend, a spread, tests of both, and a Q-Q view.

    Attributes:
        outcome: what the model predicts: a column of numbers or booleans, or an expression.
        unit: the smallest size of fitted values and residuals that matters; public.
    """

    result: ClassVar[type[Result]] = ResidualPlot
    kind: Literal["residual_plot"] = "residual_plot"
    outcome: Amount
    unit: Annotated[float, Field(allow_inf_nan=False)] = 1.0

    @field_validator("outcome")
    @classmethod
    def _allowed(cls, value: str) -> str:
        return expression(value)

    @field_validator("unit")
    @classmethod
    def _of_size(cls, value: float) -> float:
        if not 1 / MAX_BOUND <= value <= MAX_BOUND:
            raise InvalidRequest(
                "", value, "must be a number between 1e-100 and 1e100",
                "give the smallest size that matters, such as 0.01 for amounts of money",
            )  # fmt: skip
        return value

    @property
    def statistic(self) -> Statistic:
        """Counts of fitted values and residuals together."""
        return ResidualCells(outcome=self.outcome, unit=self.unit)


KINDS: tuple[type[Options], ...] = (ResidualPlotOptions,)
