"""Completes a profile of columns by the domains that the account declares for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.domain_checks import Domains
from spark_jobs.contract.domains import LogOdds
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import MAX_STEPS_FROM_ZERO
from spark_jobs.contract.options.aggregates import entries_by

LOG_ODDS = (-10.0, 10.0)
"""Between which log-odds are shown: beyond, a probability is within 5e-5 of 0 or 1."""
_FORMS = ("values", "bounds", "start")


def with_profiled(entry: dict[str, Any], domains: Domains) -> dict[str, Any]:
    """The entry with the domain of each of its columns; an entry without columns gets all columns that have a domain.

    Raises:
        InvalidRequest: the entry names no column, and the account declares no domain.
    """
    columns = entries_by("column", entry.get("columns"))
    if not columns:
        columns = [{"column": column.name} for column in domains.columns if column.domain is not None]
    if not isinstance(columns, list):
        return entry
    if not columns:
        raise InvalidRequest(
            "columns", None, "must be columns with a domain that the account declares, and the account declares none",
            "have domains declared: `dp-budget domains ACCOUNT --set \"age between 0 and 120\"`",
        )  # fmt: skip
    return {**entry, "columns": [_profiled(one, domains) for one in columns]}


def profile_leaves_out(entry: Mapping[str, Any]) -> bool:
    """Whether the entry leaves out columns, or what one of them may hold, which only the account can complete."""
    columns = entries_by("column", entry.get("columns"))
    return not columns or any(
        isinstance(one, Mapping) and all(one.get(form) is None for form in _FORMS) for one in columns
    )


def _profiled(given: Any, domains: Domains) -> Any:
    if not isinstance(given, Mapping) or any(given.get(form) is not None for form in _FORMS):
        return given
    name = given.get("column")
    column, listed = domains.column(name), domains.listed(name)
    period, limits = domains.period(name), domains.range(name)
    if listed is not None and (column is None or column.kind is not Kind.NUMBER):
        return {**given, "values": [str(one).lower() if isinstance(one, bool) else one for one in listed]}
    if period is not None:
        start, end = (one.replace(tzinfo=None).isoformat(" ") for one in period)
        return {**given, "start": start, "end": end}
    if isinstance(domains.domain(name), LogOdds):
        return {**given, "bounds": list(LOG_ODDS)}
    if limits is None:
        return given  # refused with the remedy
    low, high = limits.bounds
    filled: dict[str, Any] = {**given, "bounds": [low, high]}
    step = domains.step(name)
    if limits.scale == "log" and step is None:
        filled["scale"] = "log"
    if step is not None and max(abs(low), abs(high)) <= MAX_STEPS_FROM_ZERO * float(step):
        filled["step"] = float(step)
    return filled
