"""Requests that every engine counts alike, to the last cell, on the table of ``engine_rows``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from spark_jobs.application.count_statistics import count
from spark_jobs.application.run import measure
from spark_jobs.application.unit_passes import squares_of_units
from spark_jobs.contract import ReleaseRequest
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import PairedScoreCounts
from tests.support.engine_rows import COLUMNS
from tests.support.kinds import EXAMPLES

LINEAR = {"kind": "linear", "basis": "public", "intercept": 0.1, "coefficients": {"x": 0.3, "y": 0.4}}
CLIPPED = {**LINEAR, "bounds": {"x": [0, 1], "y": [0, 1]}, "categorical": {"site": {"a": 0.1, "b": -0.1}}}
SCALED = {"kind": "columns", "score": "age", "basis": "public", "scale": {"kind": "linear", "lower": 0, "upper": 65}}
REGIONS = {
    "name": "regions", "key": "site", "value": "region", "entries": [["a", "north"], ["c", "south"], ["x", "north"]],
}  # fmt: skip
WHERE = (
    "spend > 2 AND amount < 1e3",
    "NOT (age BETWEEN 10 AND 20) OR site IN ('a', '')",
    "person / 3 >= 7 OR person IS NULL",
    "COALESCE(spend, 0) * amount - ABS(paid) < 40",
    "person + 9223372036854775807 > 0 OR person * person < 100",
    "CASE WHEN flag THEN few > 1 ELSE site LIKE '%a' END",
    "TRIM(site) = 'a' OR LENGTH(c) = 1 OR site < 'a'",
    "LEAST(x, y) < 0.5 AND GREATEST(x, 0.1) != y",
    "spend * paid - x / y < paid AND - amount <> 3",
    "SQRT(amount) < 1.5",
    "born >= DATE '2020-01-01' AND NOT (at < TIMESTAMP '2021-06-30 12:00:00' OR local = at)",
    "cents * 3 > few OR cents = 1.25 OR GREATEST(at, local) > TIMESTAMP '0001-01-01 00:00:00'",
    "COALESCE(born, DATE '9999-12-31') IN (DATE '1970-01-01', DATE '9999-12-31') OR at IS NULL",
    "ABS(person) != -1",
)
UNITS: dict[str, dict[str, Any]] = {
    "whole": {"unit": {"column": "person", "max_rows": 3}},
    "one-row": {"unit": {"column": "person", "max_rows": 1}},
    "texts": {"unit": {"column": "named", "max_rows": 2}},
    "one-text": {"unit": {"column": "named", "max_rows": 1}},
    "one-by-row": {"unit": {"column": "named", "max_rows": 1}, "row_id": "visit"},
    "by-row": {"unit": {"column": "person", "max_rows": 2}, "row_id": "visit"},
    "doubles": {"unit": {"column": "age", "max_rows": 2}},
    "small": {"unit": {"column": "some", "max_rows": 4}},
    "days": {"unit": {"column": "born", "max_rows": 1}, "row_id": "at"},
    "times": {"unit": {"column": "at", "max_rows": 2}, "row_id": "cents"},
    "local-times": {"unit": {"column": "local", "max_rows": 2}},
    "decimals": {"unit": {"column": "cents", "max_rows": 2}},
    "variance": {"unit": {"column": "person", "max_rows": 3}, "population_share": 0.1},
}
_SPREAD = [f"{year}-{month:02}-{day:02}" for year in (2020, 2021, 2022) for month in range(1, 13) for day in (1, 15)]
BLOCKS = {
    "years": ("year(born)", ("2020", "2022")),
    "months": ("month(at)", ("2020-01", "2020-03", "2021-12")),
    "days": ("day(local)", tuple(_SPREAD)),
    "hours": ("hour(at)", ("2020-05-01T00", "2020-05-01T01", "2021-05-01T00")),
    "days-of-days": ("day(born)", tuple(_SPREAD)),
    "whole": ("value(few)", ("0", "2")),
    "texts": ("value(site)", ("a", "c")),
    "flags": ("value(flag)", ("true",)),
}
"""For each, an account's expression of blocks, and those that are released."""


