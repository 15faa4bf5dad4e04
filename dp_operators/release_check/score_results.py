"""The contracts of what a classifier's scores are made into."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from dp_operators.release_check.expectations import (
    Expected,
    Table,
    at_least,
    between,
    finite,
    not_null,
    number,
    numbers,
    rises,
    unit_interval,
    within_set,
)

BANDS = (("tpr_lower", "tpr_upper"), ("tpr_lower_everywhere", "tpr_upper_everywhere"))


def roc_curve_tables(result: Mapping[str, Any]) -> list[Table]:
    """The curve runs from (0, 0) to (1, 1), never falls, and lies in its bands; the AUC lies in its interval."""
    names = ("fpr", "tpr", *(name for band in BANDS for name in band))
    points = {name: numbers(result[name]) for name in names}
    first, *cuts = result["thresholds"]
    if first is not None:
        raise ValueError("the first threshold is infinite")
    points["threshold"] = [1.0, *numbers(cuts)]
    steps = {f"{name} step": rises(points[name]) for name in ("fpr", "tpr", "threshold")}
    curve = [entry for name in points for entry in unit_interval(name)]
    curve += [between(f"{name} step", 0, 1, what=f"{name} never falls") for name in ("fpr", "tpr")]
    curve += [between("threshold step", -1, 0, what="threshold never rises")]
    for lower, upper in BANDS:
        curve += [at_least("tpr", lower), at_least(upper, "tpr")]
    low, high = numbers(result["auc_interval"])
    scalars = {"auc_lower": low, "auc": number(result["auc"]), "auc_upper": high}
    sizes = {name: number(result[name]) for name in ("positives", "negatives")}
    ends = [points[name][end] for name in ("fpr", "tpr") for end in (0, -1)]
    expected = [entry for name in scalars for entry in unit_interval(name)]
    expected += [at_least("auc", "auc_lower"), at_least("auc_upper", "auc")]
    expected += [entry for name in sizes for entry in (not_null(name), finite(name))]
    expected += [within_set("ends", [True], what="it runs from (0, 0) to (1, 1)")]
    columns = {name: [value] for name, value in {**scalars, **sizes, "ends": ends == [0, 1, 0, 1]}.items()}
    return [
        Table(name="roc_curve", columns={**points, **steps}, expected=tuple(curve)),
        Table(name="roc_curve summary", columns=columns, expected=tuple(expected)),
    ]


def binned_residuals_tables(result: Mapping[str, Any]) -> list[Table]:
    """Bins follow each other from 0 to 1, each residual lies in its interval, p-values are probabilities."""
    bins = _bins(result, ("predicted", "residual", "residual_lower", "residual_upper", "zone_lower", "zone_upper"))
    expected = _bins_expected() + unit_interval("predicted")
    for name in ("residual", "residual_lower", "residual_upper", "zone_lower", "zone_upper"):
        expected += [not_null(name), between(name, -1, 1)]
    expected += [at_least("residual", "residual_lower"), at_least("residual_upper", "residual")]
    names = ("p_value", "trend_p_value", "scatter_p_value")
    summary = {name: [number(result[name])] for name in (*names, "positives", "negatives")}
    summed = [entry for name in names for entry in unit_interval(name)]
    return [
        Table(name="binned_residuals", columns=bins, expected=tuple(expected)),
        Table(name="binned_residuals summary", columns=summary, expected=(*summed, *_sizes_expected())),
    ]


def calibration_tables(result: Mapping[str, Any]) -> list[Table]:
    """Bins follow each other from 0 to 1, shares are shares, each lies in its interval, the test is whole."""
    shares = ("predicted", "observed", "observed_lower", "observed_upper", "zone_lower", "zone_upper")
    expected = _bins_expected() + [entry for name in shares for entry in unit_interval(name)]
    expected += [at_least("observed", "observed_lower"), at_least("observed_upper", "observed")]
    summary = {name: [number(result[name])] for name in ("p_value", "ece", "ece_calibrated", "statistic")}
    for name in ("ece", "statistic"):
        low, high = numbers(result[f"{name}_interval"])
        summary |= {f"{name}_lower": [low], f"{name}_upper": [high]}
    summary |= {name: [number(result[name])] for name in ("positives", "negatives")}
    summed = [entry for name in ("p_value", "ece", "ece_calibrated") for entry in unit_interval(name)]
    summed += [not_null("statistic"), finite("statistic_upper")]
    for name in ("ece", "statistic"):
        summed += [at_least(name, f"{name}_lower"), at_least(f"{name}_upper", name)]
    return [
        Table(name="calibration", columns=_bins(result, shares), expected=tuple(expected)),
        Table(name="calibration summary", columns=summary, expected=(*summed, *_sizes_expected())),
    ]


def _bins(result: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: numbers(result[name]) for name in ("lower", "upper", "pool", "rows", *names)}
    columns["pool step"] = rises(columns["pool"])
    ends = zip([*columns["lower"], 1.0], [0.0, *columns["upper"]], strict=True)
    columns["follows"] = [all(left == right for left, right in ends)] * len(columns["lower"])
    return columns


def _bins_expected() -> list[Expected]:
    return [
        within_set("follows", [True], what="bins follow each other from 0 to 1"),
        within_set("pool step", [0.0, 1.0], what="pools follow each other"),
        *(not_null("rows"), between("rows", 0, sys.float_info.max, what="rows is finite and not negative")),
    ]


def _sizes_expected() -> list[Expected]:
    return [entry for name in ("positives", "negatives") for entry in (not_null(name), finite(name))]


def score_figure_tables(name: str, result: Mapping[str, Any]) -> list[Table]:
    """The figure lies in [0, 1] and in its interval, if it has one; sizes are finite, if they were paid for."""
    value = number(result["value"])
    columns = {"value": [value]}
    expected = unit_interval("value")
    if result["interval"] is not None:
        low, high = numbers(result["interval"])
        columns |= {"lower": [low], "upper": [high]}
        expected += [entry for end in ("lower", "upper") for entry in unit_interval(end)]
        expected += [at_least("value", "lower"), at_least("upper", "value")]
        columns |= {size: [number(result[size])] for size in ("positives", "negatives")}
        expected += _sizes_expected()
    return [Table(name=name, columns=columns, expected=tuple(expected))]


def binormal_roc_tables(result: Mapping[str, Any]) -> list[Table]:
    """The curve never falls and lies in its band; the AUC lies in its interval."""
    points = {name: numbers(result[name]) for name in ("fpr", "tpr", "tpr_lower", "tpr_upper")}
    steps = {f"{name} step": rises(points[name]) for name in ("fpr", "tpr")}
    expected = [entry for name in points for entry in unit_interval(name)]
    expected += [between(name, 0, 1, what=f"{name.removesuffix(' step')} never falls") for name in steps]
    expected += [at_least("tpr", "tpr_lower"), at_least("tpr_upper", "tpr")]
    area = {"value": result["auc"], "interval": result["auc_interval"]}
    sizes = {name: result[name] for name in ("positives", "negatives")}
    return [
        Table(name="binormal_roc", columns={**points, **steps}, expected=tuple(expected)),
        *score_figure_tables("binormal_roc summary", {**area, **sizes}),
    ]


RATES = ("accuracy", "precision", "recall", "specificity", "f1")


def confusion_matrix_tables(result: Mapping[str, Any]) -> list[Table]:
    """Counts are finite; rates lie in [0, 1] and in their intervals, or are null with them."""
    counts = ("true_positives", "false_positives", "false_negatives", "true_negatives")
    columns = {name: numbers(result[name]) for name in ("thresholds", *counts)}
    expected = unit_interval("thresholds") + [e for name in counts for e in (not_null(name), finite(name))]
    for name in RATES:
        ends = [result[f"{name}_{end}"] for end in ("lower", "upper")]
        if any(len({value is None for value in at}) > 1 for at in zip(result[name], *ends, strict=True)):
            raise ValueError("a rate and its interval are undefined together")
        lower, rate, upper = (
            [0.0 if value is None else number(value) for value in values] for values in (ends[0], result[name], ends[1])
        )
        columns |= {name: rate, f"{name}_lower": lower, f"{name}_upper": upper}
        expected += [entry for each in (name, f"{name}_lower", f"{name}_upper") for entry in unit_interval(each)]
        expected += [at_least(name, f"{name}_lower"), at_least(f"{name}_upper", name)]
    return [Table(name="confusion_matrix", columns=columns, expected=tuple(expected))]
