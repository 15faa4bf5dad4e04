"""Which values of a released result are figures, and what is published where noise leaves none: null, and a status.

Whether a result is defined is decided by noisy sizes alone. Where it is not, every figure is null (None in Python, NaN
in arrays, null in the manifest and in data files): a number there would be read as a finding. What stays are the public
facts, the noisy sizes that decided, and the noisy counts themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

OK, UNDEFINED, PARTLY = "ok", "undefined", "partly undefined"
SHRUNK, UNCHECKED = "shrunk", "unchecked"
"""Of a fit with a ridge, and of a score figure whose noisy sizes were not paid for."""
STATUSES = (OK, SHRUNK, UNCHECKED, UNDEFINED)
"""What the status of one result can be."""
DEFINED_ABOVE = 3.0
"""Standard deviations of its noise that a noisy size must reach for the result to be defined."""

_CURVE = (
    "auc", "auc_interval", "fpr", "tpr", "tpr_lower", "tpr_upper", "tpr_lower_everywhere", "tpr_upper_everywhere",
)  # fmt: skip
_RATES = ("accuracy", "precision", "recall", "specificity", "f1")
_FIT = ("model", "coefficients", "lower", "upper", "lower_population", "upper_population")

FIGURES: Mapping[str, tuple[str, ...]] = {
    "roc_curve": _CURVE,
    "roc_comparison": ("auc_difference", "auc_interval", "auc_p_value", "largest_difference", "p_value"),
    "auc": ("value", "interval"),
    "average_precision": ("value", "interval"),
    "binormal_roc": ("separation", "auc", "auc_interval", "tpr", "tpr_lower", "tpr_upper"),
    "confusion_matrix": tuple(f"{rate}{end}" for rate in _RATES for end in ("", "_lower", "_upper")),
    "binned_residuals": (
        "predicted", "residual", "residual_lower", "residual_upper", "zone_lower", "zone_upper",
        "p_value", "trend_p_value", "scatter_p_value",
    ),
    "calibration": (
        "predicted", "observed", "observed_lower", "observed_upper", "zone_lower", "zone_upper",
        "statistic", "statistic_interval", "p_value", "ece", "ece_interval", "ece_calibrated",
    ),
    "ecdf": ("cdf", "lower", "upper", "lower_everywhere", "upper_everywhere", "quantiles", "distance"),
    "residual_plot": (
        "trend", "trend_lower", "trend_upper", "spread", "spread_lower", "spread_upper",
        "qq_residual", "qq_lower", "qq_upper", "qq_line",
        "line_p_value", "curvature_p_value", "variance_p_value", "shift_p_value", "p_value",
    ),
    "linear_regression": (),
    "linear_fit": (*_FIT, "residual_stddev", "r_squared"),
    "logistic_fit": (*_FIT, "positives"),
}  # fmt: skip
"""By kind, the fields of a result that are null where its status is ``undefined``; of lines, each group has its own."""
_NO_FIGURES = {"level", "confidence"}
"""What is public inside a figure that has fields of its own."""


def status_of(result: Mapping[str, Any]) -> str:
    """The status of one result; of a result in groups, ``partly undefined`` where some of them are undefined."""
    status = result.get("status", OK)
    if isinstance(status, str):
        return status
    undefined = [each == UNDEFINED for each in status]
    return UNDEFINED if all(undefined) else PARTLY if any(undefined) else OK


def undefined_kinds(statuses: Mapping[str, str]) -> tuple[str, ...]:
    """The kinds that have no figure at all."""
    return tuple(kind for kind, status in statuses.items() if status == UNDEFINED)


def is_withheld(kind: str, result: Mapping[str, Any]) -> bool:
    """Whether every figure of a result of this kind is null."""
    return all(_is_null(result[name]) for name in FIGURES[kind])


def _is_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return _all_null(each for name, each in value.items() if name not in _NO_FIGURES)
    if isinstance(value, (list, tuple)):
        return _all_null(value)
    return value is None


def _all_null(values: Iterable[Any]) -> bool:
    return all(_is_null(value) for value in values)
