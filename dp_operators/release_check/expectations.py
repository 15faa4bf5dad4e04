"""Expectations on the columns of a draft: what the contracts of results are made of, and whether they are met."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One expectation: in words, its class in ``great_expectations.expectations``, and that class's arguments."""

    what: str
    expectation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns of a draft, all of one length, and what is expected of them."""

    name: str
    columns: Mapping[str, list[Any]]
    expected: tuple[Expected, ...]

    def __post_init__(self) -> None:
        if len({len(values) for values in self.columns.values()}) > 1:
            raise ValueError(f"the columns of {self.name} differ in length")


def unmet(tables: Iterable[Table]) -> list[str]:
    """The expectations that the tables do not meet, each as ``table: what``."""
    import pandas as pd

    gx = great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
    source = context.data_sources.add_pandas("release")
    broken = []
    for table in tables:
        definition = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe("whole")
        suite = gx.ExpectationSuite(
            name=table.name,
            expectations=[
                getattr(gx.expectations, entry.expectation)(**entry.arguments, meta={"what": entry.what})
                for entry in table.expected
            ],
        )
        batch = definition.get_batch({"dataframe": pd.DataFrame(table.columns)})
        results = batch.validate(suite, result_format="BOOLEAN_ONLY").results
        held = {result.expectation_config.meta["what"] for result in results if result.success}
        broken += [f"{table.name}: {entry.what}" for entry in table.expected if entry.what not in held]
    return broken


def great_expectations() -> Any:
    """The library, silent and without telemetry; importing it takes seconds."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # imported into a process that logs already, it would write hundreds of lines
    warnings.filterwarnings("ignore", module="great_expectations")
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations as gx

    logging.getLogger(gx.data_context.types.base.__name__).setLevel(logging.WARNING)
    return gx


def warm_up() -> threading.Thread:
    """Start importing the library beside whatever else is going on."""
    thread = threading.Thread(target=great_expectations, name="warm-up-great-expectations", daemon=True)
    thread.start()
    return thread


def not_null(column: str) -> Expected:
    """No value of the column is missing or NaN."""
    arguments = {"column": column}
    return Expected(what=f"{column} is a number", expectation="ExpectColumnValuesToNotBeNull", arguments=arguments)


def unit_interval(column: str) -> list[Expected]:
    """Every value of the column is a number from 0 to 1."""
    return [
        not_null(column),
        between(column, 0, 1),
    ]


def between(column: str, low: float, high: float, *, what: str | None = None) -> Expected:
    """Every value of the column lies from ``low`` to ``high``; ``what`` says it in other words."""
    arguments = {"column": column, "min_value": low, "max_value": high}
    return Expected(
        what=what or f"{column} is within [{low:g}, {high:g}]",
        expectation="ExpectColumnValuesToBeBetween",
        arguments=arguments,
    )


def finite(column: str) -> Expected:
    """No value of the column is infinite."""
    most = sys.float_info.max
    return between(column, -most, most, what=f"{column} is finite")


def at_least(upper: str, lower: str) -> Expected:
    """In every row ``upper`` is not below ``lower``."""
    return Expected(
        what=f"{upper} is not below {lower}",
        expectation="ExpectColumnPairValuesAToBeGreaterThanB",
        arguments={"column_A": upper, "column_B": lower, "or_equal": True},
    )


def within_set(column: str, values: list[Any], *, what: str) -> Expected:
    """Every value of the column is one of ``values``."""
    arguments = {"column": column, "value_set": values}
    return Expected(what=what, expectation="ExpectColumnValuesToBeInSet", arguments=arguments)


def number(value: Any) -> float:
    """``value`` as a float.

    Raises:
        TypeError: it is no number.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


def numbers(values: Any) -> list[float]:
    """All of ``values`` as floats.

    Raises:
        TypeError: one of them is no number.
    """
    return [number(value) for value in values]


def rises(values: list[float]) -> list[float]:
    """How far each value lies above the one before; 0 for the first."""
    return [0.0, *(right - left for left, right in pairwise(values))]
