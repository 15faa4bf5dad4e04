"""Checks of a table with ``unit_totals``, where a unit counts once in each of its cells with its totals there."""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.measures import MEANS, Measured
from spark_jobs.contract.privacy import PrivacyUnit


def require_totals(max_groups: int | None, max_rows_per_group: int | None, measures: Sequence[Measured]) -> None:
    """Refuse totals of units without ``max_groups``, with ``max_rows_per_group``, or with figures that they lack.

    Raises:
        InvalidRequest: the options do not fit.
    """
    if max_groups is None or max_rows_per_group is not None:
        name = "max_groups" if max_groups is None else "max_rows_per_group"
        raise InvalidRequest(
            name, max_rows_per_group,
            "must be given with unit_totals" if max_groups is None else "must be left out with unit_totals",
            "give max_groups without max_rows_per_group: a unit has one total in each of its groups, over all its rows "
            "there",
        )  # fmt: skip
    others = [name for one in measures for name in one.figures if name not in (*MEANS, *one.quantiles)]
    if others or any(measure.outcome is not None for measure in measures):
        raise InvalidRequest(
            "measures", others[0] if others else "outcome",
            f"must have only the figures {', '.join(MEANS)} and quantiles of a number if unit_totals is true",
            "leave it out: the count is the number of units, and errors are figures of rows",
        )  # fmt: skip


def require_unit(unit: PrivacyUnit) -> None:
    """Refuse totals where every row is a unit.

    Raises:
        InvalidRequest: the unit has no column.
    """
    if unit.column is None:
        raise InvalidRequest(
            "unit_totals", True, "must be left out where every row is a unit of its own",
            "name the unit's column in unit.column, or leave it out",
        )  # fmt: skip
