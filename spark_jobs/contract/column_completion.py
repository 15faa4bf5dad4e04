"""Completes the entries of a request by what their columns may hold: bounds, keys, and tables of aggregates."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.domain_checks import (
    Domains,
    contradiction,
    is_step,
    require_period,
    require_value,
    require_within,
)
from spark_jobs.contract.domains import ValueRange, moment, number
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.limits import limits_of
from spark_jobs.contract.grids import MAX_STEPS_FROM_ZERO
from spark_jobs.contract.options.aggregates import entries_by
from spark_jobs.contract.options.dimensions import MAX_BINS
from spark_jobs.contract.options.measures import counts_units
from spark_jobs.contract.options.metrics import in_full, lacks_bounds
from spark_jobs.contract.privacy import exact_decimal

Fields = Mapping[str, Any]


def with_bounds(entry: dict[str, Any], of: str, option: str, domains: Domains, field: str) -> dict[str, Any]:
    """The entry with ``option`` set to the bounds of the column that its option ``of`` names.

    Bounds that the entry has already are kept.

    Raises:
        InvalidRequest: the entry's own bounds contradict the column's domain.
    """
    name = entry.get(of)
    column, limits = domains.column(name), domains.range(name)
    if limits is None:
        if column is not None and column.kind is Kind.BOOLEAN and entry.get(option) is None:
            return {**entry, option: [0, 1]}
        return entry
    if entry.get(option) is None:
        return {**entry, option: list(limits.bounds)}
    require_within(entry[option], name, limits, f"{field}.{option}", step=domains.step(name))
    return entry


def with_keys(given: Fields, of: str, option: str, domains: Domains, field: str) -> dict[str, Any]:
    """The entry with ``option`` set to all listed values of the column that its option ``of`` names.

    Keys that the entry has already are kept.

    Raises:
        InvalidRequest: one of the entry's own keys contradicts the column's domain.
    """
    entry, name = dict(given), given.get(of)
    values = None if name is None else domains.listed(name)
    keys = entry.get(option)
    where = field if option == "k" else f"{field}.{option}"
    if keys is None:
        if values is not None:
            entry[option] = list(values)
        return entry
    if isinstance(keys, (list, tuple)):
        for key in keys:
            require_value(key, name, domains, where, as_text=True)
    return entry


def with_groups_and_bounds(entry: dict[str, Any], domains: Domains) -> dict[str, Any]:
    """A table of aggregates with the groups of its dimensions, and the bounds and steps of its measures, filled in."""
    by, measures = entries_by("column", entry.get("by")), entries_by("of", entry.get("measures"))
    if isinstance(by, list):
        entry = {**entry, "by": [_dimension(one, domains) for one in by]}
    if isinstance(measures, list):
        full = in_full([_with_outcome_bounds(one, domains) for one in measures])
        totals = bool(entry.get("unit_totals"))
        entry = {**entry, "measures": [_measured(one, domains, totals=totals) for one in full]}
    return entry


def _with_outcome_bounds(given: Any, domains: Domains) -> Any:
    """A short form of a measure of errors, with the bounds of its outcome where it needs them."""
    return (
        with_bounds(dict(given), "outcome", "bounds", domains, "diagnostics.measures") if lacks_bounds(given) else given
    )


def _dimension(given: Any, domains: Domains) -> Any:
    if not isinstance(given, Mapping) or any(given.get(name) is not None for name in ("edges", "keys", "lookup")):
        return given
    name = given.get("column")
    if given.get("width") is not None:
        return _bins(given, domains)
    if given.get("every") is None:
        filled = with_keys(given, "column", "values", domains, "diagnostics.by")
        values = _few_values(name, domains) if filled.get("values") is None else None
        return filled if values is None else {**filled, "values": values}
    period = domains.period(name)
    if period is None:
        return given
    ends = dict(zip(("start", "end"), (one.replace(tzinfo=None).isoformat(" ") for one in period), strict=True))
    filled = {**ends, **{option: value for option, value in given.items() if value is not None}}
    begins, until = (moment(str(filled[end])).replace(tzinfo=dt.UTC) for end in ends)
    require_period(str(name), begins, until, domains, "diagnostics.by")
    return filled


def _bins(given: Mapping[str, Any], domains: Domains) -> Any:
    """The dimension with multiples of its width for edges, so that bins hold all that its number may be."""
    name, width = given.get("column"), exact_decimal(given["width"], what="diagnostics.by.width")
    limits = domains.range(name)
    ends = None if limits is None else limits.bounds
    if ends is None and isinstance(name, str) and domains.column(name) is None:
        ends = limits_of(name, domains)
    if ends is None:
        return given
    first, last = 0, MAX_BINS
    if width > 0:
        first, last = (math.floor(exact_decimal(end) / width) for end in ends)
    if last - first >= MAX_BINS:
        raise InvalidRequest(
            "diagnostics.by.width", given["width"], f"must divide the range of {name} into at most {MAX_BINS:,} bins",
            "give a larger width, or edges",
        )  # fmt: skip
    edges = [float(place * width) for place in range(first, last + 2)]
    return {**{option: value for option, value in given.items() if option != "width"}, "edges": edges}


def _few_values(name: Any, domains: Domains) -> list[Any] | None:
    """The values of a yes/no column or of a short range of whole numbers, which their types list; None of others."""
    column, limits, step = domains.column(name), domains.domain(name), domains.step(name)
    if column is not None and column.kind is Kind.BOOLEAN and limits is None:
        return ["false", "true"]
    whole = column is not None and column.kind is Kind.INTEGER and isinstance(limits, ValueRange) and step == 1
    if not whole or not isinstance(limits, ValueRange) or limits.upper - limits.lower >= MAX_BINS:
        return None
    return list(range(int(limits.lower), int(limits.upper) + 1))


def _measured(given: Any, domains: Domains, *, totals: bool = False) -> Any:
    if not isinstance(given, Mapping) or counts_units(given):
        return given
    name, filled = given.get("of"), dict(given)
    if not totals:  # a total has other bounds than its values
        filled = with_bounds(filled, "of", "bounds", domains, "diagnostics.measures")
    if not totals and filled.get("bounds") is None and isinstance(name, str) and domains.column(name) is None:
        bounds = limits_of(name, domains)
        return filled if bounds is None else {**filled, "bounds": list(bounds)}
    step, limits = domains.step(name), domains.range(name)
    if step is None or limits is None or filled.get("bounds") is None:
        return filled
    if filled.get("step") is None:
        largest = max(abs(float(end)) for end in filled["bounds"])
        return {**filled, "step": float(step)} if largest <= MAX_STEPS_FROM_ZERO * float(step) else filled
    if not is_step(filled["step"], step):
        remedy = f"leave it out: the step is {number(step)}"
        raise contradiction("diagnostics.measures.step", filled["step"], name, limits, remedy)
    return filled
