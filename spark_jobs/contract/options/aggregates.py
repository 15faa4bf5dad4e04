"""Figures by public dimensions: their options, and the exact sums that they are computed from."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, ClassVar, Literal, Self

from pydantic import SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.aggregate_settings import AggregatesSettings
from spark_jobs.contract.options.base import Options, RequestContext, Statistic
from spark_jobs.contract.options.dimensions import MIN_UNITS, Dimension
from spark_jobs.contract.options.measures import (
    LATTICE_OF_UNITS,
    Measured,
    Term,
    ValueLine,
    counts_units,
    terms_of,
    value_lines,
)
from spark_jobs.contract.options.metrics import in_full
from spark_jobs.contract.options.row_bound import (
    OF_ROWS,
    RowBoundOptions,
    require_group_bound,
    require_within_unit,
    rows_of,
)
from spark_jobs.contract.options.unit_totals import require_totals, require_unit
from spark_jobs.contract.privacy import GroupBound, float_below
from spark_jobs.contract.published import Result
from spark_jobs.contract.results.aggregates import AggregateTable

MAX_DIMENSIONS, MAX_CELLS, MAX_MEASURES = 4, 1_000_000, 20
MAX_NUMBERS, MAX_RELEASED = 400_000, 100_000
"""The most figures of all cells together, where there are others than counts, and the most keys that are released: the
driver then needs less than 1 GiB, as it does for counts alone of ``MAX_CELLS``."""
NUMBERS_OF_QUANTILE = 8
"""As how many figures a quantile counts there: counts around it are drawn for its interval."""
MAX_VALUE_CELLS, ALL_VALUE_CELLS = 2**15, 2**23
"""The most cells in which the values of a measure with quantiles are counted, within a cell of the table, and the most
of all measures and cells together, of which the driver holds those with a row. By ``MAX_NUMBERS`` a measure has room
for 128 of them in the largest table."""


class AggregateCells(Statistic):
    """The statistic of a table of aggregates: rows and sums by cell (``statistics.AggregateSums``).

    A cell is one group of each dimension. Cells are numbered with the last dimension running fastest.

    Attributes:
        by: the dimensions; without any, all rows are one cell.
        measures: the numbers that are summed.
    """

    kind: Literal["aggregates"] = "aggregates"
    remedy_for_size: ClassVar[str] = "list fewer groups, or fewer measures"
    by: tuple[Dimension, ...] = ()
    measures: tuple[Measured, ...] = ()

    @property
    def cells(self) -> int:
        """The number of cells."""
        return math.prod(len(dimension.labels) for dimension in self.by)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The sums that are computed in each cell, in order."""
        return terms_of(self.measures)

    @property
    def value_lines(self) -> tuple[ValueLine, ...]:
        """For each measure with quantiles, the bins in which its values are counted within every cell of the table.

        Their number follows from the request alone: a power of two, unless a measure has fewer values.
        """
        room = ALL_VALUE_CELLS // (self.cells * max(sum(bool(one.quantiles) for one in self.measures), 1))
        limit = min(MAX_VALUE_CELLS, 1 << max(room.bit_length() - 1, 0))
        return value_lines(self.measures, limit)

    @property
    def cell_keys(self) -> int:
        """The number of keys of rows: of those with all measures by cell, and then, if there are any, of others."""
        return self.cells * (2 if self.measures else 1)

    @property
    def value_keys(self) -> int:
        """The number of counts of values; they are numbered measure by measure, and within each cell by cell."""
        return self.cells * sum(line.cells for line in self.value_lines)

    @property
    def of_units(self) -> int | None:
        """The index of the measure that counts distinct units; None if no measure does."""
        return next((number for number, measure in enumerate(self.measures) if measure.counts_units), None)

    @property
    def max_keys(self) -> int:
        """The number of counts and sums: for each cell its rows with and without all measures, and all its sums.

        Counts of values, for quantiles, are added.
        """
        return self.cells * (2 + len(self.terms)) + self.value_keys


