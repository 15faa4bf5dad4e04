"""Which contract the result of each kind of diagnostic meets: a new diagnostic adds a function and a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dp_operators.release_check.comparison_results import roc_comparison_tables
from dp_operators.release_check.expectations import Table, within_set
from dp_operators.release_check.fit_results import fit_tables
from dp_operators.release_check.linear_results import linear_regression_tables, residual_plot_tables
from dp_operators.release_check.score_results import (
    binned_residuals_tables,
    binormal_roc_tables,
    calibration_tables,
    confusion_matrix_tables,
    roc_curve_tables,
    score_figure_tables,
)
from dp_operators.release_check.value_results import ecdf_tables
from spark_jobs.contract.figures import STATUSES, UNDEFINED, is_withheld

ResultTables = Callable[[Mapping[str, Any]], list[Table]]


def withheld_table(kind: str, result: Mapping[str, Any]) -> Table:
    """The contract of a result that is undefined: every figure of its kind is null."""
    expected = within_set("withheld", [True], what="every figure of an undefined result is null")
    return Table(name=kind, columns={"withheld": [is_withheld(kind, result)]}, expected=(expected,))


def _unless_undefined(kind: str, tables: ResultTables) -> ResultTables:
    def of_result(result: Mapping[str, Any]) -> list[Table]:
        status = result["status"]
        if status == UNDEFINED:
            return [withheld_table(kind, result)]
        named = within_set("status", list(STATUSES), what="status is one that results have")
        statuses = [status] if isinstance(status, str) else list(status)
        return [Table(name=f"{kind} status", columns={"status": statuses}, expected=(named,)), *tables(result)]

    return of_result


_DEFINED: Mapping[str, ResultTables] = {
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
"""The contract of each diagnostic's result that is defined."""

RESULTS: Mapping[str, ResultTables] = {kind: _unless_undefined(kind, tables) for kind, tables in _DEFINED.items()}
"""The contract of each diagnostic's result; a kind without one cannot be published."""
