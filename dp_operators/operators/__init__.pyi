from dp_operators.operators.approval import RequestMoreBudgetOperator as RequestMoreBudgetOperator
from dp_operators.operators.count_stream import CountStreamOperator as CountStreamOperator
from dp_operators.operators.dag_files import dags_from as dags_from
from dp_operators.operators.diagnostic import Template as Template
from dp_operators.operators.diagnostics import (
    AggregatesOperator as AggregatesOperator,
    AucOperator as AucOperator,
    AveragePrecisionOperator as AveragePrecisionOperator,
    BinnedResidualsOperator as BinnedResidualsOperator,
    BinormalRocOperator as BinormalRocOperator,
    ByGroupOperator as ByGroupOperator,
    CalibrationOperator as CalibrationOperator,
    CdfPointsOperator as CdfPointsOperator,
    ConfusionMatrixOperator as ConfusionMatrixOperator,
    EcdfOperator as EcdfOperator,
    LinearFitOperator as LinearFitOperator,
    LinearRegressionOperator as LinearRegressionOperator,
    LogisticFitOperator as LogisticFitOperator,
    ProfileOperator as ProfileOperator,
    QuantileOperator as QuantileOperator,
    RankingFiguresOperator as RankingFiguresOperator,
    RecalibrationOperator as RecalibrationOperator,
    ResidualPlotOperator as ResidualPlotOperator,
    RocComparisonOperator as RocComparisonOperator,
    RocCurveOperator as RocCurveOperator,
    RowsPerUnitOperator as RowsPerUnitOperator,
)
from dp_operators.operators.expectations import CheckReleaseOperator as CheckReleaseOperator
from dp_operators.operators.federation_server import FederationServerOperator as FederationServerOperator
from dp_operators.operators.groups import private_release_group as private_release_group
from dp_operators.operators.outlets import release_alias as release_alias, release_asset as release_asset
from dp_operators.operators.release import ReleaseDiagnosticsOperator as ReleaseDiagnosticsOperator
from dp_operators.operators.retrying import PrivacyRetryPolicy as PrivacyRetryPolicy
from dp_operators.operators.sql import PrivateSqlOperator as PrivateSqlOperator
from dp_operators.operators.verification import VerifyReleaseOperator as VerifyReleaseOperator
