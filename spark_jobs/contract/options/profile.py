"""A profile of a table: its options, the cells of each column, and the statistic that Spark counts."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from spark_jobs.contract.calendar import Every
from spark_jobs.contract.domains import moment
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.aggregates import entries_by
from spark_jobs.contract.options.base import CONFIDENCE, Confidence, Options, Settings, Statistic
from spark_jobs.contract.options.dimensions import Dimension
from spark_jobs.contract.options.linear import Keys, require_keys
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.profile import Profile
from spark_jobs.contract.values import Frozen, did_you_mean

MAX_COLUMNS, MAX_PAIRS = 100, 20
MAX_CELLS, MAX_PAIR_CELLS = 100_000, 2_500
"""The most cells of all columns and pairs together, and of one pair."""
PAIR_BINS = 12
"""The most bins of a number, or periods, in a table of two columns."""
OF_NUMBERS = ("below", "above", "missing", "unparsed")
OF_OTHERS = ("other", "missing", "unparsed")
NONE = ("none",)
"""What holds the rows without a value in a listed cell: of a column of numbers, of any other, and in a pair."""
_DECADES = 6
"""How many orders of magnitude a column shows on a scale of logarithms that begins at 0 or below."""
_LENGTHS: dict[Every, int] = {"day": 1, "week": 7, "month": 28, "quarter": 90, "year": 365}


class ProfileColumn(Frozen):
    """A column of a profile and what it may hold: exactly one of listed values, a range of numbers, or a period.

    Attributes:
        column: the column's name.
        values: public values, which are compared with the column as text.
        bounds: public bounds of its numbers; a number beyond a bound counts as that bound.
        step: the step between its numbers, which start at the lower bound; None if any number may occur.
        scale: ``log`` for bins whose ends have equal ratios.
        start, end: the first moment of the period, and the moment at which it ends; UTC.
    """

    column: Annotated[str, Field(min_length=1, max_length=255)]
    values: Keys | None = None
    bounds: tuple[float, float] | None = None
    step: Annotated[float, Field(gt=0)] | None = None
    scale: Literal["log"] | None = None
    start: str | None = None
    end: str | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}

    @field_validator("values", mode="before")
    @classmethod
    def _keys(cls, value: Any) -> Any:
        return value if value is None else require_keys(value)

    @model_validator(mode="after")
    def _of_one_form(self) -> Self:
        given = [one is not None for one in (self.values, self.bounds, self.start)]
        if sum(given) != 1 or (self.start is None) != (self.end is None):
            raise InvalidRequest(
                f"columns.{self.column}", None, "must have values, bounds, or start and end, because the account "
                "declares no domain for the column", "have a domain declared: `dp-budget domains ACCOUNT --set "
                "\"age between 0 and 120\"`",
            )  # fmt: skip
        low, high = self.bounds or (0.0, 1.0)
        if not (math.isfinite(low) and math.isfinite(high) and low < high) or (self.step or 0.0) > high - low:
            raise InvalidRequest(
                f"columns.{self.column}.bounds", [low, high], "must be two numbers in ascending order",
                "give public bounds, such as [0, 120]",
            )  # fmt: skip
        return self

    def dimension(self, bins: int) -> Dimension:
        """The column as a dimension of all its listed values, or of at most ``bins`` bins or periods."""
        if self.values is not None:
            return Dimension(column=self.column, values=self.values, other=False)
        if self.start is None or self.end is None:
            return Dimension(column=self.column, edges=self.edges(bins), other=False)
        days = (moment(self.end) - moment(self.start)).days + 1
        every: Every = next((one for one, length in _LENGTHS.items() if days <= length * (bins - 1)), "year")
        return Dimension(column=self.column, every=every, start=self.start, end=self.end, other=False)

    def edges(self, bins: int) -> tuple[float, ...]:
        """The edges of the bins of its numbers; with a step, edges lie halfway between values."""
        low, high = self.bounds or (0.0, 1.0)
        if self.step is not None:
            values = round((high - low) / self.step) + 1
            whole = math.ceil(values / bins)
            return (*(low + (whole * one - 0.5) * self.step for one in range(math.ceil(values / whole))),
                    high + 0.5 * self.step)  # fmt: skip
        if self.scale == "log" and high > 0:
            first = low if low > 0 else high / 10**_DECADES
            count = bins if low > 0 else bins - 1
            inner = [first * (high / first) ** (one / count) for one in range(count)]
            return (*([] if low > 0 else [low]), *inner, high)
        return (*(low + (high - low) * (one / bins) for one in range(bins)), high)

    def ends(self, bins: int) -> tuple[tuple[float, float], ...]:
        """The smallest and the largest value of each bin of its numbers."""
        pairs = tuple(pairwise(self.edges(bins)))
        if self.step is None:
            return pairs
        low, half = (self.bounds or (0.0, 1.0))[0], self.step / 2
        return tuple(
            (low + round((one + half - low) / self.step) * self.step, low + round((other - half - low) / self.step)
             * self.step) for one, other in pairs
        )  # fmt: skip

    def labels(self, bins: int) -> tuple[str, ...]:
        """The labels of its values, bins or periods; ``outside`` has those of the cells for all other rows."""
        if self.bounds is None:
            return self.dimension(bins).labels
        return tuple(f"{low:.9g}" if low == high else f"{low:.9g} to {high:.9g}" for low, high in self.ends(bins))

    @property
    def outside(self) -> tuple[str, ...]:
        """The labels of the cells for rows in none of its values, bins or periods, such as nulls."""
        return OF_OTHERS if self.bounds is None else OF_NUMBERS


class ProfileCells(Statistic):
    """The statistic of one column or of two together: rows by cell (``statistics.ProfileCounts``).

    Every row is in exactly one cell. Cells of two columns are numbered with the second running fastest.

    Attributes:
        columns: one column, or two.
        bins: the most bins, or periods, of a column.
    """

    kind: Literal["profile"] = "profile"
    remedy_for_size: ClassVar[str] = "name fewer columns"
    columns: Annotated[tuple[ProfileColumn, ...], Field(min_length=1, max_length=2)]
    bins: int

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The labels of all cells of each column."""
        alone = len(self.columns) == 1
        return tuple(one.labels(self.bins) + (one.outside if alone else NONE) for one in self.columns)

    @property
    def max_keys(self) -> int:
        """The number of counts: one for each cell."""
        return math.prod(map(len, self.keys))


