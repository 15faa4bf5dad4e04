"""The exact counts of a stream's steps, with Spark; private."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.statistics import StateCounts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def prepare_steps(spark: SparkSession, request: StreamRequest, table: DataFrame) -> DataFrame:
    """A Spark plan of the rows of ``table`` that the request may count. No row is read, only the schema can be wrong.

    Raises:
        InvalidRequest: the schema or the filter does not fit the request.
    """
    from spark_jobs.contract.column_checks import check_columns
    from spark_jobs.tables.expressions import filter_column
    from spark_jobs.tables.nested import with_fields

    check_columns(request, {field.name: field.dataType.simpleString() for field in table.schema.fields})
    table = with_fields(table)
    for text in (request.block_filter, request.where):
        if text is not None:
            table = table.where(filter_column(text, table.schema))
    return table


def count_steps(rows: DataFrame, request: StreamRequest, *, first: int, steps: int) -> StateCounts:
    """The counts of ``steps`` steps from the step ``first`` on; ``rows`` is the plan that ``prepare_steps`` returned.

    Raises:
        InvalidRequest: the salt that the request needs is missing.
    """
    from spark_jobs.contract.columns import ColumnNeed, state_need, time_need
    from spark_jobs.contract.salt import read_salt
    from spark_jobs.tables.expressions import field_of, quoted

    def named(need: ColumnNeed) -> str:
        return quoted(field_of(need, rows.schema).name)

    unit = request.unit.column
    bounded: dict[str, Any] = {} if unit is None else {
        "unit": named(ColumnNeed(name=unit, field="unit.column")),
        "max_rows": request.unit.max_rows,
        "max_per_step": request.max_per_step,
        "since": request.first_instant if request.declared_rows is None else None,
        "salt": read_salt(os.environ),
    }  # fmt: skip
    states = request.states
    return StateCounts.from_dataframe(
        rows,
        time=named(time_need(request.time)),
        state=None if states is None else named(state_need(states.column)),
        first=request.step_begins(first),
        step=request.step_length,
        steps=steps,
        states=None if states is None else request.leaf_names,
        **bounded,
    )
