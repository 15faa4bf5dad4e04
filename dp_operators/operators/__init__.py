"""Airflow operators: a release, one for each kind of diagnostic, a request for more budget, and what goes with them."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from dp_operators.operators.approval import RequestMoreBudgetOperator as RequestMoreBudgetOperator
    from dp_operators.operators.count_stream import CountStreamOperator as CountStreamOperator
    from dp_operators.operators.dag_files import dags_from as dags_from
    from dp_operators.operators.diagnostics.aggregates import AggregatesOperator as AggregatesOperator
    from dp_operators.operators.diagnostics.base import Template as Template
    from dp_operators.operators.diagnostics.by_group import ByGroupOperator as ByGroupOperator
    from dp_operators.operators.diagnostics.cdf_points import CdfPointsOperator as CdfPointsOperator
    from dp_operators.operators.diagnostics.comparisons import RocComparisonOperator as RocComparisonOperator
    from dp_operators.operators.diagnostics.fits import LinearFitOperator as LinearFitOperator
    from dp_operators.operators.diagnostics.fits import LogisticFitOperator as LogisticFitOperator
    from dp_operators.operators.diagnostics.linear import LinearRegressionOperator as LinearRegressionOperator
    from dp_operators.operators.diagnostics.residuals import ResidualPlotOperator as ResidualPlotOperator
    from dp_operators.operators.diagnostics.score_figures import AucOperator as AucOperator
    from dp_operators.operators.diagnostics.score_figures import AveragePrecisionOperator as AveragePrecisionOperator
    from dp_operators.operators.diagnostics.score_figures import BinormalRocOperator as BinormalRocOperator
    from dp_operators.operators.diagnostics.score_figures import ConfusionMatrixOperator as ConfusionMatrixOperator
    from dp_operators.operators.diagnostics.score_figures import RankingFiguresOperator as RankingFiguresOperator
    from dp_operators.operators.diagnostics.score_figures import RecalibrationOperator as RecalibrationOperator
    from dp_operators.operators.diagnostics.scores import BinnedResidualsOperator as BinnedResidualsOperator
    from dp_operators.operators.diagnostics.scores import CalibrationOperator as CalibrationOperator
    from dp_operators.operators.diagnostics.scores import RocCurveOperator as RocCurveOperator
    from dp_operators.operators.diagnostics.values import EcdfOperator as EcdfOperator
    from dp_operators.operators.diagnostics.values import QuantileOperator as QuantileOperator
    from dp_operators.operators.expectations import CheckReleaseOperator as CheckReleaseOperator
    from dp_operators.operators.federation_server import FederationServerOperator as FederationServerOperator
    from dp_operators.operators.groups import private_release_group as private_release_group
    from dp_operators.operators.outlets import release_alias as release_alias
    from dp_operators.operators.outlets import release_asset as release_asset
    from dp_operators.operators.release import ReleaseDiagnosticsOperator as ReleaseDiagnosticsOperator
    from dp_operators.operators.retrying import PrivacyRetryPolicy as PrivacyRetryPolicy
    from dp_operators.operators.verification import VerifyReleaseOperator as VerifyReleaseOperator
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "approval": "RequestMoreBudgetOperator",
            "count_stream": "CountStreamOperator",
            "dag_files": "dags_from",
            "diagnostics.aggregates": "AggregatesOperator",
            "diagnostics.base": "Template",
            "diagnostics.by_group": "ByGroupOperator",
            "diagnostics.cdf_points": "CdfPointsOperator",
            "diagnostics.comparisons": "RocComparisonOperator",
            "diagnostics.fits": "LinearFitOperator LogisticFitOperator",
            "diagnostics.linear": "LinearRegressionOperator",
            "diagnostics.residuals": "ResidualPlotOperator",
            "diagnostics.score_figures": "AucOperator AveragePrecisionOperator BinormalRocOperator "
            "ConfusionMatrixOperator RankingFiguresOperator RecalibrationOperator",
            "diagnostics.scores": "BinnedResidualsOperator CalibrationOperator RocCurveOperator",
            "diagnostics.values": "EcdfOperator QuantileOperator",
            "expectations": "CheckReleaseOperator",
            "groups": "private_release_group",
            "outlets": "release_alias release_asset",
            "release": "ReleaseDiagnosticsOperator",
            "retrying": "PrivacyRetryPolicy",
            "federation_server": "FederationServerOperator",
            "verification": "VerifyReleaseOperator",
        },
    )
