"""Which contract the result of each kind of diagnostic meets: a new diagnostic adds a function and a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dp_operators.checks.comparison_results import roc_comparison_tables
from dp_operators.checks.expectations import Table
from dp_operators.checks.fit_results import fit_tables
from dp_operators.checks.linear_results import linear_regression_tables, residual_plot_tables
from dp_operators.checks.score_results import (
    binned_residuals_tables,
    binormal_roc_tables,
    calibration_tables,
    confusion_matrix_tables,
    roc_curve_tables,
    score_figure_tables,
)
from dp_operators.checks.value_results import ecdf_tables

RESULTS: dict[str, Callable[[Mapping[str, Any]], list[Table]]] = {
    "roc_curve": roc_curve_tables,
    "roc_comparison": roc_comparison_tables,
    "auc": partial(score_figure_tables, "auc"),
    "average_precision": partial(score_figure_tables, "average_precision"),
    "binormal_roc": binormal_roc_tables,
    "confusion_matrix": confusion_matrix_tables,
    "binned_residuals": binned_residuals_tables,
    "calibration": calibration_tables,
    "ecdf": ecdf_tables,
    "residual_plot": residual_plot_tables,
    "linear_regression": linear_regression_tables,
    "linear_fit": partial(fit_tables, "linear"),
    "logistic_fit": partial(fit_tables, "logistic"),
}
"""The contract of each diagnostic's result; a kind without one cannot be published."""
