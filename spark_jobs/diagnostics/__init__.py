"""Each kind of diagnostic: noisy counts to a frozen result, with its bands, intervals and tests."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from spark_jobs.diagnostics import aggregates as aggregates
    from spark_jobs.diagnostics import auc as auc
    from spark_jobs.diagnostics import average_precision as average_precision
    from spark_jobs.diagnostics import binned_residuals as binned_residuals
    from spark_jobs.diagnostics import binormal_roc as binormal_roc
    from spark_jobs.diagnostics import by_group as by_group
    from spark_jobs.diagnostics import calibration as calibration
    from spark_jobs.diagnostics import cdf_points as cdf_points
    from spark_jobs.diagnostics import confusion_matrix as confusion_matrix
    from spark_jobs.diagnostics import count_stream as count_stream
    from spark_jobs.diagnostics import ecdf as ecdf
    from spark_jobs.diagnostics import linear_fit as linear_fit
    from spark_jobs.diagnostics import linear_regression as linear_regression
    from spark_jobs.diagnostics import logistic_fit as logistic_fit
    from spark_jobs.diagnostics import quantile as quantile
    from spark_jobs.diagnostics import ranking_figures as ranking_figures
    from spark_jobs.diagnostics import recalibration as recalibration
    from spark_jobs.diagnostics import residual_plot as residual_plot
    from spark_jobs.diagnostics import roc_comparison as roc_comparison
    from spark_jobs.diagnostics import roc_curve as roc_curve
    from spark_jobs.diagnostics.aggregates import Aggregate as Aggregate
    from spark_jobs.diagnostics.aggregates import AggregateTable as AggregateTable
    from spark_jobs.diagnostics.auc import Auc as Auc
    from spark_jobs.diagnostics.average_precision import AveragePrecision as AveragePrecision
    from spark_jobs.diagnostics.binned_residuals import BinnedResiduals as BinnedResiduals
    from spark_jobs.diagnostics.binormal_roc import BinormalRoc as BinormalRoc
    from spark_jobs.diagnostics.by_group import ByGroup as ByGroup
    from spark_jobs.diagnostics.by_group import GroupComparison as GroupComparison
    from spark_jobs.diagnostics.calibration import Calibration as Calibration
    from spark_jobs.diagnostics.cdf_points import CdfPoints as CdfPoints
    from spark_jobs.diagnostics.confusion_matrix import ConfusionMatrix as ConfusionMatrix
    from spark_jobs.diagnostics.count_stream import CountStream as CountStream
    from spark_jobs.diagnostics.diagnostic import Diagnostic as Diagnostic
    from spark_jobs.diagnostics.diagnostic import Draw as Draw
    from spark_jobs.diagnostics.diagnostic import Measurement as Measurement
    from spark_jobs.diagnostics.diagnostic import Terms as Terms
    from spark_jobs.diagnostics.ecdf import Distance as Distance
    from spark_jobs.diagnostics.ecdf import Ecdf as Ecdf
    from spark_jobs.diagnostics.ecdf import EcdfComparison as EcdfComparison
    from spark_jobs.diagnostics.ecdf import Quantile as Quantile
    from spark_jobs.diagnostics.ecdf import distance_between as distance_between
    from spark_jobs.diagnostics.ecdf import distance_to as distance_to
    from spark_jobs.diagnostics.linear_fit import PrivateLinearFit as PrivateLinearFit
    from spark_jobs.diagnostics.linear_regression import LinearFit as LinearFit
    from spark_jobs.diagnostics.logistic_fit import PrivateLogisticFit as PrivateLogisticFit
    from spark_jobs.diagnostics.quantile import SingleQuantile as SingleQuantile
    from spark_jobs.diagnostics.ranking_figures import RankingFigures as RankingFigures
    from spark_jobs.diagnostics.recalibration import Recalibration as Recalibration
    from spark_jobs.diagnostics.residual_plot import ResidualPlot as ResidualPlot
    from spark_jobs.diagnostics.roc_comparison import RocComparison as RocComparison
    from spark_jobs.diagnostics.roc_curve import CurveDifference as CurveDifference
    from spark_jobs.diagnostics.roc_curve import RocCurve as RocCurve
    from spark_jobs.diagnostics.roc_curve import compare as compare
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "aggregates": "Aggregate AggregateTable aggregates",
            "auc": "Auc auc",
            "average_precision": "AveragePrecision average_precision",
            "binned_residuals": "BinnedResiduals binned_residuals",
            "binormal_roc": "BinormalRoc binormal_roc",
            "by_group": "ByGroup GroupComparison by_group",
            "calibration": "Calibration calibration",
            "cdf_points": "CdfPoints cdf_points",
            "confusion_matrix": "ConfusionMatrix confusion_matrix",
            "count_stream": "CountStream count_stream",
            "diagnostic": "Diagnostic Draw Measurement Terms",
            "ecdf": "Distance Ecdf EcdfComparison Quantile distance_between distance_to ecdf",
            "linear_fit": "PrivateLinearFit linear_fit",
            "linear_regression": "LinearFit linear_regression",
            "logistic_fit": "PrivateLogisticFit logistic_fit",
            "quantile": "SingleQuantile quantile",
            "ranking_figures": "RankingFigures ranking_figures",
            "recalibration": "Recalibration recalibration",
            "residual_plot": "ResidualPlot residual_plot",
            "roc_comparison": "RocComparison roc_comparison",
            "roc_curve": "CurveDifference RocCurve compare roc_curve",
        },
    )
