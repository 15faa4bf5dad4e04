"""The contract of a released distribution function."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from dp_operators.release_check.expectations import (
    Table,
    at_least,
    between,
    finite,
    not_null,
    number,
    numbers,
    rises,
    unit_interval,
)


def ecdf_tables(result: Mapping[str, Any]) -> list[Table]:
    """Values ascend, fractions rise to 1 within both bands, quantiles lie in their intervals."""
    bands = ("lower_everywhere", "lower", "cdf", "upper", "upper_everywhere")
    columns: dict[str, list[Any]] = {name: numbers(result[name]) for name in ("values", *bands)}
    columns |= {f"{name} step": rises(columns[name]) for name in ("values", *bands)}
    expected = [not_null("values"), finite("values"), *(entry for name in bands for entry in unit_interval(name))]
    expected += [
        between(f"{name} step", 0, sys.float_info.max, what=f"{name} never falls") for name in ("values", *bands)
    ]
    expected += [at_least(high, low) for low, high in pairwise(bands)]
    quantiles = {
        "level": [number(quantile["level"]) for quantile in result["quantiles"]],
        "value": [number(quantile["value"]) for quantile in result["quantiles"]],
        "lower": [numbers(quantile["interval"])[0] for quantile in result["quantiles"]],
        "upper": [numbers(quantile["interval"])[1] for quantile in result["quantiles"]],
    }
    low, high = numbers(result["bounds"])
    summary: dict[str, list[Any]] = {"lower": [low], "upper": [high], "rows": [number(result["rows"])]}
    summed = [not_null("lower"), not_null("upper"), at_least("upper", "lower"), not_null("rows"), finite("rows")]
    compared = result["comparison"]
    for of, distance in (
        ("reference", result["distance"]),
        ("earlier release", None if compared is None else compared["distance"]),
    ):
        if distance is not None and distance["value"] is not None:
            near, far = numbers(distance["interval"])
            told = {"nearest": near, "distance": number(distance["value"]), "furthest": far}
            told["p_value"] = number(distance["p_value"])
            names = {name: f"{name} of the {of}" for name in told}
            summary |= {names[name]: [value] for name, value in told.items()}
            summed += [entry for name in names.values() for entry in unit_interval(name)]
            summed += [
                at_least(names["distance"], names["nearest"]),
                at_least(names["furthest"], names["distance"]),
            ]
    return [
        Table(name="ecdf", columns=columns, expected=tuple(expected)),
        Table(
            name="ecdf quantiles",
            columns=quantiles,
            expected=(*unit_interval("level"), at_least("value", "lower"), at_least("upper", "value")),
        ),
        Table(name="ecdf summary", columns=summary, expected=tuple(summed)),
    ]
