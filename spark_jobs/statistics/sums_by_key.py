"""Exact rows and sums by keys that are not public: the statistic of tables whose keys are discovered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import BoolArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.aggregates import DiscoverableCells
from spark_jobs.contract.options.dimensions import Dimension
from spark_jobs.contract.options.measures import Measured
from spark_jobs.statistics.aggregate_sums import design_of, places_of
from spark_jobs.statistics.arrays import as_doubles
from spark_jobs.statistics.key_batch import KeyBatch
from spark_jobs.statistics.public_keys import LONGEST_KEY, is_key, is_sound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SumsByKey:
    """Exact rows and sums of each key; private: never released or logged, and ``repr`` omits them.

    A row's key is the text or whole number in the column of the dimension, as text. If this text is missing, empty or
    longer than 255 characters, the row has no key and is not counted. A privacy unit has at most one row in each key.
    Values are read as in ``AggregateSums``. Keys come in batches, so that they need never be in memory together.

    Sensitivity: a row that is added or removed changes, for one key, either ``incomplete`` by 1, or ``rows`` by 1 and
    the sum of each measure by at most the measure's ``steps``; see ``mechanisms.discovered_keys``.

    Args:
        design: the dimension and measures; public.
        batches: a function that reads the keys in batches, in any order; each key is in exactly one batch.

    Raises:
        InvalidRequest: the dimension is not one whose keys are discovered.
    """

    design: DiscoverableCells
    batches: Callable[[], Iterator[KeyBatch]]

    def __post_init__(self) -> None:
        if not isinstance(self.design, DiscoverableCells):
            raise InvalidRequest(
                "by", None, "must be one dimension with keys: discover", "use AggregateSums for public groups"
            )

    @classmethod
    def from_arrays(
        cls,
        columns: Mapping[str, ArrayLike],
        *,
        by: Sequence[Mapping[str, Any] | Dimension],
        measures: Sequence[str | Mapping[str, Any] | Measured] = (),
        unit: ArrayLike | None = None,
    ) -> SumsByKey:
        """The sums over rows that are given as arrays of equal length.

        Args:
            columns: an array for the dimension and each measure, by its name.
            by: the dimension, as in a request.
            measures: the measures, as in a request, but each of a column and not of an expression.
            unit: the unit of each row; of its rows in a key, the first one that has all values counts. None if every
                row is a unit of its own.

        Example:
            >>> sums = SumsByKey.from_arrays({"page": ["a", "b", "a"]}, by=[{"column": "page", "keys": "discover"}])
            >>> batch = next(sums.batches())
            >>> print(*batch.keys, *batch.rows)
            a b 2 1

        Raises:
            InvalidRequest: the dimension or a measure is not valid, or a column is missing, is not of a suitable type,
                or differs in length.
        """
        design = _design(by, measures)
        name = design.dimension.column
        for column in (name, *(measure.of for measure in design.measures)):
            if column not in columns:
                raise InvalidRequest("columns", column, "must be among the columns", "add the column")
        keys = _texts(columns[name], name)
        values = [places_of(as_doubles(columns[one.of], what=one.of), one) for one in design.measures]
        units = np.arange(len(keys)) if unit is None else np.unique(np.asarray(unit), return_inverse=True)[1]
        if {len(keys)} != {len(one) for one in (units, *values)}:
            raise InvalidRequest("columns", None, "must have the same length", "give one value per row")
        batch = _summed(keys, units, np.array(values, dtype=np.int64).reshape(len(values), len(keys)))
        return cls(design=design, batches=lambda: iter([batch]))

    @classmethod
    def from_dataframe(
        cls,
        df: DataFrame,
        *,
        by: Sequence[Mapping[str, Any] | Dimension],
        measures: Sequence[str | Mapping[str, Any] | Measured] = (),
    ) -> SumsByKey:
        """The sums of a DataFrame's rows, each a unit of its own, equal to those of ``from_arrays``.

        Each call of ``batches`` reads the keys, one partition at a time. Measures are columns, as in ``from_arrays``.

        Raises:
            InvalidRequest: the dimension or a measure is not valid, or a column is missing or of an unsuitable type.
        """
        from spark_jobs.statistics.spark.discovered_keys import batches_of_table

        design = _design(by, measures)
        return cls(design=design, batches=batches_of_table(df, design))

    def __repr__(self) -> str:
        return f"SumsByKey(column={self.design.dimension.column!r}, measures={len(self.design.measures)})"


def _design(by: Sequence[Any], measures: Sequence[Any]) -> DiscoverableCells:
    design = design_of(by, measures)
    if not isinstance(design, DiscoverableCells):
        raise InvalidRequest(
            "by", None, "must be one dimension with keys: discover", "use AggregateSums for public groups"
        )
    return design


def _summed(keys: Sequence[str | None], units: Int64Array, places: Int64Array) -> KeyBatch:
    """The sums of one row of each unit in each key, of those with all values if there are any."""
    complete: BoolArray = np.asarray((places >= 0).all(axis=0))
    rows: dict[tuple[str, int], int] = {}
    for row in [*np.flatnonzero(complete).tolist(), *np.flatnonzero(~complete).tolist()]:
        key = keys[row]
        if key is not None:
            rows.setdefault((key, int(units[row])), row)
    kept, listed = np.array(list(rows.values()), dtype=np.int64), tuple(sorted({key for key, _ in rows}))
    number = {key: place for place, key in enumerate(listed)}
    cell, usable = np.array([number[key] for key, _ in rows], dtype=np.int64), complete[kept]
    sums = np.zeros((len(places), len(listed)), dtype=np.int64)
    for total, values in zip(sums, places, strict=True):
        np.add.at(total, cell[usable], values[kept[usable]])
    counts = [np.bincount(cell[of], minlength=len(listed)) for of in (usable, ~usable)]
    return KeyBatch(keys=listed, rows=counts[0], incomplete=counts[1], sums=sums)


def _texts(values: ArrayLike, column: str) -> list[str | None]:
    """The key of each row; None for a row in no key."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iuUO"):
        raise InvalidRequest(
            column, f"{array.ndim} dimensions of {array.dtype}", "must be one column of texts or whole numbers",
            "convert the column first",
        )  # fmt: skip
    texts = (str(value) if is_key(value) else None for value in array.tolist())
    return [text if text is not None and 1 <= len(text) <= LONGEST_KEY and is_sound(text) else None for text in texts]
