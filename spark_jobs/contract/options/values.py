"""The options of diagnostics of a column of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figures import OK
from spark_jobs.contract.grids import MAX_BOUND, are_bounds, check_grid, unit_of_log, values_in_cell
from spark_jobs.contract.options.base import (
    CONFIDENCE,
    Confidence,
    Options,
    ScoreCells,
    Settings,
    Statistic,
    require_filled_in,
)
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.values import DistributionFunction, SingleQuantile
from spark_jobs.contract.values import Frozen

SEARCH_UNIT, SEARCH_DOUBLINGS, SEARCH_CELLS = 2.0**-20, 64, 2**20
"""The grid on which private bounds are searched: of sizes from a millionth to 17 trillion, unless a unit is given."""
CELLS_OF_ONE_QUANTILE = 2**21
"""A quantile without bounds is read off the same range in cells half as wide."""
MAX_CELLS = 2**20
"""The most cells of a grid of an earlier function."""
FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
GridScale = Literal["linear", "log"]
SmoothingNorm = Literal["2-norm", "1-norm"]


class ValueCells(Statistic):
    """The statistic of a column of numbers: rows per cell of a public value grid (``statistics.ValueCounts``).

    Attributes:
        column: the column's name.
        lower, upper: public bounds; values beyond a bound are clipped to it.
        scale: ``linear`` for cells of equal width, ``log`` for cells whose width grows with the value.
        unit: for a logarithmic grid: the smallest size that it distinguishes from 0; None for the grid's default.
        cells: the most cells that the grid may have.
        step: the distance between consecutive values, if all values are whole steps from the lower bound; else None.
    """

    kind: Literal["values"] = "values"
    column: str
    lower: float
    upper: float
    scale: GridScale
    unit: float | None
    cells: int
    step: float | None = None

    @property
    def grid(self) -> dict[str, Any]:
        """The fields of the grid, a ``statistics.value_grid.ValueGrid``."""
        return {name: getattr(self, name) for name in ("lower", "upper", "cells", "scale", "unit", "step")}

    @property
    def max_keys(self) -> int:
        """The number of counts: one for each cell."""
        return self.cells


class SearchedValueCells(ValueCells):
    """The statistic of a column without bounds: rows per cell of a very wide grid.

    Its rows may be counted again between bounds that are released from these counts.
    """


class ReferenceDistribution(Frozen):
    """A distribution with which released values are compared.

    Attributes:
        distribution: ``uniform`` (with its two bounds as parameters), ``normal`` (mean, standard deviation),
            ``lognormal`` (mean, standard deviation of the logarithm), ``exponential`` (mean).
        parameters: in this order; standard deviations and the mean of an exponential distribution are above 0.
    """

    distribution: Literal["uniform", "normal", "lognormal", "exponential"]
    parameters: tuple[FiniteFloat, ...]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        wanted = 1 if self.distribution == "exponential" else 2
        last = self.parameters[-1] if self.parameters else 0.0
        floor = self.parameters[0] if self.distribution == "uniform" and self.parameters else 0.0
        if len(self.parameters) != wanted or not last > floor:
            raise InvalidRequest(
                "parameters", list(self.parameters),
                "must be the parameters of the distribution: lower and upper bound (uniform), mean and positive "
                "deviation (normal, lognormal), or positive mean (exponential)",
                "give the numbers of this distribution, in this order",
            )  # fmt: skip
        return self


class EarlierFunction(Frozen):
    """A distribution function that an earlier release published, noise included, with which a new one is compared.

    Attributes:
        released_by: the key of that release.
        release: the URI of that release; a request is verified against it when it is charged. None outside a request.
        named: the column, or None for scores.
        status: ``ok``, or ``undefined`` if the release had too few rows, and so published no function.
        lower, upper, cells, scale, unit, step: its grid, a ``statistics.value_grid.ValueGrid``.
        starts: the cells at which the function rises, ascending.
        cdf: the value of the function from each of these cells on; the last is 1.
        rows: the noisy number of rows.
        branching, root, noise_scale: the distribution of its noise: the shape of the tree of counts, and the scale of
            the noise in each count.
        smoothing: the norm in which its fractions were made monotone.
    """

    released_by: Annotated[str, Field(min_length=1)]
    release: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    named: str | None
    status: Literal["ok", "undefined"]
    lower: FiniteFloat
    upper: FiniteFloat
    cells: Annotated[int, Field(ge=2, le=MAX_CELLS)]
    scale: GridScale
    unit: FiniteFloat | None
    step: Annotated[FiniteFloat | None, Field(exclude_if=lambda value: value is None)] = None
    starts: Annotated[tuple[int, ...], Field(max_length=MAX_CELLS)]
    cdf: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(max_length=MAX_CELLS)]
    rows: Annotated[float, Field(ge=0, le=1e30)]
    branching: Annotated[int, Field(ge=2)]
    root: Literal["noisy", "absent", "public"]
    noise_scale: Annotated[float, Field(ge=1e-15, le=1e30)]
    smoothing: Literal["2-norm", "1-norm"]

    @model_validator(mode="after")
    def _rises(self) -> Self:
        steps = list(zip(self.starts, self.cdf, strict=False))
        rising = all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(steps))
        within = not steps or (steps[0][0] >= 0 and steps[-1][0] < self.cells and steps[-1][1] == 1)
        if len(self.starts) != len(self.cdf) or not (rising and within) or bool(steps) != (self.status == "ok"):
            raise InvalidRequest(
                "cdf",
                None,
                "must be a distribution function that rises to 1, with the cells in ascending order",
                "name the release that has this function",
            )
        return self

    @classmethod
    def of(
        cls, result: Mapping[str, Any], cdf: Sequence[float], *, released_by: str, release: str | None = None
    ) -> EarlierFunction:
        """The function in a release's ``results["ecdf"]`` and the column ``cdf`` of its ``ecdf.parquet``.

        Raises:
            InvalidRequest: the bounds of that release were found privately, so that no other release has its grid.
            KeyError, TypeError, ValueError: the arguments are not such a result.
        """
        if result["bounds_found"]:
            raise InvalidRequest(
                "", None, "must be a release with public bounds, not with bounds that were found privately",
                "release both with the same public bounds",
            )  # fmt: skip
        if len(cdf) != result["tree"]["cells"]:
            raise ValueError("the data file and the manifest have different functions")
        known = cdf if result["status"] == OK else ()
        starts = [i for i, fraction in enumerate(known) if fraction > (known[i - 1] if i else 0.0)]
        return cls.parse(
            {
                **{name: result["grid"][name] for name in ("lower", "upper", "cells", "scale", "unit")},
                "step": result["grid"].get("step"),
                **{name: result[name] for name in ("named", "status", "rows", "noise_scale", "smoothing")},
                **{name: result["tree"][name] for name in ("branching", "root")},
                "released_by": released_by,
                "release": release,
                "starts": starts,
                "cdf": [cdf[i] for i in starts],
            }
        )


class EcdfSettings(Settings):
    """How a distribution function is released from counts on a grid.

    Attributes:
        points: the number of rows of the released summary; the data file has every cell.
        smoothing: the norm in which noisy fractions are made monotone.
        confidence: nominal level of bands and intervals.
        quantiles: levels whose quantiles are reported, in [0, 1].
        reference: a distribution with which the values are compared, by the Kolmogorov-Smirnov distance.
        compare_with: the distribution function of an earlier release on the same grid, with which the values are
            compared in the same way. A request names the release, ``{"release": URI}``; ``dp_operators.releasing``
            fills in the function from the committed manifest.
    """

    points: Annotated[int, Field(ge=2, le=4096)] = 512
    smoothing: SmoothingNorm = "2-norm"
    confidence: Confidence = CONFIDENCE
    quantiles: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1, max_length=99)] = (
        0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95,
    )  # fmt: skip
    reference: ReferenceDistribution | None = None
    compare_with: EarlierFunction | None = None

    @field_validator("compare_with", mode="before")
    @classmethod
    def _filled_in(cls, value: Any) -> Any:
        return require_filled_in(value)


class OfValues(Options):
    """An entry about the values of a column, or about the model's scores.

    Attributes:
        column: a column of numbers; None for the scores.
        bounds: public bounds of the column's values. If None, an ``ecdf`` spends a part of its budget on finding them,
            a ``quantile`` uses a very wide grid at no further cost, and ``cdf_points`` is refused.
        scale: ``linear``, or ``log`` for amounts over several orders of magnitude.
        unit: the smallest size that matters; only with the scale ``log``, or without bounds.
        cells: the number of cells of the grid, a power of two.
        step: the distance between consecutive values, if all values are whole steps from the lower bound, such as 1 for
            whole numbers and 0.01 for cents; each cell then has a whole number of values.
        needs_bounds: whether a column must have bounds.
        cells_without_bounds: the number of cells of the very wide grid.
    """

    needs_bounds: ClassVar[bool] = False
    cells_without_bounds: ClassVar[int] = SEARCH_CELLS

    column: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    bounds: tuple[float, float] | None = None
    scale: GridScale = "linear"
    unit: Annotated[float, Field(ge=1 / MAX_BOUND, le=MAX_BOUND)] | None = None
    cells: Literal[256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144] = 32768
    step: Annotated[float | None, Field(ge=1 / MAX_BOUND, le=MAX_BOUND, exclude_if=lambda value: value is None)] = None

    @model_validator(mode="after")
    def _of_a_column(self) -> Self:
        for name in ("bounds", "unit"):
            if self.column is None and getattr(self, name) is not None:
                raise InvalidRequest(
                    name, getattr(self, name), "may be given only with a column, because scores lie in [0, 1]",
                    "name the column, or leave it out",
                )  # fmt: skip
        if self.column is None and self.scale == "log":
            raise InvalidRequest("scale", "log", "may be given only with a column", "leave it out for scores")
        if self.unit is not None and self.scale == "linear" and self.bounds is not None:
            raise InvalidRequest(
                "unit", self.unit, "may be given only with scale: log, or without bounds", "leave it out"
            )
        if self.step is not None and (self.column is None or self.bounds is None):
            raise InvalidRequest(
                "step", self.step, "may be given only with a column and its bounds",
                "give column and bounds, a whole number of steps apart, or leave step out",
            )  # fmt: skip
        if self.bounds is not None:
            if not are_bounds(self.bounds):
                raise InvalidRequest(
                    "bounds", list(self.bounds), "must be two numbers in ascending order, both between -1e100 and "
                    "1e100",
                    "give public bounds of the values, such as [0, 1000000]",
                )  # fmt: skip
            lower, upper = self.bounds
            check_grid(lower=lower, upper=upper, cells=self.cells, scale=self.scale, unit=self.unit, step=self.step)
        return self

    @property
    def statistic(self) -> Statistic:
        """Counts of scores, or of the column on its grid, which is very wide without bounds."""
        if self.column is None:
            return ScoreCells()
        if self.bounds is None:
            unit = SEARCH_UNIT if self.unit is None else self.unit
            reach = unit * 2.0**SEARCH_DOUBLINGS
            return SearchedValueCells(
                column=self.column, lower=-reach, upper=reach, scale="log", unit=unit, cells=self.cells_without_bounds
            )
        lower, upper = self.bounds
        grid = {name: getattr(self, name) for name in ("scale", "unit", "cells", "step")}
        return ValueCells(column=self.column, lower=lower, upper=upper, **grid)

    @property
    def narrowest(self) -> float | None:
        """The smallest width of an interval of values with a step, if a cell has more than one value; else None."""
        if self.step is None or self.bounds is None:
            return None
        together = values_in_cell(*self.bounds, self.step, self.cells)
        return None if together == 1 else together * self.step

    @property
    def named(self) -> str | None:
        """The name of the column; None for scores."""
        return self.column


class EcdfOptions(EcdfSettings, OfValues):
    """Distribution function with its inverse, of a column or of the model's scores.

    If bounds are left out, a part of the budget pays for finding them privately.
    """

    size_public: ClassVar[bool] = False
    result: ClassVar[type[Result]] = DistributionFunction
    kind: Literal["ecdf"] = "ecdf"

    @model_validator(mode="after")
    def _on_one_grid(self) -> Self:
        if self.compare_with is not None:
            self._require_grid_of(self.compare_with)
        return self

    def _require_grid_of(self, earlier: EarlierFunction) -> None:
        """Reject an earlier release on another grid: the fractions of two grids belong to different values."""
        if self.column is not None and self.bounds is None:
            raise InvalidRequest(
                "compare_with", earlier.released_by, "needs public bounds in this release as well",
                f"give the bounds of the named release, [{earlier.lower:g}, {earlier.upper:g}]",
            )  # fmt: skip
        lower, upper = (0.0, 1.0) if self.bounds is None else self.bounds
        wanted: dict[str, object] = {"bounds": [lower, upper], "scale": self.scale}
        given: dict[str, object] = {"bounds": [earlier.lower, earlier.upper], "scale": earlier.scale}
        if self.column is not None:
            wanted |= {"unit": unit_of_log(lower, upper, self.unit) if self.scale == "log" else None}
            wanted |= {"cells": self.cells}
            wanted |= {"step": self.step}
            given |= {"unit": earlier.unit, "cells": earlier.cells, "step": earlier.step}
        for name, value in wanted.items():
            if given[name] != value:
                raise InvalidRequest(
                    "compare_with", f"{earlier.released_by}, with {name} {given[name]}",
                    f"must be on the grid of this release, with {name} {value}",
                    f"use the {name} of the named release, or name another release",
                )  # fmt: skip

    @property
    def find_bounds(self) -> GridScale | None:
        """The scale of the cells between bounds that are to be found privately; None if bounds are public."""
        return self.scale if self.column is not None and self.bounds is None else None


class QuantileSettings(Settings):
    """How one quantile is released from counts on a grid.

    Attributes:
        level: the share of the rows that do not exceed the quantile, with at most six decimals; 0.5 for the median.
        interval: whether half of the budget pays for an interval; without one, all of it is for the value.
        confidence: nominal level of the interval.
    """

    level: Annotated[float, Field(ge=0, le=1)] = 0.5
    interval: bool = True
    confidence: Confidence = CONFIDENCE

    @field_validator("level")
    @classmethod
    def _six_decimals(cls, value: float) -> float:
        if round(value, 6) != value:
            raise InvalidRequest("", value, "must have at most 6 decimals", "round it, e.g. 0.25")
        return value


class QuantileOptions(QuantileSettings, OfValues):
    """One quantile of a column or of the model's scores, far more accurate than one read from a distribution function.

    Without bounds, the values are counted on a very wide logarithmic grid, at no further cost.
    """

    result: ClassVar[type[Result]] = SingleQuantile
    cells_without_bounds: ClassVar[int] = CELLS_OF_ONE_QUANTILE
    kind: Literal["quantile"] = "quantile"


KINDS: tuple[type[Options], ...] = (EcdfOptions, QuantileOptions)