def cases() -> dict[str, dict[str, Any]]:
    """Changes of ``request`` by name: every kind, filters of every function, units, models, labels."""
    log = {"column": "amount", "bounds": (0.0, 1e6), "cells": 1024, "scale": "log", "points": 16}
    made = {
        f"{kind}-{place}": {"diagnostics": [{"kind": kind, **options}]}
        for kind in sorted(set(DIAGNOSTICS) - {"logistic_fit", "rows_per_unit"})
        for place, options in enumerate(EXAMPLES[kind])
    }
    made |= {f"where-{place}": {"where": text} for place, text in enumerate(WHERE)}
    made |= {f"unit-{name}": change for name, change in UNITS.items()}
    fits = [{"kind": "linear_fit", **EXAMPLES["linear_fit"][0]}]
    sums = [{"kind": "aggregates", **EXAMPLES["aggregates"][1]}]
    by_group = [{"kind": "by_group", **EXAMPLES["by_group"][0]}]
    for column in ("born", "at", "local"):
        every = {"column": column, "every": "quarter", "start": "2020-02-03", "end": "2022-05-01"}
        made[f"periods-{column}"] = {"diagnostics": [{"kind": "aggregates", "by": [every]}]}
    for name, (expression, blocks) in BLOCKS.items():
        made[f"blocks-{name}"] = {"block_expression": expression, "blocks": blocks}
    made["lookup"] = {"diagnostics": [{"kind": "aggregates", "by": [{"column": "site", "lookup": REGIONS}]}]}
    bins = {"column": "cents", "edges": [0, 1.25, 300]}
    paid = {"of": "cents", "bounds": (0.0, 400.0), "step": 0.01}
    made["decimal-sums"] = {"diagnostics": [{"kind": "aggregates", "by": [bins], "measures": [paid]}]}
    made["decimal-values"] = {"diagnostics": [{"kind": "ecdf", **log, "column": "cents"}]}
    made["label-decimal"] = {"label": {"column": "cents", "positive": 1.25, "rest": True}}
    made["score-decimal"] = {"model": {"kind": "columns", "score": "cents", "basis": "public"}}
    made["unit-fit"] = {"diagnostics": fits, "unit": {"column": "person", "max_rows": 2}}
    made["unit-sums"] = {"diagnostics": sums, "unit": {"column": "named", "max_rows": 2}}
    made["unit-group"] = {"diagnostics": by_group, "unit": {"column": "named", "max_rows": 1}}
    made["model-linear"] = {"model": LINEAR}
    made["model-clipped"] = {"model": CLIPPED}
    made["model-dropped"] = {"model": LINEAR, "scoring": {"outside": "drop"}}
    made["model-scaled"] = {"model": SCALED}
    made["label-text"] = {"label": {"column": "site", "positive": "a", "negative": "b"}}
    made["label-rest"] = {"label": {"column": "age", "positive": 1, "rest": True}}
    made["label-flag"] = {"label": "flag"}
    made["score-whole"] = {"model": {"kind": "columns", "score": "few", "basis": "public"}}
    made["values-log"] = {"diagnostics": [{"kind": "ecdf", **log}]}
    made["replace-one"] = {"neighbours": "replace_one"}
    return made


def request(folder: Path, *, more: Mapping[str, str] = MappingProxyType({}), **changes: Any) -> ReleaseRequest:
    """A charged request as the account completes it; ``more`` are the types of further bound columns."""
    columns = [{"name": name, "type": of} for name, of in {**COLUMNS, **more}.items()]
    bound = {"format": "parquet", "columns": columns, "version": {"by": "path_version"}}
    return ReleaseRequest.parse(
        {
            "account": "visits",
            "table": {"path": str(folder.parent), "snapshot": {"path_version": folder.name}, **bound},
            "label": "visited",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": ["roc_curve"],
            "budget": {"epsilon": "50"},
            **changes,
        }
    )


def counted(rows: Any, asked: ReleaseRequest) -> dict[str, Any]:
    """Everything that leaves an engine for a request, from the plan of ``prepare``: counts, and what passes return."""
    counts = {statistic: _in_order(value) for statistic, value in count(rows, asked).items()}
    squares = squares_of_units(rows, asked)
    draw = measure(asked, counts, charge_id=None, noise=SeededNoise(1), squares=squares)
    arrays = {
        f"{place} {field.name}": np.asarray(value)
        for place, statistic in enumerate(counts.values())
        for field in (fields(statistic) if hasattr(statistic, "__dataclass_fields__") else ())
        if isinstance(value := getattr(statistic, field.name), (np.ndarray, int, float))
    }
    left_out = {str(name): value for name, value in counts.items() if isinstance(value, np.ndarray)}
    measured = {"measured": draw.measurements, "shared": draw.shared, "left_out": draw.left_out, "units": draw.units}
    return {**arrays, **left_out, **measured}


def _in_order(value: Any) -> Any:
    """Counts by key with their keys ascending: engines return them in any order."""
    if not isinstance(value, PairedScoreCounts):
        return value
    order = np.argsort(value.keys)
    return PairedScoreCounts(keys=value.keys[order], counts=value.counts[order])


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names of what differs."""
    return [
        name
        for name in one.keys() | other.keys()
        if name not in one or name not in other or not _alike(one[name], other[name])
    ]


def _alike(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other)
