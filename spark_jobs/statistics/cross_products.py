"""Exact sums of products of features and an outcome: the statistic of linear models of several variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.fits import Bounded, CrossProductCells, Levels, level_text
from spark_jobs.statistics.arrays import as_doubles, read_only
from spark_jobs.statistics.lattice import LATTICE, Design

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CrossProducts:
    """The exact matrix ``sum z z^T`` over rows; private: never released or logged, and ``repr`` omits it.

    A row is a vector z of whole numbers from ``-LATTICE`` to ``LATTICE``: the intercept, which is always ``LATTICE``; a
    number for each feature, whose value is clipped to the feature's bounds, mapped linearly to [-1, 1] and rounded to a
    multiple of ``1 / LATTICE``; each categorical column's levels; and the outcome, which is rounded like a feature.
    A column of two levels is one number, ``-LATTICE`` for the first and ``LATTICE`` for the second. A column of more
    levels has a number for each level but the first, which is ``LATTICE`` if the row has that level and 0 otherwise.

    Each row is read by a public rule. Numbers are read as doubles. A row is not counted if a feature or the outcome is
    null or NaN. An infinite value counts as the nearer bound; a level that is not listed, or null, counts as the first.
    No value in the data raises an error.

    Sensitivity: that of a sum of one ``z z^T`` for each row, for a row that is added, removed or replaced; see
    ``mechanisms.moment_matrix`` for the values and the proof. Sums of disjoint sets of rows can be added.

    Args:
        design: features, levels and outcome; public.
        products: the symmetric matrix, of shape (terms, terms); kept as a read-only int64 copy.

    Raises:
        InvalidRequest: the matrix is not symmetric, not of whole numbers, or not of the design's size.
    """

    design: CrossProductCells
    products: Int64Array

    def __post_init__(self) -> None:
        array = np.asarray(self.products)
        size = self.design.terms
        if array.shape != (size, size) or array.dtype.kind not in "iu" or (array != array.T).any():
            raise InvalidRequest(
                "products", None, f"must be a symmetric matrix of whole numbers, {size} by {size}",
                "build the sums with from_arrays",
            )  # fmt: skip
        object.__setattr__(self, "products", read_only(array))

    @classmethod
    def from_arrays(
        cls, columns: Mapping[str, ArrayLike], outcome: ArrayLike, *, design: CrossProductCells
    ) -> CrossProducts:
        """The sums over rows given as arrays of equal length, of numbers, booleans, or objects that may be None.

        Args:
            columns: an array for each feature and categorical column of the design, by its name; levels may be texts.
            outcome: the values of the outcome.
            design: features, levels and outcome.

        Example:
            >>> design = CrossProductCells(
            ...     features=(Bounded(name="x", lower=0, upper=2),), outcome=Bounded(name="y", lower=0, upper=10)
            ... )
            >>> found = CrossProducts.from_arrays({"x": [0, 2, 5, None]}, [10, 0, 5, 5], design=design)
            >>> (found.products // LATTICE**2).tolist()
            [[3, 1, 0], [1, 3, -2], [0, -2, 2]]

        Raises:
            InvalidRequest: a column is missing, is not numeric, or differs in length.
        """
        rows = lattice_rows(columns, outcome, design=design)
        # the sums of a block are whole numbers below 2^53, which doubles represent exactly
        blocks = (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE))
        total = sum(((block.T @ block).astype(np.int64) for block in blocks), np.zeros((design.terms,) * 2, np.int64))
        return cls(design=design, products=total)

    @classmethod
    def from_dataframe(cls, df: DataFrame, *, design: CrossProductCells) -> CrossProducts:
        """The sums of a DataFrame's rows, equal to those of ``from_arrays``, in one pass of Spark.

        Args:
            df: the table; here a feature of the design must be a column, not an expression.
            design: features, levels and outcome.

        Raises:
            InvalidRequest: a column is missing or has an unsuitable type.
        """
        from spark_jobs.statistics.spark.cross_products import sums_of_rows, table_rows

        return cls(design=design, products=sums_of_rows(*table_rows(df, design=design), design))

    def __add__(self, other: CrossProducts) -> CrossProducts:
        """The sums of both sets of rows together.

        Raises:
            InvalidRequest: the designs differ.
        """
        if not isinstance(other, CrossProducts):
            return NotImplemented
        if other.design != self.design:
            raise InvalidRequest("design", None, "must be the same for both", "sum both in one design")
        return CrossProducts(design=self.design, products=self.products + other.products)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CrossProducts):
            return NotImplemented
        return self.design == other.design and np.array_equal(self.products, other.products)

    def __hash__(self) -> int:
        return hash((self.design, self.products.tobytes()))

    def __repr__(self) -> str:
        return f"CrossProducts(terms={self.design.terms})"


def lattice_rows(columns: Mapping[str, ArrayLike], outcome: ArrayLike, *, design: Design) -> FloatArray:
    """The vectors of all rows that count, as whole numbers; their last entry is the outcome, or the sign of a label.

    Raises:
        InvalidRequest: a column is missing, is not numeric, or differs in length.
    """
    numbers = [
        _steps(as_doubles(_given(columns, feature.name), what=feature.name), feature) for feature in design.features
    ]
    levels = [
        np.where(_texts(_given(columns, column.column)) == level, float(LATTICE), float(column.absent) * LATTICE)
        for column in design.categorical
        for level in column.coded_levels
    ]
    value = as_doubles(outcome, what="outcome")
    if isinstance(design, CrossProductCells):
        last = _steps(value, design.outcome)
    else:
        last = np.where(value == 1, float(LATTICE), np.where(value == 0, -float(LATTICE), np.nan))
    if any(values.size != last.size for values in (*numbers, *levels)):
        raise InvalidRequest("columns", None, "must be as long as the outcome", "give one value per row")
    rows = np.stack([np.full(last.size, float(LATTICE)), *numbers, *levels, last], axis=1)
    counted: FloatArray = rows[~np.isnan(rows).any(axis=1)]
    return counted


def _given(columns: Mapping[str, ArrayLike], name: str) -> ArrayLike:
    if name not in columns:
        raise InvalidRequest("columns", name, "must be among the columns", "add the column")
    return columns[name]


def _steps(values: FloatArray, bounds: Bounded) -> FloatArray:
    """Whole numbers from ``-LATTICE`` to ``LATTICE``; NaN stays. The operations round as those of Java do."""
    within = np.clip(values, bounds.lower, bounds.upper)
    steps: FloatArray = np.floor((within - bounds.middle) / bounds.half * LATTICE + 0.5)
    return np.clip(steps, -LATTICE, LATTICE)


def _texts(values: ArrayLike) -> NDArray[np.object_]:
    array = np.asarray(values, dtype=object)
    if array.ndim != 1:
        raise InvalidRequest("columns", None, "must have one dimension", "give one value per row")
    texts = np.empty(array.size, dtype=object)
    texts[:] = [None if value is None else level_text(value) for value in array]
    return texts


__all__ = ["LATTICE", "Bounded", "CrossProductCells", "CrossProducts", "Levels", "lattice_rows"]
