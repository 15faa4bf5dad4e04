"""The kinds of diagnostics that a request may name: their options, and the statistics that they are computed from."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module

from spark_jobs.contract.options import (
    aggregates,
    by_group,
    cdf_points,
    comparisons,
    fits,
    linear,
    profile,
    residuals,
    score_figures,
    scores,
    values,
)
from spark_jobs.contract.options.aggregate_settings import AggregatesSettings
from spark_jobs.contract.options.aggregates import (
    AggregateCells,
    AggregatesOptions,
    DiscoverableCells,
)
from spark_jobs.contract.options.base import (
    Options,
    ScoreCells,
    Settings,
    Statistic,
)
from spark_jobs.contract.options.by_group import ByGroupOptions, ByGroupSettings, GroupedScoreCells
from spark_jobs.contract.options.cdf_points import CdfPointsOptions, CdfPointsSettings
from spark_jobs.contract.options.comparisons import (
    EarlierCurve,
    OtherModel,
    PairedScoreCells,
    PublishedCurve,
    RocComparisonOptions,
    RocComparisonSettings,
)
from spark_jobs.contract.options.dimensions import Dimension
from spark_jobs.contract.options.fits import (
    CrossProductCells,
    FitSettings,
    LabelledRowCells,
    LinearFitOptions,
    LogisticFitOptions,
    LogisticFitSettings,
)
from spark_jobs.contract.options.linear import (
    LinearRegressionOptions,
    LinearRegressionSettings,
    PointCells,
    PointSums,
)
from spark_jobs.contract.options.measures import Measured
from spark_jobs.contract.options.profile import ProfileCells, ProfileColumn, ProfileOptions, ProfileSettings
from spark_jobs.contract.options.residuals import ResidualCells, ResidualPlotOptions, ResidualPlotSettings
from spark_jobs.contract.options.score_figures import (
    AucOptions,
    AucSettings,
    AveragePrecisionOptions,
    AveragePrecisionSettings,
    BinormalRocOptions,
    BinormalRocSettings,
    ConfusionMatrixOptions,
    ConfusionMatrixSettings,
    RankingFiguresOptions,
    RankingFiguresSettings,
    RecalibrationOptions,
    RecalibrationSettings,
)
from spark_jobs.contract.options.scores import (
    BinnedResidualsOptions,
    BinnedResidualsSettings,
    CalibrationOptions,
    CalibrationSettings,
    GroupedSettings,
    RocCurveOptions,
    RocCurveSettings,
)
from spark_jobs.contract.options.values import (
    EarlierFunction,
    EcdfOptions,
    EcdfSettings,
    QuantileOptions,
    QuantileSettings,
    ReferenceDistribution,
    SearchedValueCells,
    ValueCells,
)

__all__ = [
    "DIAGNOSTICS",
    "AggregateCells",
    "AggregatesOptions",
    "AggregatesSettings",
    "AucOptions",
    "AucSettings",
    "AveragePrecisionOptions",
    "AveragePrecisionSettings",
    "BinnedResidualsOptions",
    "BinnedResidualsSettings",
    "BinormalRocOptions",
    "BinormalRocSettings",
    "ByGroupOptions",
    "ByGroupSettings",
    "CalibrationOptions",
    "CalibrationSettings",
    "CdfPointsOptions",
    "CdfPointsSettings",
    "ConfusionMatrixOptions",
    "ConfusionMatrixSettings",
    "CrossProductCells",
    "Dimension",
    "DiscoverableCells",
    "EarlierCurve",
    "EarlierFunction",
    "EcdfOptions",
    "EcdfSettings",
    "FitSettings",
    "GroupedScoreCells",
    "GroupedSettings",
    "LabelledRowCells",
    "LinearFitOptions",
    "LinearRegressionOptions",
    "LinearRegressionSettings",
    "LogisticFitOptions",
    "LogisticFitSettings",
    "Measured",
    "Options",
    "OtherModel",
    "PairedScoreCells",
    "PointCells",
    "PointSums",
    "ProfileCells",
    "ProfileColumn",
    "ProfileOptions",
    "ProfileSettings",
    "PublishedCurve",
    "QuantileOptions",
    "QuantileSettings",
    "RankingFiguresOptions",
    "RankingFiguresSettings",
    "RecalibrationOptions",
    "RecalibrationSettings",
    "ReferenceDistribution",
    "ResidualCells",
    "ResidualPlotOptions",
    "ResidualPlotSettings",
    "RocComparisonOptions",
    "RocComparisonSettings",
    "RocCurveOptions",
    "RocCurveSettings",
    "ScoreCells",
    "SearchedValueCells",
    "Settings",
    "Statistic",
    "ValueCells",
]

_IN_ORDER = (
    scores,
    comparisons,
    score_figures,
    by_group,
    values,
    cdf_points,
    residuals,
    linear,
    fits,
    aggregates,
    profile,
)
DIAGNOSTICS: Mapping[str, type[Options]] = {
    options.model_fields["kind"].default: options
    for module in (*_IN_ORDER, *(import_module(f"{__name__}.{name}") for _, name, _ in pkgutil.iter_modules(__path__)))
    for options in getattr(module, "KINDS", ())
}
"""Every kind that a request may name, with its options: the ``KINDS`` of the modules of this package. Messages list
those of ``_IN_ORDER`` first."""
