"""A released table of counts and figures of numbers by public dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.contract.figure import Ends, Numbers, figure
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.published import PublishedFields, Result, nested
from spark_jobs.contract.result_checks import Fields, ResultCheck, among, finite

if TYPE_CHECKING:
    from spark_jobs.arrays import FloatArray


R_SQUARED = "r2"
"""The figure that a cell may lack although it has others."""
UNBIASED = ("sum", "units")
"""The figures that weak cells have, too."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Aggregate(PublishedFields):
    """A figure, such as the mean of a column, in every cell of a table.

    Attributes:
        name: ``mean``, ``sum``, ``variance``, ``sd`` (standard deviation), a quantile, or ``units`` (distinct units);
            for errors ``mae``, ``rmse``, ``bias``, ``r2`` or ``pinball_LEVEL``; ``interval_coverage``. A variance is
            the sum of squared deviations divided by the number of rows.
        of: the column or expression; for ``units``, the unit's column.
        bounds: public bounds to which the values of the number are clipped.
        values: the figure in each cell, in the order of ``AggregateTable.status``. In a ``weak`` cell the figure is
            NaN, unless it is a sum or ``units``. An ``r2`` is also NaN where the outcome hardly varies. Intervals are
            for the same rows without noise. A mean, a ``bias`` and a ``mae`` also have an interval for the population
            of the rows, if squares of the same number are summed. The interval for the population is NaN in weak cells
            and in cells of fewer than 30 noisy rows; it is published as ``population_lower`` and ``population_upper``.
    """

    name: str
    of: str
    bounds: tuple[float, float]
    values: Numbers = figure(
        "of each cell", "interval",
        split=True, stem="", value="values", nullable=True, optional=("interval",), forecast=False,
    )  # fmt: skip

    def published(self) -> dict[str, Any]:
        """The published fields; without intervals for a population, their fields are absent."""
        ends = self.values.population
        of_population = {} if ends is None else {f"population_{end}": getattr(ends, end) for end in Ends._fields}
        return super().published() | of_population


def _of_every_cell() -> ResultCheck:
    """Measures have a number for each cell, and all but sums and units are null exactly where a cell is weak."""

    def broken(result: Fields) -> Iterator[str]:
        status = result["status"]
        for one in result["measures"]:
            if {len(one[name]) for name in ("values", "lower", "upper")} != {len(status)}:
                yield "measures have a number for each cell"
            weak = [one["name"] not in UNBIASED and cell == WEAK for cell in status]
            null = [value is None for value in one["values"]]
            other = [missing != expected for missing, expected in zip(null, weak, strict=False)]
            if one["name"] == R_SQUARED:  # which a cell may lack that is not weak
                other = [expected and not missing for missing, expected in zip(null, weak, strict=False)]
            if any(other):
                yield "figures but sums and units are null where status is weak and nowhere else"
            yield from _of_population(one, status)
            if None in one["lower"]:
                yield "every measure has an interval"
        if result["incomplete"] is not None and len(result["incomplete"]) != len(status):
            yield "incomplete has a number for each cell"

    return ResultCheck(names=("status", "measures", "incomplete"), broken=broken)


def _of_population(one: Fields, status: Sequence[str]) -> Iterator[str]:
    """Intervals for a population contain those of the rows, and weak cells have none."""
    if "population_lower" not in one:
        return
    four = (one["population_lower"], one["lower"], one["upper"], one["population_upper"])
    if len(set(map(len, four))) > 1:
        yield "measures have an interval for a population for each cell"
        return
    ends = list(zip(*four, strict=True))
    known = [None not in cell for cell in ends]
    if len(ends) != len(status) or any(some and cell == WEAK for some, cell in zip(known, status, strict=True)):
        yield "only cells that are not weak have intervals for a population"
    if any(list(cell) != sorted(cell) for cell, some in zip(ends, known, strict=True) if some):
        yield "intervals for a population contain those of the rows"


def _product_of_keys() -> ResultCheck:
    def broken(result: Fields) -> Iterator[str]:
        cells = 1
        for labels in result["keys"]:
            cells *= len(labels)
        if cells != len(result["status"]) or len(result["keys"]) != len(result["by"]):
            yield "there is a cell for each combination of keys"

    return ResultCheck(names=("keys", "by", "status"), broken=broken)


