"""A released profile of a table: what each of its columns holds, and tables of two of them."""

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
        form: ``values`` that are listed, ``numbers``, or ``periods``.
        status: ``ok``, or ``weak`` if the noise may be all of its rows: it then has counts and intervals alone.
        cells: labels of its values, bins or periods.
        count: noisy number of rows of each cell, unbiased: it may be below 0.
        shares: share of all rows in each cell.
        missing: share of all rows without a value: null or NaN.
        unparsed: share of all rows with a text that is no value of the column's type.
        outside: share of all rows with a value that is not listed, or beyond the bounds.
        mean: of numbers, those beyond the bounds as the bounds; None for others.
        levels: of the quantiles; none for others than numbers.
        quantiles: the middle of the cell in which the share of rows at or below reaches the level; intervals end at the
            ends of cells.
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
    """The rows of two columns' values together, the second running fastest; ``none`` has those in no cell of one.

    Attributes:
        columns: both columns.
        keys: labels of the cells of each.
        ok_from: the noisy number of rows below which the noise may be all that is there; public.
        count: noisy number of rows, unbiased.
    """

    columns: tuple[str, str]
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    ok_from: float
    count: Numbers = figure("number of rows", "interval", split=True, forecast=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile(Result):
    """A released profile.

    Attributes:
        status: of each column.
        rows: noisy number of all rows, from all columns together.
        columns: what each holds.
        pairs: the tables of two columns.
    """

    ORDER: ClassVar[str] = "rows * confidence epsilon neighbours guarantee status columns pairs"
    RULES: ClassVar[tuple[ResultCheck, ...]] = (among("status", values=(OK, WEAK)),)

    status: tuple[str, ...]  # type: ignore[assignment]  # of each column
    rows: Number = figure("number of all rows", "interval", headline="rows")
    columns: tuple[ColumnProfile, ...] = nested(ColumnProfile, many=True)
    pairs: tuple[PairProfile, ...] = nested(PairProfile, many=True)
