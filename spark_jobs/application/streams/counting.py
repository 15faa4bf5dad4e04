"""The exact counts of a stream's steps, with Spark; private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.statistics import StateCounts
from spark_jobs.statistics.state_grid import EventBound, StateGrid
from spark_jobs.statistics.unit_use import UnitUse
from spark_jobs.statistics.used_rows import UsedRows

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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Counted:
    """Exact counts of some steps, and how many rows of each unit the stream has used up to their end; private.

    Attributes:
        cells: shape (steps, states).
        use: the rows used of each unit; None for a stream that does not keep them.
    """

    cells: Int64Array
    use: UnitUse | None = None


def count_steps(
    rows: DataFrame,
    request: StreamRequest,
    *,
    first: int,
    steps: int,
    use: UnitUse | None = None,
    unit_salt: bytes = b"",
) -> Counted:
    """The counts of ``steps`` steps from the step ``first`` on.

    Args:
        rows: the plan that ``prepare_steps`` returned.
        request: the stream's request.
        first: the number of the first step.
        steps: the number of steps.
        use: the rows used of each unit before these steps; None for a stream that does not keep them.
        unit_salt: orders and hashes the rows of a unit; unused if every row is a unit.
    """
    from spark_jobs.contract.columns import ColumnNeed, state_need, time_need
    from spark_jobs.tables.expressions import field_of, quoted

    def named(need: ColumnNeed) -> str:
        return quoted(field_of(need, rows.schema).name)

    unit, states = request.unit.column, request.states
    time = named(time_need(request.time))
    state = None if states is None else named(state_need(states.column))
    owner = None if unit is None else named(ColumnNeed(name=unit, field="unit.column"))
    grid: dict[str, Any] = {
        "first": request.step_begins(first),
        "step": request.step_length,
        "steps": steps,
        "states": None if states is None else request.leaf_names,
    }
    if owner is not None and use is not None:
        bound = EventBound(max_rows=request.unit.max_rows, max_per_step=request.rows_per_step, salt=unit_salt)
        counted = UsedRows.from_dataframe(
            rows, time=time, state=state, unit=owner, grid=StateGrid(**grid), bound=bound, use=use
        )
        return Counted(cells=counted.counts.counts, use=counted.use)
    bounded: dict[str, Any] = {} if owner is None else {
        "unit": owner, "max_rows": request.unit.max_rows, "max_per_step": request.max_per_step, "salt": unit_salt,
    }  # fmt: skip
    return Counted(cells=StateCounts.from_dataframe(rows, time=time, state=state, **grid, **bounded).counts)
