"""The diagnostics a request may ask for, with their options."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import MAX_EPSILON, ExactDecimal, exact_decimal, plain
from spark_jobs.contract.values import Frozen

FOUND_UNIT, FOUND_DOUBLINGS, FOUND_GRID_CELLS = 2.0**-20, 64, 2**20
"""The grid on which bounds are found: from a millionth to 17 trillion, in both directions, unless a unit is given."""


class ScoreCells(Frozen):
    """The statistic of a classifier: rows per label and cell of the score grid (``statistics.ScoreCounts``)."""

    kind: Literal["scores"] = "scores"


class ValueCells(Frozen):
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


Statistic = ScoreCells | ValueCells
"""What Spark counts for a diagnostic. Equal statistics of one request are counted once, all of them in one pass."""


class Options(Frozen):
    """What the options of every diagnostic have.

    Attributes:
        kind: which diagnostic.
        weight: its part of the budget, against the weights of the request's other diagnostics; 1 if left out.
    """

    kind: str
    weight: ExactDecimal | None = None

    @field_validator("weight", mode="before")
    @classmethod
    def _positive(cls, value: Any) -> Decimal | None:
        if value is None:
            return None
        weight = exact_decimal(value, what="weight")
        if not 0 < weight <= MAX_EPSILON:
            raise RequestRefused(
                "weight", given=plain(weight), bound="must be above 0 and at most 10^12",
                remedy="weights are relative: 2 gets twice the budget of 1",
            )  # fmt: skip
        return weight

    @property
    def part(self) -> Decimal:
        """The weight that holds: the request's, or 1."""
        return Decimal(1) if self.weight is None else self.weight

    @property
    def statistic(self) -> Statistic:
        """What Spark has to count for it."""
        return ScoreCells()

    @property
    def approximate(self) -> bool:
        """Whether it spends delta; its ``measure`` is then given its share of the budget's delta as ``delta``."""
        return False

    @property
    def sharing(self) -> bool:
        """Whether it is made from counts that it may share with others of the request, at one cost."""
        return False

    def chosen(self) -> dict[str, Any]:
        """The options that the diagnostic's own ``measure`` takes."""
        return self.model_dump(exclude={"kind", "weight", "share"})


