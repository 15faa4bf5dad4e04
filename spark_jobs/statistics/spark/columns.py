"""Input columns of statistics, which are checked against the schema only."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IntegralType,
    NullType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from spark_jobs.contract.errors import InvalidRequest


def numeric_column(df: DataFrame, column: str | Column, what: str) -> Column:
    """``column``, a name or an expression, if the schema says that it is numeric or boolean.

    Raises:
        InvalidRequest: the column is missing or has another type; the field of the error is ``what``.
    """
    return _column(df, column, what, (NumericType, BooleanType, NullType), "numeric or boolean")


def key_column(df: DataFrame, column: str | Column, what: str) -> Column:
    """``column``, if the schema says that it holds texts or whole numbers; otherwise as ``numeric_column``."""
    return _column(df, column, what, (StringType, IntegralType, NullType), "texts or whole numbers")


def level_column(df: DataFrame, column: str | Column, what: str) -> Column:
    """``column``, if the schema says that it holds texts, whole numbers or booleans; else as ``numeric_column``."""
    types = (StringType, IntegralType, BooleanType, NullType)
    return _column(df, column, what, types, "texts, whole numbers or booleans")


def time_column(df: DataFrame, column: str | Column, what: str) -> Column:
    """``column``, if the schema says that it holds timestamps or dates; otherwise as ``numeric_column``."""
    return _column(df, column, what, (TimestampType, TimestampNTZType, DateType), "a timestamp or a date")


def unit_column(df: DataFrame, column: str | Column, what: str) -> Column:
    """``column``, if its values identify persons; otherwise as ``numeric_column``. Both zeros of doubles are one."""
    types = (StringType, NumericType, BooleanType, DateType, TimestampType, TimestampNTZType, NullType)
    identity = _column(df, column, what, types, "text, a number, a boolean or a time")
    return identity + 0.0 if isinstance(df.select(identity).schema[0].dataType, (DoubleType, FloatType)) else identity


def listed_place(value: Column, places: Mapping[str, int]) -> Column:
    """The place of a text or whole number in a public list, a bigint; null if it is not listed. Row-wise and total.

    The list is one literal map, in which Spark looks up by hash, without a join or a pass over the table.
    """
    listed = sf.from_json(sf.lit(json.dumps(places)), "map<string,bigint>")
    return sf.try_element_at(listed, value.cast("string"))


def _column(df: DataFrame, column: str | Column, what: str, types: tuple[type, ...], wanted: str) -> Column:
    given = column if isinstance(column, str) else "an expression"
    try:
        dtype = df.select(column).schema[0].dataType
    except AnalysisException:
        raise InvalidRequest(what, given, "must be a column of the table", "correct its name") from None
    if not isinstance(dtype, types):
        raise InvalidRequest(
            what, f"{given} of type {dtype.simpleString()}", f"must be {wanted}", "convert the column first"
        )
    return sf.col(column) if isinstance(column, str) else column