class DiscoverableCells(AggregateCells):
    """The statistic of a table whose keys are discovered: rows and sums by key (``statistics.SumsByKey``)."""

    remedy_for_size: ClassVar[str] = "ask for fewer measures"

    @property
    def dimension(self) -> Dimension:
        """The dimension whose keys are discovered."""
        return self.by[0]

    @property
    def min_units(self) -> int:
        """The fewest units with which a key can be released."""
        return self.dimension.min_units or MIN_UNITS

    @property
    def max_released(self) -> int:
        """The most keys that are released; if more qualify, those with the largest noisy numbers of rows."""
        return min(MAX_RELEASED, MAX_NUMBERS // (1 + sum(len(measure.figures) for measure in self.measures)))

    @property
    def max_keys(self) -> int:
        """The number of counts and sums: for each released key, rows with and without all measures, and sums."""
        return self.max_released * (2 + len(self.terms))


class AggregatesOptions(AggregatesSettings, RowBoundOptions):
    """Counts and figures of numbers by up to four public dimensions, with intervals for groups of any size.

    Attributes:
        by: the dimensions: columns with a domain, or with their values, edges of bins or calendar periods. The cells of
            the table are all combinations of their groups; without dimensions, there is one cell of all rows. If keys
            are discovered, which spends a delta, there is only one dimension.
        measures: the numbers whose means, sums, variances and standard deviations are released: columns with a domain,
            columns and expressions with their bounds, or an outcome with its prediction, whose errors are measured.
            Rows are always counted; rows without a value of one of the measures are counted separately.
        max_groups: the most cells in which one unit is used; a secret order chooses these cells. None bounds only the
            rows of a unit. With discovered keys, the most keys of one unit, which has one row in each; noise may then
            be Gaussian.
        max_rows_per_group: with ``max_groups``, the most rows of one unit that are used in one cell. The product of
            ``max_groups`` and ``max_rows_per_group`` is at most ``unit.max_rows``; the noise is calibrated to this
            product.
        unit_totals: with ``max_groups``, whether a unit counts once in each of its cells, with the totals of all its
            values there. The bounds of measures then apply to these totals, and counts are numbers of units.
    """

    result: ClassVar[type[Result]] = AggregateTable
    kind: Literal["aggregates"] = "aggregates"
    by: tuple[Dimension, ...] = ()
    measures: tuple[Measured, ...] = ()
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    unit_totals: bool | None = None

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # a request without these fields has the hash that it had before the fields existed
        given: dict[str, Any] = handler(self)
        later = ("max_groups", "max_rows_per_group", "unit_totals", "weights", *OF_ROWS)
        kept = {name: value for name, value in given.items() if name not in later or value is not None}
        return kept if self.method != "auto" else {name: kept[name] for name in kept if name != "method"}

    @field_validator("by", mode="before")
    @classmethod
    def _dimensions(cls, value: Any) -> Any:
        return entries_by("column", value)

    @field_validator("measures", mode="before")
    @classmethod
    def _measures(cls, value: Any) -> Any:
        entries = in_full(entries_by("of", value))
        if isinstance(entries, list):
            entries = [{**LATTICE_OF_UNITS, **entry} if counts_units(entry) else entry for entry in entries]
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("bounds") is None:
                raise InvalidRequest(
                    f"{entry.get('of')}.bounds", None, "is required, because the account declares no domain for this "
                    "number",
                    "give public bounds, such as [0, 5000], or have a domain declared: `dp-budget domains`",
                )  # fmt: skip
        return entries

    @model_validator(mode="after")
    def _of_a_size(self) -> Self:
        for name, entries, limit in (("by", self.by, MAX_DIMENSIONS), ("measures", self.measures, MAX_MEASURES)):
            columns = [getattr(entry, "of" if name == "measures" else "name") for entry in entries]
            if len(columns) > limit:
                raise InvalidRequest(name, len(columns), f"must be at most {limit}", "split the request")
            for column in columns:
                if columns.count(column) > 1:
                    raise InvalidRequest(name, column, "must be listed only once", "remove the repeated entry")
        self._require_outcomes()
        if self.discovers and (len(self.by) > 1 or self.marginals):
            raise InvalidRequest(
                "by", [dimension.column for dimension in self.by],
                "must be a single dimension, without marginals, if its keys are discovered",
                "leave the other dimensions and the marginals out; or discover the keys first, register them as the "
                "column's domain, and request the whole table afterwards",
            )  # fmt: skip
        if self.discovers and not all({"mean", "sum"}.issuperset(measure.figures) for measure in self.measures):
            raise InvalidRequest(
                "measures", [measure.of for measure in self.measures],
                "must have no figures other than mean and sum if keys are discovered, because the count is then a "
                "number of units",
                "leave figures out, or discover the keys, register them, and request the other figures for the "
                "registered keys",
            )  # fmt: skip
        if self.discovers and (self.max_rows_per_group is not None or self.unit_totals):
            name = "unit_totals" if self.unit_totals else "max_rows_per_group"
            raise InvalidRequest(
                name, getattr(self, name), "must be left out if keys are discovered: a unit has one row in each key",
                f"leave {name} out: max_groups alone is the largest number of keys of a unit",
            )  # fmt: skip
        sizes = [len(dimension.labels) for dimension in self.by]
        cells = sum(math.prod(sizes[one] for one in table) for table in self.tables(self.by))
        quantiles = sum(len(measure.quantiles) for measure in self.measures)
        figures = 1 + sum(len(measure.figures) for measure in self.measures) + (NUMBERS_OF_QUANTILE - 1) * quantiles
        limit = MAX_CELLS if figures == 1 else MAX_NUMBERS // figures
        if cells > limit:
            raise InvalidRequest(
                "by", f"{cells:,} cells",
                f"must make at most {limit:,} cells with {figures} figures in each"
                + (f", each quantile counting as {NUMBERS_OF_QUANTILE}" if quantiles else ""),
                "list fewer values, or leave out a dimension or a figure",
            )  # fmt: skip
        return self

    def _require_outcomes(self) -> None:
        """Refuse an ``r2`` without the spread of its outcome."""
        spread = {one.of for one in self.measures if "square" in one.powers and "value" in one.powers}
        for one in self.measures:
            if "r2" in one.figures and one.outcome not in spread:
                raise InvalidRequest(
                    "measures", one.outcome, "must also be requested as a measure whose figures contain sd, because r2 "
                    "compares the errors with the spread of the outcome",
                    "give outcome, prediction, bounds and largest_error, and leave `of` out: the measure of the "
                    "outcome is then added",
                )  # fmt: skip

    def check_for_silos(self) -> None:
        """Reject numbers that silos cannot add up, or whose noise is drawn jointly and so cannot be a sum of shares.

        Raises:
            InvalidRequest: there is more than one measure, or a variance; or an option needs all rows of a unit in one
                place; or keys are discovered.
        """
        if self.discovers:
            raise InvalidRequest(
                "by", self.by[0].column, "must have public groups in a federation, because no silo sees the keys of "
                "the other silos",
                "list the values on which all silos have agreed",
            )  # fmt: skip
        if self.max_rows is not None:
            raise InvalidRequest(
                "max_rows",
                None,
                "must be left out in a federation, because the silos have agreed on the account's bound",
                "leave it out",
            )
        if self.group_bound is not None:
            raise InvalidRequest(
                "max_groups", None,
                "must be left out in a federation, because a unit may have rows in several silos",
                "leave it out, or pool the tables",
            )  # fmt: skip
        if any(measure.counts_units for measure in self.measures):
            raise InvalidRequest(
                "measures", None,
                "must not count units in a federation, because a unit may have rows in several silos",
                "count rows, or pool the tables",
            )  # fmt: skip
        for measure in self.measures:
            if measure.quantiles:
                raise InvalidRequest(
                    "measures", f"{measure.quantiles[0]} of {measure.of}",
                    "must not be a quantile in a federation, because silos add up sums, and a quantile is not a sum",
                    "request quantiles at one silo, or pool the tables",
                )  # fmt: skip
        if len(terms_of(self.measures)) > 1:
            raise InvalidRequest(
                "measures", [f"{name} of {one.of}" for one in self.measures for name in one.figures][:8],
                "must be at most the mean and the sum of one number in a federation, because each silo draws its noise "
                "separately",
                "request one measure at a time, or pool the tables",
            )  # fmt: skip

    @model_validator(mode="after")
    def _of_few_groups(self) -> Self:
        once = self.discovers or bool(self.unit_totals)
        require_group_bound(self.max_groups, self.max_rows_per_group, once=once)
        if self.unit_totals:
            require_totals(self.max_groups, self.max_rows_per_group, self.measures)
        return self

    @property
    def group_bound(self) -> GroupBound | None:
        """The bounds on the cells of one unit, and on its rows in each; None without ``max_groups``."""
        if (self.discovers or self.unit_totals) and self.max_groups is not None:
            return GroupBound(self.max_groups, 1)
        if self.max_groups is None or self.max_rows_per_group is None:
            return None
        return GroupBound(self.max_groups, self.max_rows_per_group)

    @property
    def noise_bound(self) -> GroupBound | None:
        """That of its groups, or of its rows wherever they are, where the request bounds them."""
        rows = rows_of(self.max_rows)
        return self.group_bound if rows is None else GroupBound(1, rows)

    @property
    def of_unit_totals(self) -> bool:
        """Whether a unit counts once in each of its cells, with the totals of its rows there (``unit_totals``)."""
        return bool(self.unit_totals)

    def check(self, request: RequestContext) -> None:
        """Reject figures of units, and bounds on them, that do not fit the unit of the request."""
        bound, unit = self.group_bound, request.unit
        if self.unit_totals:
            require_unit(unit)
        for measure in self.measures:
            if measure.counts_units and measure.of != unit.column:
                raise InvalidRequest(
                    "measures", measure.of,
                    f"must be the unit's column, which is {unit.column or 'not named'}, if the figure is units",
                    "name the unit's column: distinct values of other columns are not counted",
                )  # fmt: skip
        require_within_unit(bound, unit)
        self.require_row_bound(unit, alone=bound is None and self.max_groups is None and not self.discovers)

    @property
    def statistic(self) -> AggregateCells:
        """Rows and sums by cell, or by key if keys are discovered."""
        return (DiscoverableCells if self.discovers else AggregateCells)(by=self.by, measures=self.measures)

    @property
    def discovers(self) -> bool:
        """Whether keys are discovered, which spends a delta."""
        return any(dimension.keys is not None for dimension in self.by)

    @property
    def approximate(self) -> bool:
        """Whether the table needs a delta, so that a budget without one is rejected."""
        return self.discovers or self.method == "gaussian"

    @property
    def accepts_delta(self) -> bool:
        """Whether the table gets a share of the budget's delta, if there is any."""
        return self.discovers or self.method in ("auto", "gaussian")

    @property
    def accepts_rho(self) -> bool:
        """Whether a budget of rho can pay for it: for Gaussian noise, in groups that are public."""
        of_release = self.max_rows is not None and not isinstance(self.max_rows, int)
        return self.method != "k_norm" and not self.discovers and not of_release

    def check_share(self, epsilon: Decimal, delta: Decimal) -> None:
        """Also reject a delta too large for epsilon to bound what a missing key reveals (``discovered_keys``)."""
        super().check_share(epsilon, delta)
        if self.discovers and -math.log1p(-float_below(delta)) > float(epsilon) / 2:
            raise InvalidRequest(
                "budget.delta", f"{delta:.3g} per row for {self.kind}",
                f"must be at most {-math.expm1(-float(epsilon) / 2):.3g}, 1 - exp(-epsilon / 2)",
                "give a smaller delta, such as '1e-6'",
            )  # fmt: skip


def entries_by(name: str, value: Any) -> Any:
    """One text, or a list of texts and objects, as a list of objects, where a text becomes ``{name: text}``."""
    entries = [value] if isinstance(value, (str, dict)) else value
    if not isinstance(entries, (list, tuple)):
        return value
    return [{name: entry} if isinstance(entry, str) else entry for entry in entries]


KINDS: tuple[type[Options], ...] = (AggregatesOptions,)
