"""A released profile of a table: what each of its columns holds, and joint counts of pairs of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spark_jobs.contract.figure import Number, Numbers, figure
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.published import PublishedFields, Result, nested
from spark_jobs.contract.result_checks import ResultCheck, among

_SHARE: tuple[float, float] = (0, 1)
_OF_COLUMN: Mapping[str, Any] = {
    "limits": _SHARE, "nullable": True, "optional": ("interval",), "forecast": False, "inside": ()
}  # fmt: skip
"""What is so of each share of all rows of a column: null where the noise may be all of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnProfile(PublishedFields):
    """What a column holds; intervals are for the same rows without noise.

    Attributes:
        column: the column.
        form: ``values`` if the column's values are listed; otherwise ``numbers`` or ``periods``.
        status: ``ok``, or ``weak`` if noise alone could explain the number of rows: only counts and intervals are then
            given.
        cells: labels of its values, bins or periods.
        count: noisy number of rows of each cell, unbiased: it may be below 0.
        shares: share of all rows in each cell.
        missing: share of all rows without a value: null or NaN.
        unparsed: share of all rows with a text that cannot be read as the column's type.
        outside: share of all rows with a value that is not listed, or beyond the bounds.
        mean: mean of numbers, where a number beyond a bound counts as the bound; None for other forms.
        levels: levels of the quantiles; empty for other forms than numbers.
        quantiles: for each level, the midpoint of the cell in which the distribution function reaches it; intervals end
            at the ends of cells.
    """

    RULES: ClassVar[tuple[ResultCheck, ...]] = (among("status", values=(OK, WEAK)),)

    column: str
    form: str
    status: str
    cells: tuple[str, ...]
    count: Numbers = figure("number of rows", "interval", axis="cells", forecast=False)
    shares: Numbers = figure(
        "share of all rows",
        "interval",
        limits=_SHARE,
        axis="cells",
        nullable=True,
        optional=("interval",),
        forecast=False,
    )
    missing: Number = figure("share of rows without a value", "interval", **_OF_COLUMN)
    unparsed: Number = figure("share of rows with a text that is no value", "interval", **_OF_COLUMN)
    outside: Number = figure("share of rows with another value", "interval", **_OF_COLUMN)
    mean: Number = figure("mean", "interval", nullable=True, optional=("interval",), forecast=False, inside=())
    levels: tuple[float, ...]
    quantiles: Numbers = figure(
        "quantile", "interval", axis="levels", nullable=True, optional=("interval",), forecast=False
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PairProfile(PublishedFields):
    """Joint counts of two columns; rows in no cell of a column are counted under its label ``none``.

    Attributes:
        columns: both columns.
        keys: labels of the cells of each column.
        ok_from: the noisy number of rows below which noise alone could explain a count; public.
        count: noisy number of rows of each pair of cells, unbiased, with the second column running fastest.
    """

    columns: tuple[str, str]
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    ok_from: float
    count: Numbers = figure("number of rows", "interval", split=True, forecast=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile(Result):
    """A released profile of a table.

    Attributes:
        status: status of each column.
        rows: noisy number of all rows, estimated from the counts of all columns together.
        columns: the profile of each column.
        pairs: the joint counts of each requested pair of columns.
    """

    ORDER: ClassVar[str] = "rows * confidence epsilon neighbours guarantee status columns pairs"
    RULES: ClassVar[tuple[ResultCheck, ...]] = (among("status", values=(OK, WEAK)),)

    status: tuple[str, ...]  # type: ignore[assignment]  # of each column
    rows: Number = figure("number of all rows", "interval", headline="rows")
    columns: tuple[ColumnProfile, ...] = nested(ColumnProfile, many=True)
    pairs: tuple[PairProfile, ...] = nested(PairProfile, many=True)