class ProfileSettings(Settings):
    """Which figures of each column are released.

    Attributes:
        quantiles: the levels of the quantiles of numbers.
        confidence: nominal level of intervals.
    """

    quantiles: Annotated[tuple[Annotated[float, Field(ge=0.001, le=0.999)], ...], Field(max_length=20)] = (
        0.05, 0.25, 0.5, 0.75, 0.95,
    )  # fmt: skip
    confidence: Confidence = CONFIDENCE


class ProfileOptions(ProfileSettings, Options):
    """What each column of a table holds: shares of nulls and values, histograms, means and quantiles.

    Attributes:
        columns: the columns; names suffice where the account declares domains. All columns with a domain if left out.
        pairs: pairs of columns, which are also counted jointly.
        bins: the most bins of a number, or periods of a time.
    """

    result: ClassVar[type[Result]] = Profile
    kind: Literal["profile"] = "profile"
    columns: Annotated[tuple[ProfileColumn, ...], Field(max_length=MAX_COLUMNS)] = ()
    pairs: Annotated[tuple[tuple[str, str], ...], Field(max_length=MAX_PAIRS)] = ()
    bins: Annotated[int, Field(ge=8, le=256)] = 128

    @field_validator("columns", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return entries_by("column", value)

    @model_validator(mode="after")
    def _of_a_size(self) -> Self:
        names = [one.column for one in self.columns]
        for name in names:
            if names.count(name) > 1:
                raise InvalidRequest("columns", name, "must be listed only once", "remove the repeated column")
        if not names:
            raise InvalidRequest(
                "columns",
                [],
                "must list at least one column in a request without an account",
                "list the columns of the profile",
            )
        for pair in self.pairs:
            for name in pair:
                if name not in names:
                    raise InvalidRequest(
                        "pairs", name, "must be one of the profile's columns: " + ", ".join(names[:30]),
                        f"correct it{did_you_mean(name, names)}",
                    )  # fmt: skip
            if len(set(pair)) == 1 or sum(set(pair) == set(other) for other in self.pairs) > 1:
                raise InvalidRequest(
                    "pairs",
                    list(pair),
                    "must be a pair of two different columns, and must be listed only once",
                    "leave it out",
                )
        for statistic in self.statistics:
            alone = len(statistic.columns) == 1
            if statistic.max_keys > MAX_PAIR_CELLS and not alone:
                raise InvalidRequest(
                    "pairs", [one.column for one in statistic.columns],
                    f"must make at most {MAX_PAIR_CELLS:,} cells, not {statistic.max_keys:,}",
                    "request the pair as aggregates, or name columns with fewer values",
                )  # fmt: skip
        if sum(one.max_keys for one in self.statistics) > MAX_CELLS:
            raise InvalidRequest(
                "columns", len(names), f"must have at most {MAX_CELLS:,} values and bins together", "name fewer columns"
            )
        return self

    @property
    def statistic(self) -> ProfileCells:
        """The counts of the first column."""
        return self.statistics[0]

    @property
    def statistics(self) -> tuple[ProfileCells, ...]:
        """The counts of each column, and of each pair."""
        by_name = {one.column: one for one in self.columns}
        alone = [ProfileCells(columns=(one,), bins=self.bins) for one in self.columns]
        pairs = [ProfileCells(columns=(by_name[one], by_name[other]), bins=PAIR_BINS) for one, other in self.pairs]
        return (*alone, *pairs)


KINDS: tuple[type[Options], ...] = (ProfileOptions,)
