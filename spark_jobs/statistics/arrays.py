"""Columns as arrays, with the conversion that Spark uses: to doubles, where NaN stands for a missing number."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours


class DisjointCounts:
    """Base of statistics that count each row in at most one cell."""

    @staticmethod
    def l1_sensitivity(neighbours: Neighbours) -> int:
        """The largest L1 change of the counts by one row: 1 if it is added or removed, 2 if it is replaced."""
        return 1 if neighbours is Neighbours.ADD_REMOVE else 2


def read_only(array: NDArray[np.integer]) -> Int64Array:
    """A private int64 copy, which the caller cannot modify."""
    copy = array.astype(np.int64)
    copy.flags.writeable = False
    return copy


def as_doubles(values: ArrayLike, *, what: str) -> FloatArray:
    """``values`` as doubles; None, masked elements and objects that are not numbers become NaN.

    Raises:
        InvalidRequest: the array is not one-dimensional, or its type is neither numeric nor boolean nor object.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(object), None)
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidRequest(what, f"{array.ndim} dimensions", "must have one dimension", "give one value per row")
    if array.dtype.kind == "O":
        return np.fromiter(map(_as_double, array), np.float64, count=array.size)
    if array.dtype.kind not in "biuf":
        raise InvalidRequest(what, array.dtype, "must be numbers or booleans", "convert the column first")
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def _as_double(value: object) -> float:
    if not isinstance(value, (Real, Decimal, np.bool_)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except ValueError:  # a signalling NaN
        return math.nan
