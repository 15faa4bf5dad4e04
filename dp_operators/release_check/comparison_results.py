"""The contract of what two models' scores are compared by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dp_operators.release_check.expectations import Table, at_least, between, not_null, number, numbers, unit_interval
from dp_operators.release_check.score_results import roc_curve_tables
from spark_jobs.contract.figures import UNDEFINED


def roc_comparison_tables(result: Mapping[str, Any]) -> list[Table]:
    """Both curves meet their contract and have as many points; the difference lies in its interval."""
    curves = [result[name] for name in ("first", "second")]
    if len(curves[0]["fpr"]) != len(curves[1]["fpr"]):
        raise ValueError("both curves have as many points")
    tables = [
        replace(table, name=f"{table.name}, {name} model")
        for name, curve in zip(("first", "second"), curves, strict=True)
        if curve["status"] != UNDEFINED
        for table in roc_curve_tables(curve)
    ]
    low, high = numbers(result["auc_interval"])
    columns = {"lower": low, "difference": number(result["auc_difference"]), "upper": high}
    rates = {name: number(result[name]) for name in ("p_value", "auc_p_value", "largest_difference")}
    expected = [entry for name in columns for entry in (not_null(name), between(name, -1, 1))]
    expected += [at_least("difference", "lower"), at_least("upper", "difference")]
    expected += [entry for name in rates for entry in unit_interval(name)]
    values = {name: [value] for name, value in {**columns, **rates}.items()}
    return [*tables, Table(name="roc_comparison", columns=values, expected=tuple(expected))]
