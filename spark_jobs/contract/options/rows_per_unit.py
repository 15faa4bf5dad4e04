"""A bound on the rows of a unit, chosen privately so that few units have more: options, statistic and result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure import figure
from spark_jobs.contract.options.aggregates import AggregateCells, entries_by
from spark_jobs.contract.options.base import Options, RequestContext, Settings
from spark_jobs.contract.options.dimensions import Dimension
from spark_jobs.contract.options.row_bound import MAX_ROWS
from spark_jobs.contract.published import Result
from spark_jobs.contract.result_checks import ResultCheck, finite, whole


def candidates_up_to(largest: int) -> tuple[int, ...]:
    """The candidates for a bound: 1, 2, 3, 4, 6, 8, 12, 16 and so on below ``largest``, and ``largest``."""
    steps = sorted({1 << power for power in range(20)} | {3 << power for power in range(19)})
    return (*(rows for rows in steps if rows < largest), largest)


class UnitRowCells(AggregateCells):
    """The statistic of units by their numbers of rows: a cell for each candidate, and one for units with more rows.

    Attributes:
        by: dimensions; only rows with a group in each of them count.
        largest: the largest candidate.
    """

    largest: Annotated[int, Field(ge=1, le=MAX_ROWS)]

    @property
    def candidates(self) -> tuple[int, ...]:
        """The bounds that may be chosen, ascending."""
        return candidates_up_to(self.largest)

    @property
    def cells(self) -> int:
        """The number of cells: a unit is in that of the smallest candidate not below its rows, or in the last."""
        return len(self.candidates) + 1

    @property
    def max_keys(self) -> int:
        """The number of counts: one for each cell."""
        return self.cells


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsPerUnit(Result):
    """A chosen bound on the rows of a unit.

    Attributes:
        bound: the bound.
        largest: the largest bound that could have been chosen.
        units_above: how many units the choice allows to have more rows than the bound.
        tolerance: how many further units may have more rows, because the choice is noisy; rarely more do.
        status: ``ok``: a bound is always chosen.
    """

    bound: int = figure("the bound", limits=(1, None), headline="rows of a unit, at most")
    largest: int
    units_above: int
    tolerance: int

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        whole("bound", "largest", "units_above", "tolerance"),
        finite("bound", "largest", low=1),
        finite("units_above", "tolerance", low=0),
    )


class RowsPerUnitSettings(Settings):
    """The aim of the choice of a bound.

    Attributes:
        units_above: how many units may have more rows than the bound. For a table of counts by group, a good value is
            about the number of groups divided by the epsilon of the counts.
    """

    units_above: Annotated[int, Field(ge=0, le=10**12)]


class RowsPerUnitOptions(RowsPerUnitSettings, Options):
    """A bound on the rows of a unit, chosen under differential privacy, for a later table's ``max_rows``.

    Attributes:
        largest: the largest bound that may be chosen, at most ``unit.max_rows``.
        by: dimensions of the table that the bound is for; rows without a group in one of them do not count.
    """

    result: ClassVar[type[Result]] = RowsPerUnit
    kind: Literal["rows_per_unit"] = "rows_per_unit"
    largest: int
    by: tuple[Dimension, ...] = ()

    @field_validator("by", mode="before")
    @classmethod
    def _dimensions(cls, value: Any) -> Any:
        return entries_by("column", value)

    @field_validator("largest")
    @classmethod
    def _of_rows(cls, value: int) -> int:
        if not 1 <= value <= MAX_ROWS:
            raise InvalidRequest(
                "",
                value,
                f"must be a whole number from 1 to {MAX_ROWS}",
                "give the largest number of rows of a unit that may be used",
            )
        return value

    @property
    def statistic(self) -> UnitRowCells:
        """The numbers of units by their numbers of rows."""
        return UnitRowCells(by=self.by, largest=self.largest)

    @property
    def used_rows(self) -> int:
        """1: a unit counts once, however many rows it has."""
        return 1

    @property
    def of_unit_totals(self) -> bool:
        """True: a unit counts once, with all its rows."""
        return True

    def check(self, request: RequestContext) -> None:
        """Refuse a choice if every row is a unit, ``largest`` exceeds the account's bound, or keys are discovered."""
        if request.unit.column is None:
            raise InvalidRequest(
                "unit.column", None, "is required by rows_per_unit, because a unit without a column is a single row",
                "name the column that identifies the unit",
            )  # fmt: skip
        if self.largest > request.unit.max_rows:
            raise InvalidRequest(
                "largest", self.largest, f"must be at most unit.max_rows, which is {request.unit.max_rows}",
                "lower it, or use an account that allows more rows of a unit",
            )  # fmt: skip
        discovered = [one.column for one in self.by if one.keys is not None]
        if discovered:
            raise InvalidRequest(
                "by",
                discovered[0],
                "must have public groups, and not keys: discover",
                "list the values of this dimension",
            )


KINDS: tuple[type[Options], ...] = (RowsPerUnitOptions,)