class RocCurveOptions(Options):
    """ROC curve with AUC and bands.

    Attributes:
        method: how counts are noised; see the reference of ``spark_jobs.diagnostics.roc_curve``. ``recursive_medians``
            spends delta.
        thresholds: cells of [0, 1] that the curve is released on; None lets the method choose from public facts.
        confidence: nominal level of the band and of the AUC's interval.
        share: whether it may be made from one noisy release together with other diagnostics of the request.
        histogram: what releases the counts of ``fixed_cells`` and ``recursive_medians``, a name of
            ``spark_jobs.mechanisms.histograms``; None for a tree of them, whose noise is known.
    """

    kind: Literal["roc_curve"]
    method: Literal["auto", "tree", "fixed_cells", "equi_depth", "recursive_medians"] = "auto"
    thresholds: Annotated[int, Field(ge=2, le=65536)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9
    share: bool = True
    histogram: (
        Literal["adaptive_grid", "ahp", "dawa", "geometric", "greedy_h", "hb", "laplace", "mwem", "uniform"] | None
    ) = None

    @model_validator(mode="after")
    def _of_the_papers(self) -> Self:
        if self.histogram is not None and self.method not in ("fixed_cells", "recursive_medians"):
            raise RequestRefused(
                "histogram", given=self.histogram, bound="is of method: fixed_cells and recursive_medians",
                remedy="choose one of them, or leave it out",
            )  # fmt: skip
        if self.method == "recursive_medians" and self.thresholds is not None and self.thresholds.bit_count() != 1:
            raise RequestRefused(
                "thresholds", given=self.thresholds, bound="must be a power of two for recursive_medians",
                remedy="ask for 8, 16 or 32",
            )  # fmt: skip
        return self

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "recursive_medians"

    @property
    def sharing(self) -> bool:
        """Whether it is made from counts that it may share."""
        return self.share and self.method == "auto"


class BinnedResidualsOptions(Options):
    """Binned residuals with error bars and a test of fit.

    Attributes:
        method: how bins are placed; see the reference of ``spark_jobs.diagnostics.binned_residuals``.
        bins: bins of the release; None for 20, or 16 of recursive medians, which need a power of two.
        confidence: nominal level of intervals and zones.
        share: whether it may be made from one noisy release together with other diagnostics of the request.
    """

    kind: Literal["binned_residuals"]
    method: Literal["auto", "recursive_medians", "fixed_bins"] = "auto"
    bins: Annotated[int, Field(ge=2, le=256)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    share: bool = True

    @property
    def sharing(self) -> bool:
        """Whether it is made from counts that it may share."""
        return self.share and self.method == "auto"


class CalibrationOptions(Options):
    """Reliability diagram with the Hosmer-Lemeshow test and the expected calibration error.

    Attributes:
        method: how groups are placed; see the reference of ``spark_jobs.diagnostics.calibration``.
        bins: groups of the release; None for 10, or 8 of recursive medians, which need a power of two.
        confidence: nominal level of intervals and zones.
        share: whether it may be made from one noisy release together with other diagnostics of the request.
    """

    kind: Literal["calibration"]
    method: Literal["auto", "recursive_medians", "fixed_bins"] = "auto"
    bins: Annotated[int, Field(ge=2, le=256)] | None = None
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    share: bool = True

    @property
    def sharing(self) -> bool:
        """Whether it is made from counts that it may share."""
        return self.share and self.method == "auto"


class AucOptions(Options):
    """Area under the ROC curve.

    Attributes:
        method: how noise is scaled; see the reference of ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        interval: whether to pay a small part for noisy class sizes, without which no interval can be given.
        confidence: nominal level of the interval.
    """

    kind: Literal["auc"]
    method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] = "auto"
    interval: bool = True
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "laplace"


class AveragePrecisionOptions(Options):
    """Average precision: the area under the precision-recall curve, by steps.

    Attributes:
        method: how noise is scaled; see the reference of ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        interval: whether to pay a small part for noisy class sizes, without which no interval can be given.
        confidence: nominal level of the interval.
    """

    kind: Literal["average_precision"]
    method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] = "auto"
    interval: bool = True
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "laplace"


class BinormalRocOptions(Options):
    """Symmetric binormal ROC curve through a private AUC.

    Attributes:
        method: how the AUC is released; see the reference of ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        points: points of the curve.
        confidence: nominal level of the band.
    """

    kind: Literal["binormal_roc"]
    method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] = "auto"
    points: Annotated[int, Field(ge=2, le=65536)] = 201
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @property
    def approximate(self) -> bool:
        """Whether it spends delta."""
        return self.method == "laplace"


class ConfusionMatrixOptions(Options):
    """Confusion matrices at given thresholds, with the rates that follow from them.

    Attributes:
        thresholds: a row counts as positive if its score is at least this; from 0 to 1, ascending.
        confidence: nominal level of the intervals.
    """

    kind: Literal["confusion_matrix"]
    thresholds: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1, max_length=100)] = (0.5,)
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.9

    @field_validator("thresholds")
    @classmethod
    def _ascending(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(high <= low for low, high in pairwise(value)):
            raise RequestRefused(
                "", given=list(value), bound="must ascend", remedy="sort the thresholds and name each once"
            )
        return value


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
                "bounds", given=list(self.bounds), bound="must be two numbers in ascending order",
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


DIAGNOSTICS: dict[str, type[Options]] = {
    "roc_curve": RocCurveOptions,
    "auc": AucOptions,
    "average_precision": AveragePrecisionOptions,
    "binormal_roc": BinormalRocOptions,
    "confusion_matrix": ConfusionMatrixOptions,
    "binned_residuals": BinnedResidualsOptions,
    "calibration": CalibrationOptions,
    "ecdf": EcdfOptions,
}
"""Every kind a request may name, with its options. A new diagnostic adds its line here."""
