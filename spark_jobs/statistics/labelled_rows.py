"""Rows with a label, for logistic models: each pass computes gradient and Hessian sums at given coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.options.fits import COEFFICIENT_STEPS, ROUNDING, Bounded, LabelledRowCells, Levels
from spark_jobs.statistics.cross_products import lattice_rows
from spark_jobs.statistics.lattice import LATTICE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NewtonSums:
    """The exact gradient and Hessian of a logistic log likelihood at public coefficients; private.

    Attributes:
        gradient: the sum of ``(y - p) z``, in units of ``1 / ROUNDING`` of a lattice step, rounded row by row; shape
            (size,).
        hessian: the sum of ``(p (1 - p) z) z^T``, whose first factor is rounded in the same way; shape (size, size).
    """

    gradient: Int64Array
    hessian: Int64Array


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelledRows:
    """Rows of features with a label 0 or 1, over which gradients and Hessians are summed; private: ``repr`` omits them.

    A row is a label and a vector z of lattice steps, as in ``CrossProducts`` but without an outcome. Rows are read by
    the same rule; a row whose label is neither 0 nor 1 is not counted.

    Sensitivity, with proof: see ``mechanisms.newton_pass``. Nothing overflows below 2^37 rows: an entry of the Hessian
    is at most 2^26 per row.

    Attributes:
        design: features and levels; public.
        sums_at: a function from coefficients, in multiples of ``1 / COEFFICIENT_STEPS``, to ``NewtonSums``; each call
            is a pass over the rows.
    """

    design: LabelledRowCells
    sums_at: Callable[[Int64Array], NewtonSums]

    @classmethod
    def from_arrays(
        cls, columns: Mapping[str, ArrayLike], label: ArrayLike, *, design: LabelledRowCells
    ) -> LabelledRows:
        """The rows given as arrays of equal length, of numbers, booleans, or objects that may be None.

        Args:
            columns: an array for each feature and categorical column of the design, by its name; levels may be texts.
            label: labels 0 and 1.
            design: features and levels.

        Example:
            >>> design = LabelledRowCells(features=(Bounded(name="x", lower=0, upper=2),))
            >>> found = LabelledRows.from_arrays({"x": [0, 2, 2, None]}, [0, 1, 1, 1], design=design)
            >>> (found.sums_at(np.array([0, 0])).gradient / 2**16).tolist()
            [0.5, 1.5]

        Raises:
            InvalidRequest: a column is missing, is not numeric, or differs in length.
        """
        rows = lattice_rows(columns, label, design=design)
        return cls(design=design, sums_at=lambda position: _sums(rows, position))

    @classmethod
    def from_dataframe(cls, df: DataFrame, *, design: LabelledRowCells, label: str = "label") -> LabelledRows:
        """The rows of a DataFrame; sums equal those of ``from_arrays``, by one pass of Spark for each.

        Args:
            df: the table; here a feature of the design must be a column, not an expression.
            design: features and levels.
            label: the column of the label, boolean or numeric.

        Raises:
            InvalidRequest: a column is missing or has an unsuitable type.
        """
        from spark_jobs.statistics.spark.cross_products import table_rows
        from spark_jobs.statistics.spark.labelled_rows import newton_sums

        rows, name = table_rows(df, design=design, label=label)
        return cls(design=design, sums_at=lambda position: NewtonSums(**newton_sums(rows, name, position)))

    def __repr__(self) -> str:
        return f"LabelledRows(terms={self.design.terms})"


def _sums(rows: FloatArray, position: Int64Array) -> NewtonSums:
    size = rows.shape[1] - 1
    gradient, hessian = np.zeros(size, dtype=np.int64), np.zeros((size, size), dtype=np.int64)
    for start in range(0, len(rows), _AT_ONCE):
        z, positive = rows[start : start + _AT_ONCE, :-1], rows[start : start + _AT_ONCE, -1] > 0
        # whole numbers below 2^53, which doubles represent exactly
        predictor = z @ position / (float(LATTICE) * COEFFICIENT_STEPS)
        with np.errstate(over="ignore"):
            up, down = 1.0 / (1.0 + np.exp(-predictor)), 1.0 / (1.0 + np.exp(predictor))
        error = np.where(positive, down, -up)
        gradient += _rounded(error[:, None] * z).sum(axis=0).astype(np.int64)
        hessian += (_rounded((up * down)[:, None] * z).T @ z).astype(np.int64)
    return NewtonSums(gradient=gradient, hessian=hessian)


def _rounded(values: FloatArray) -> FloatArray:
    whole: FloatArray = np.floor(values * ROUNDING + 0.5)
    return whole


__all__ = ["Bounded", "LabelledRowCells", "LabelledRows", "Levels", "NewtonSums"]
