from spark_jobs.diagnostics import (
    aggregates as aggregates,
    auc as auc,
    average_precision as average_precision,
    binned_residuals as binned_residuals,
    binormal_roc as binormal_roc,
    by_group as by_group,
    calibration as calibration,
    cdf_points as cdf_points,
    confusion_matrix as confusion_matrix,
    count_stream as count_stream,
    ecdf as ecdf,
    linear_fit as linear_fit,
    linear_regression as linear_regression,
    logistic_fit as logistic_fit,
    quantile as quantile,
    ranking_figures as ranking_figures,
    recalibration as recalibration,
    residual_plot as residual_plot,
    roc_comparison as roc_comparison,
    roc_curve as roc_curve,
    rows_per_unit as rows_per_unit,
)
from spark_jobs.diagnostics.aggregates import Aggregate as Aggregate, AggregateTable as AggregateTable
from spark_jobs.diagnostics.auc import Auc as Auc
from spark_jobs.diagnostics.average_precision import AveragePrecision as AveragePrecision
from spark_jobs.diagnostics.binned_residuals import BinnedResiduals as BinnedResiduals
from spark_jobs.diagnostics.binormal_roc import BinormalRoc as BinormalRoc
from spark_jobs.diagnostics.by_group import ByGroup as ByGroup, GroupComparison as GroupComparison
from spark_jobs.diagnostics.calibration import Calibration as Calibration
from spark_jobs.diagnostics.cdf_points import CdfPoints as CdfPoints
from spark_jobs.diagnostics.confusion_matrix import ConfusionMatrix as ConfusionMatrix
from spark_jobs.diagnostics.count_stream import CountStream as CountStream
from spark_jobs.diagnostics.diagnostic import (
    Diagnostic as Diagnostic,
    Draw as Draw,
    Measurement as Measurement,
    Terms as Terms,
)
from spark_jobs.diagnostics.ecdf import (
    Distance as Distance,
    Ecdf as Ecdf,
    EcdfComparison as EcdfComparison,
    Quantile as Quantile,
    distance_between as distance_between,
    distance_to as distance_to,
)
from spark_jobs.diagnostics.linear_fit import PrivateLinearFit as PrivateLinearFit
from spark_jobs.diagnostics.linear_regression import LinearFit as LinearFit
from spark_jobs.diagnostics.logistic_fit import PrivateLogisticFit as PrivateLogisticFit
from spark_jobs.diagnostics.quantile import SingleQuantile as SingleQuantile
from spark_jobs.diagnostics.ranking_figures import RankingFigures as RankingFigures
from spark_jobs.diagnostics.recalibration import Recalibration as Recalibration
from spark_jobs.diagnostics.residual_plot import ResidualPlot as ResidualPlot
from spark_jobs.diagnostics.roc_comparison import RocComparison as RocComparison
from spark_jobs.diagnostics.roc_curve import (
    CurveDifference as CurveDifference,
    RocCurve as RocCurve,
    compare as compare,
)
from spark_jobs.diagnostics.rows_per_unit import RowsPerUnit as RowsPerUnit
