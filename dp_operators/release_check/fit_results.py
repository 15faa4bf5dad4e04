"""The contract of privately fitted models."""

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
    within_set,
)
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.figures import OK, SHRUNK
from spark_jobs.contract.tables import LinearModel, LogisticModel

_MOST = sys.float_info.max
_ENDS = ("lower_population", "lower", "coefficients", "upper", "upper_population")
_MODELS: Mapping[str, type[LinearModel | LogisticModel]] = {"linear": LinearModel, "logistic": LogisticModel}


def fit_tables(kind: str, result: Mapping[str, Any]) -> list[Table]:
    """Coefficients lie in their intervals, one inside the other; the model is one that a request takes, and has them.

    Args:
        kind: ``linear`` or ``logistic``.
        result: the released values.
    """
    columns: dict[str, list[Any]] = {name: numbers(result[name]) for name in (*_ENDS, "spans")}
    expected = [entry for name in columns for entry in (not_null(name), finite(name))]
    expected += [at_least(high, low) for low, high in pairwise(_ENDS)]
    expected.append(between("spans", sys.float_info.min, _MOST, what="spans are above 0"))
    summary: dict[str, list[Any]] = {name: [number(result[name])] for name in ("rows", "ridge")}
    summed = [between(name, 0, _MOST, what=f"{name} is finite and not negative") for name in summary]
    shares = {name: number(result[name]) for name in ("positives", "r_squared") if result.get(name) is not None}
    summary |= {name: [value] for name, value in shares.items()}
    summed += [between(name, 0, 1) for name in shares]
    summary |= {
        "status": [result["status"]],
        "named": [len(result["terms"]) == len(columns["coefficients"])],
        "model": [_is_the_model(kind, result["model"], columns["coefficients"])],
    }
    summed += [
        within_set("status", [OK, SHRUNK], what="status is ok or shrunk"),
        within_set("named", [True], what="every coefficient has a name"),
        within_set("model", [True], what="the model is one that a request takes, with these coefficients"),
    ]
    return [
        Table(name=f"{kind}_fit", columns=columns, expected=tuple(expected)),
        Table(name=f"{kind}_fit summary", columns=summary, expected=tuple(summed)),
    ]


def _is_the_model(kind: str, fields: Any, coefficients: list[float]) -> bool:
    try:
        model = _MODELS[kind].parse(fields)
    except RequestRefused:
        return False
    levels = [value for each in model.categorical.values() for value in list(each.values())[1:]]
    told = [model.intercept, *model.coefficients.values(), *levels]
    return model.kind == kind and model.basis == "differentially_private" and told == coefficients
