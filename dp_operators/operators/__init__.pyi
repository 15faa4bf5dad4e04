from dp_operators.operators.approval import RequestMoreBudgetOperator as RequestMoreBudgetOperator
from dp_operators.operators.count_stream import CountStreamOperator as CountStreamOperator
from dp_operators.operators.dag_files import dags_from as dags_from
from dp_operators.operators.diagnostics.aggregates import AggregatesOperator as AggregatesOperator
from dp_operators.operators.diagnostics.base import Template as Template
from dp_operators.operators.diagnostics.by_group import ByGroupOperator as ByGroupOperator
from dp_operators.operators.diagnostics.cdf_points import CdfPointsOperator as CdfPointsOperator
from dp_operators.operators.diagnostics.comparisons import RocComparisonOperator as RocComparisonOperator
from dp_operators.operators.diagnostics.fits import (
    LinearFitOperator as LinearFitOperator,
    LogisticFitOperator as LogisticFitOperator,
)
from dp_operators.operators.diagnostics.linear import LinearRegressionOperator as LinearRegressionOperator
from dp_operators.operators.diagnostics.residuals import ResidualPlotOperator as ResidualPlotOperator
from dp_operators.operators.diagnostics.score_figures import (
    AucOperator as AucOperator,
    AveragePrecisionOperator as AveragePrecisionOperator,
    BinormalRocOperator as BinormalRocOperator,
    ConfusionMatrixOperator as ConfusionMatrixOperator,
    RankingFiguresOperator as RankingFiguresOperator,
    RecalibrationOperator as RecalibrationOperator,
)
from dp_operators.operators.diagnostics.scores import (
    BinnedResidualsOperator as BinnedResidualsOperator,
    CalibrationOperator as CalibrationOperator,
    RocCurveOperator as RocCurveOperator,
)
from dp_operators.operators.diagnostics.values import EcdfOperator as EcdfOperator, QuantileOperator as QuantileOperator
from dp_operators.operators.expectations import CheckReleaseOperator as CheckReleaseOperator
from dp_operators.operators.federation_server import FederationServerOperator as FederationServerOperator
from dp_operators.operators.groups import private_release_group as private_release_group
from dp_operators.operators.outlets import release_alias as release_alias, release_asset as release_asset
from dp_operators.operators.release import ReleaseDiagnosticsOperator as ReleaseDiagnosticsOperator
from dp_operators.operators.retrying import PrivacyRetryPolicy as PrivacyRetryPolicy
from dp_operators.operators.verification import VerifyReleaseOperator as VerifyReleaseOperator