@dataclass(frozen=True, kw_only=True, eq=False)
class CellsOfTable(PublishedFields):
    """The cells of a table, numbered with the last dimension running fastest.

    Intervals are for the same rows without noise and hold for cells of any size, empty ones too. Their level is that
    over all cells, not over cells picked for their released figures. Only intervals for a population account for the
    sampling of the rows.

    Attributes:
        by: names of the dimensions.
        keys: labels of each dimension's groups.
        status: status of each cell: ``ok``, or ``weak`` if its noisy count is below ``ok_from``. A weak cell has its
            count, sums, numbers of units and the intervals for the same rows, but no other figure.
        ok_from: the noisy count from which a cell is ``ok``; public. With probability 95% no empty cell reaches it.
        count: noisy number of rows with a value of every measure; it is unbiased, and so may be below 0.
        incomplete: noisy number of rows without a value of one of the measures; None if there are no measures.
        rows: noisy number of all rows in the table: the sum over its cells.
        measures: the figures of all cells.
    """

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        among("status", values=(OK, WEAK)),
        finite("ok_from"),
        finite("incomplete", nullable=True),
        _product_of_keys(),
        _of_every_cell(),
    )

    status: tuple[str, ...]
    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    ok_from: float
    count: Numbers = figure("number of rows", "interval", axis="status")
    incomplete: FloatArray | None
    rows: float = figure("number of all rows", headline="rows")
    measures: tuple[Aggregate, ...] = nested(Aggregate, many=True)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.status)

    def of(self, name: str, of: str) -> Aggregate:
        """The figure ``name`` of the column or expression ``of``.

        Raises:
            KeyError: the table does not have it.
        """
        for one in self.measures:
            if (one.name, one.of) == (name, of):
                return one
        raise KeyError(f"{name} of {of}")

    def place(self, *labels: Any) -> int:
        """The index of the cell with these labels: one for each dimension, as text or as in the request."""
        cell = 0
        for label, known in zip(labels, self.keys, strict=True):
            cell = cell * len(known) + known.index(str(label))
        return cell


@dataclass(frozen=True, kw_only=True, eq=False)
class LookedUp(PublishedFields):
    """The public lookup of a dimension.

    Attributes:
        column: the column of the table that contains the lookup's keys.
        lookup: the lookup's name in the account.
        value: the title of the lookup's values, which is the name of the dimension.
        sha256: hash of the lookup's content, as the ledger has registered it.
    """

    column: str
    lookup: str
    value: str
    sha256: str


@dataclass(frozen=True, kw_only=True, eq=False)
class AggregateTable(CellsOfTable, Result):
    """A released table of aggregates, with marginal tables by fewer dimensions that are consistent with it.

    Attributes:
        marginals: the tables of ``AggregatesSettings.marginals``, in the same order.
        released_above: the noisy number of rows above which a key was released, where keys were discovered; public.
            Intervals then hold for the keys that were released, whatever their number of rows, and the interval of a
            ``weak`` cell's mean is the whole range of its bounds. None, and not published, where groups are public.
        min_units: the fewest units with which a key could be released; None, and not published, where groups are
            public.
        lookups: the lookups of its dimensions; not published if there are none.
        rho: the rho that was charged for a row, if the budget is a rho; published in place of epsilon. None if the
            budget is an epsilon.
    """

    ORDER: ClassVar[str] = "by keys ok_from rows confidence epsilon rho neighbours guarantee status count * marginals"
    ARRAYS_LAST: ClassVar[bool] = False

    status: tuple[str, ...]  # type: ignore[assignment]  # of each cell
    marginals: tuple[CellsOfTable, ...] = nested(CellsOfTable, many=True)
    released_above: float | None = None
    min_units: int | None = None
    lookups: tuple[LookedUp, ...] = ()
    rho: Decimal | None = None

    def published(self) -> dict[str, Any]:
        """The published fields, with one cost; those of discovered keys, and of lookups, only where there are some."""
        absent: dict[str, Any] = {"released_above": None, "min_units": None, "lookups": (), "rho": None}
        fields = super().published()
        if self.rho is not None:
            del fields["epsilon"]
        return {name: value for name, value in fields.items() if name not in absent or value != absent[name]}
