"""Input columns of statistics, which are checked against the schema only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from math import isqrt
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    DataType,
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

_BY_CASES = ContextVar("_BY_CASES", default=False)
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_SPARSE = 8
"""The most whole numbers between the first and the last of a list, for each that is listed, that an array may hold."""


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
    """``column``, if its type can identify persons; otherwise as ``numeric_column``. Of doubles, -0.0 becomes 0.0."""
    types = (StringType, NumericType, BooleanType, DateType, TimestampType, TimestampNTZType, NullType)
    identity = _column(df, column, what, types, "text, a number, a boolean or a time")
    return identity + 0.0 if isinstance(df.select(identity).schema[0].dataType, (DoubleType, FloatType)) else identity


@contextmanager
def lists_by_cases() -> Iterator[None]:
    """A context in which ``listed_place`` compares with keys, for engines that read a literal map for each row."""
    token = _BY_CASES.set(True)
    try:
        yield
    finally:
        _BY_CASES.reset(token)


def listed_place(value: Column, places: Mapping[str, int], *, whole: bool = False) -> Column:
    """The place of a text or whole number in a public list, a bigint; null if it is not listed. Row-wise and total.

    The list is a literal map in which Spark looks a key up by its hash, without a join or a pass over the table. Whole
    numbers that lie close together are indices of a literal array, which takes less than half of the time. Within the
    context ``lists_by_cases``, the sorted keys are divided into runs instead: a row is compared with the first key of
    each run, and with all keys of the run that it belongs to.

    Args:
        value: texts or whole numbers.
        places: the place of each key of the list.
        whole: whether the column is known to be of whole numbers, so that none has to be written as a text.
    """
    if whole:
        return _whole_place(value.cast("bigint"), _whole_keys(places))
    text = value.cast("string")
    if not _BY_CASES.get():
        return sf.try_element_at(sf.from_json(sf.lit(json.dumps(places)), "map<string,bigint>"), text)
    return _by_runs(text, places)


def _whole_keys(places: Mapping[str, int]) -> dict[int, int]:
    """The keys that are how a bigint is written, as such; no row has another one."""
    written = (key for key in places if _WHOLE.fullmatch(key))
    return {int(key): places[key] for key in written if _SMALLEST <= int(key) <= _LARGEST}


def _whole_place(value: Column, places: Mapping[int, int]) -> Column:
    if not places:
        return sf.lit(None).cast("bigint")
    first, last = min(places), max(places)
    if _BY_CASES.get():
        return _by_runs(value, places)
    if last - first < _SPARSE * len(places):
        table = _bigints([places.get(number) for number in range(first, last + 1)])
        return sf.when(value.between(sf.lit(first), sf.lit(last)), sf.get(table, (value - sf.lit(first)).cast("int")))
    return sf.try_element_at(sf.map_from_arrays(_bigints(list(places)), _bigints(list(places.values()))), value)


def _bigints(numbers: Sequence[int | None]) -> Column:
    return sf.from_json(sf.lit(json.dumps(numbers)), "array<bigint>")


def _by_runs(value: Column, places: Mapping[Any, int]) -> Column:
    """The place of a text or a whole number, by comparison with the list's keys."""
    keys = sorted(places)  # texts by code point, which is the order of their bytes, as engines compare them
    size = isqrt(len(keys)) + 1
    runs = [keys[first : first + size] for first in range(0, len(keys), size)]
    known = [_case((value == key, sf.lit(places[key]).cast("bigint")) for key in run) for run in runs]
    before = [(value < run[0], place) for run, place in zip(runs[1:], known[:-1], strict=True)]
    return _case([*before, (value.isNotNull(), known[-1])])


def is_whole(of: DataType) -> bool:
    """Whether a column of this type holds whole numbers."""
    return isinstance(of, IntegralType)


def _case(branches: Iterable[tuple[Column, Column]]) -> Column:
    first, *others = branches
    return reduce(lambda case, branch: case.when(*branch), others, sf.when(*first))


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
