"""The events of units that a stream counts in some of its steps, and the use of each unit after these steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import Int64Array
from spark_jobs.statistics.state_counts import KnownEvents, StateCounts
from spark_jobs.statistics.state_grid import EventBound, StateGrid
from spark_jobs.statistics.unit_use import UnitUse, unit_hashes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UsedRows:
    """Exact counts of some steps of a stream, and the use of units after these steps; private.

    Sensitivity, for all steps of a stream together: see ``unit_use``.

    Attributes:
        counts: the counts of the steps.
        use: the use of units after the last of these steps.
    """

    counts: StateCounts
    use: UnitUse

    @classmethod
    def from_arrays(
        cls,
        times: ArrayLike,
        in_states: ArrayLike | None,
        units: ArrayLike,
        *,
        grid: StateGrid,
        bound: EventBound,
        use: UnitUse,
    ) -> Self:
        """The counts, and the use of units after them, from events given as arrays as in ``StateCounts.from_arrays``.

        Args:
            times: the time of each event.
            in_states: the state of each event; None for a stream that is not divided.
            units: the unit of each event, a text or whole number.
            grid: the steps and states.
            bound: how many events of a unit are counted in the whole stream, and in each step.
            use: the use of units before these steps.

        Raises:
            InvalidRequest: the arrays are not columns of equal length.
        """
        events = KnownEvents.of(times, in_states, units, grid)
        owners = events.units or []
        distinct, which = np.unique(np.array([str(one) for one in owners], dtype=object), return_inverse=True)
        hashes = unit_hashes(distinct, bound.unit_key)[which] if owners else unit_hashes((), bound.unit_key)
        counted = bound.kept(owners, events.times, events.places, events.steps, use.of(hashes))
        keys = (events.steps * grid.width + events.places)[counted]
        return cls.from_rows(hashes[counted], keys, np.ones(len(keys), dtype=np.int64), grid=grid, use=use)

    @classmethod
    def from_dataframe(
        cls,
        df: DataFrame,
        *,
        time: str | Column,
        state: str | Column | None,
        unit: str | Column,
        grid: StateGrid,
        bound: EventBound,
        use: UnitUse,
    ) -> Self:
        """The result of ``from_arrays`` from a DataFrame's events; only the events of these steps are read.

        What is collected is bounded by public numbers: the places for units, ``bound`` and the grid.

        Args:
            df: the table.
            time: a column, or its name, as for ``StateCounts.from_dataframe``.
            state: a column, or its name, likewise; None for a stream that is not divided.
            unit: a column that identifies the unit, or its name, likewise.
            grid: the steps and states.
            bound: how many events of a unit are counted in the whole stream, and in each step.
            use: the use of units before these steps.

        Raises:
            InvalidRequest: a column is missing or of another type.
        """
        from spark_jobs.statistics.spark.used_rows import used_rows

        rows = used_rows(df, time=time, state=state, unit=unit, grid=grid, bound=bound, use=use)
        return cls.from_rows(*rows, grid=grid, use=use)

    @classmethod
    def from_rows(
        cls, hashes: NDArray[Any], keys: Int64Array, events: Int64Array, *, grid: StateGrid, use: UnitUse
    ) -> Self:
        """The counts, and the use after them, of events within the bound, without events of units that get no place.

        Args:
            hashes: the hash of the unit of each row.
            keys: the cell of each row, ``step * states + state``.
            events: the number of events that each row stands for.
            grid: the steps and states.
            use: the use of units before these steps.
        """
        _, which = np.unique(hashes, return_inverse=True)
        begins = np.full(which.max(initial=-1) + 1, grid.steps, dtype=np.int64)
        np.minimum.at(begins, which, keys // grid.width)
        kept = use.admits(hashes, begins[which])
        return cls(
            counts=StateCounts.from_keys(keys[kept], events[kept], grid=grid), use=use.after(hashes[kept], events[kept])
        )
