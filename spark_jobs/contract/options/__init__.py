"""The diagnostics a request may ask for, with their options and the statistics that they are made from."""

from __future__ import annotations

from spark_jobs.contract.options.base import Options, ScoreCells, Statistic
from spark_jobs.contract.options.fits import (
    CrossProductCells,
    LabelProductCells,
    LinearFitOptions,
    LogisticFitOptions,
)
from spark_jobs.contract.options.linear import LinearRegressionOptions, PointCells, PointSums
from spark_jobs.contract.options.residuals import ResidualCells, ResidualPlotOptions
from spark_jobs.contract.options.scores import (
    AucOptions,
    AveragePrecisionOptions,
    BinnedResidualsOptions,
    BinormalRocOptions,
    CalibrationOptions,
    ConfusionMatrixOptions,
    OtherScoreCells,
    RocComparisonOptions,
    RocCurveOptions,
)
from spark_jobs.contract.options.values import EarlierFunction, EcdfOptions, ReferenceDistribution, ValueCells

__all__ = [
    "DIAGNOSTICS",
    "AucOptions",
    "AveragePrecisionOptions",
    "BinnedResidualsOptions",
    "BinormalRocOptions",
    "CalibrationOptions",
    "ConfusionMatrixOptions",
    "CrossProductCells",
    "EarlierFunction",
    "EcdfOptions",
    "LabelProductCells",
    "LinearFitOptions",
    "LinearRegressionOptions",
    "LogisticFitOptions",
    "Options",
    "OtherScoreCells",
    "PointCells",
    "PointSums",
    "ReferenceDistribution",
    "ResidualCells",
    "ResidualPlotOptions",
    "RocComparisonOptions",
    "RocCurveOptions",
    "ScoreCells",
    "Statistic",
    "ValueCells",
]

DIAGNOSTICS: dict[str, type[Options]] = {
    "roc_curve": RocCurveOptions,
    "roc_comparison": RocComparisonOptions,
    "auc": AucOptions,
    "average_precision": AveragePrecisionOptions,
    "binormal_roc": BinormalRocOptions,
    "confusion_matrix": ConfusionMatrixOptions,
    "binned_residuals": BinnedResidualsOptions,
    "calibration": CalibrationOptions,
    "ecdf": EcdfOptions,
    "residual_plot": ResidualPlotOptions,
    "linear_regression": LinearRegressionOptions,
    "linear_fit": LinearFitOptions,
    "logistic_fit": LogisticFitOptions,
}
"""Every kind a request may name, with its options. A new diagnostic adds its line here."""
