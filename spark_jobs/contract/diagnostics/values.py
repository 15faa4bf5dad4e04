"""Diagnostics of a column of numbers, with their options."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from spark_jobs.contract.diagnostics.base import Options, ScoreCells, Statistic
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.values import Frozen

FOUND_UNIT, FOUND_DOUBLINGS, FOUND_GRID_CELLS = 2.0**-20, 64, 2**20
"""The grid on which bounds are found: from a millionth to 17 trillion, in both directions, unless a unit is given."""


class ValueCells(Statistic):
    """The statistic of a column of numbers: rows per cell of a public value grid (``statistics.ValueCounts``).

    Attributes:
        column: which.
        lower, upper: public bounds; values beyond them count at the nearer one.
        scale: cells of equal width, or of a width that grows with the value.
        unit: of a logarithmic grid, the smallest size that is told apart from 0; None leaves it to the grid.
        cells: at most so many.
    """

    kind: Literal["values"] = "values"
    column: str
    lower: float
    upper: float
    scale: Literal["linear", "log"]
    unit: float | None
    cells: int


class ReferenceDistribution(Frozen):
    """A distribution that released values are held against.

    Attributes:
        distribution: ``uniform`` (its two bounds), ``normal`` (mean, standard deviation), ``lognormal`` (the same, of
            the logarithm), ``exponential`` (mean).
        parameters: as listed; the second of a normal one and the mean of an exponential one are above 0.
    """

    distribution: Literal["uniform", "normal", "lognormal", "exponential"]
    parameters: tuple[Annotated[float, Field(allow_inf_nan=False)], ...]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        wanted = 1 if self.distribution == "exponential" else 2
        last = self.parameters[-1] if self.parameters else 0.0
        least = self.parameters[0] if self.distribution == "uniform" and self.parameters else 0.0
        if len(self.parameters) != wanted or not last > least:
            raise RequestRefused(
                "parameters",
                given=list(self.parameters),
                bound="must be those of the distribution: two bounds that ascend, mean and deviation, or mean",
                remedy="see the request reference",
            )
        return self


class EcdfOptions(Options):
    """Distribution function with its inverse, of a column or of the model's scores.

    Attributes:
        column: a column of numbers; None for the scores.
        bounds: public bounds of the column's values; None finds them privately, at a part of the budget.
        scale: ``linear``, or ``log`` for amounts over several orders of magnitude.
        unit: the smallest size that matters, for ``log`` and for bounds that are found.
        cells: of the grid, a power of two.
        points: rows of the released summary; the data file has every cell.
        smoothing: the norm in which noisy fractions are made to rise.
        confidence: nominal level of bands and intervals.
        quantiles: levels whose quantiles are reported, in [0, 1].
        reference: a distribution to hold the values against, by the Kolmogorov-Smirnov distance.
    """

    kind: Literal["ecdf"]
    column: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    bounds: tuple[float, float] | None = None
    scale: Literal["linear", "log"] = "linear"
    unit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    cells: Literal[256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144] = 32768
    points: Annotated[int, Field(ge=2, le=4096)] = 512
    smoothing: Literal["2-norm", "1-norm"] = "2-norm"
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9
    quantiles: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1, max_length=99)] = (
        0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95,
    )  # fmt: skip
    reference: ReferenceDistribution | None = None

    @model_validator(mode="after")
    def _of_a_column(self) -> Self:
        for name in ("bounds", "unit"):
            if self.column is None and getattr(self, name) is not None:
                raise RequestRefused(
                    name, given=getattr(self, name), bound="is of a column; scores lie in [0, 1]",
                    remedy="name the column, or leave it out",
                )  # fmt: skip
        if self.column is None and self.scale == "log":
            raise RequestRefused("scale", given="log", bound="is of a column", remedy="leave it out for scores")
        if self.unit is not None and self.scale == "linear" and self.bounds is not None:
            raise RequestRefused(
                "unit", given=self.unit, bound="is of scale: log and of bounds that are found", remedy="leave it out"
            )
        if self.bounds is not None and not -(10.0**300) < self.bounds[0] < self.bounds[1] < 10.0**300:
            raise RequestRefused(
                "bounds", given=list(self.bounds), bound="must be two finite numbers in ascending order",
                remedy="give public bounds of the values, such as [0, 1000000]",
            )  # fmt: skip
        return self

    @property
    def statistic(self) -> Statistic:
        """Counts of scores, or of the column on its grid: a very wide one where bounds are to be found."""
        if self.column is None:
            return ScoreCells()
        if self.bounds is None:
            unit = FOUND_UNIT if self.unit is None else self.unit
            reach = unit * 2.0**FOUND_DOUBLINGS
            return ValueCells(
                column=self.column, lower=-reach, upper=reach, scale="log", unit=unit, cells=FOUND_GRID_CELLS
            )
        lower, upper = self.bounds
        return ValueCells(
            column=self.column, lower=lower, upper=upper, scale=self.scale, unit=self.unit, cells=self.cells
        )

    def chosen(self) -> dict[str, Any]:
        """The options that ``diagnostics.ecdf.measure`` takes."""
        options = super().chosen()
        finding = self.column is not None and options.pop("bounds") is None
        return {
            **{name: options[name] for name in ("points", "smoothing", "confidence", "quantiles")},
            "find_bounds": self.scale if finding else None,
            "reference": self.reference,
            "named": self.column,
        }
