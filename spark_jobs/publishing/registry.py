"""Which renderer publishes which kind of diagnostic: a new diagnostic adds a module and a line."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.publishing import (
    binned_residuals,
    binormal_roc,
    calibration,
    coefficients,
    confusion_matrix,
    ecdf,
    linear_regression,
    residual_plot,
    roc_comparison,
    roc_curve,
    score_figure,
)
from spark_jobs.publishing.rendering import Renderer

RENDERERS: Mapping[str, Renderer] = {
    "roc_curve": roc_curve.render,
    "roc_comparison": roc_comparison.render,
    "auc": score_figure.render_auc,
    "average_precision": score_figure.render_average_precision,
    "binormal_roc": binormal_roc.render,
    "confusion_matrix": confusion_matrix.render,
    "binned_residuals": binned_residuals.render,
    "calibration": calibration.render,
    "ecdf": ecdf.render,
    "residual_plot": residual_plot.render,
    "linear_regression": linear_regression.render,
    "linear_fit": coefficients.render,
    "logistic_fit": coefficients.render,
}
