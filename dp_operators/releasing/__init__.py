"""The release protocol: reserve, run, draw, commit, publish; and what starts the Spark application."""

from dp_operators.releasing.applications import ApplicationRuns, Waiting
from dp_operators.releasing.backends import Backend, Handle, RunState
from dp_operators.releasing.charged_terms import ChargedRequest, complete
from dp_operators.releasing.earlier_releases import (
    earlier_function,
    fitted_model,
    has_references,
    is_reference,
    require_no_key_file,
    with_references,
)
from dp_operators.releasing.errors import ReleaseClosed, ReleaseDamaged, ReleaseError, ReleaseFailed, ReleaseRejected
from dp_operators.releasing.expected_widths import expected_widths
from dp_operators.releasing.from_account import interval_blocks
from dp_operators.releasing.inspection import check_release_folder
from dp_operators.releasing.keys import ReleaseKey
from dp_operators.releasing.preflight import Forecast, forecast
from dp_operators.releasing.protocol import DraftCheck, Published, release
from dp_operators.releasing.reconciling import Reconciled, reconcile
from dp_operators.releasing.requests import account_state, check_budget, check_request, price
from dp_operators.releasing.reservations import StaleReservation, give_back, release_stale
from dp_operators.releasing.runners import LocalRunner
from dp_operators.releasing.spark_submit import SparkSubmitRunner
from dp_operators.releasing.submissions import Submission
from dp_operators.releasing.warm_runs import WarmRunner

__all__ = [
    "ApplicationRuns",
    "Backend",
    "ChargedRequest",
    "DraftCheck",
    "Forecast",
    "Handle",
    "LocalRunner",
    "Published",
    "Reconciled",
    "ReleaseClosed",
    "ReleaseDamaged",
    "ReleaseError",
    "ReleaseFailed",
    "ReleaseKey",
    "ReleaseRejected",
    "RunState",
    "SparkSubmitRunner",
    "StaleReservation",
    "Submission",
    "Waiting",
    "WarmRunner",
    "account_state",
    "check_budget",
    "check_release_folder",
    "check_request",
    "complete",
    "earlier_function",
    "expected_widths",
    "fitted_model",
    "forecast",
    "give_back",
    "has_references",
    "interval_blocks",
    "is_reference",
    "price",
    "reconcile",
    "release",
    "release_stale",
    "require_no_key_file",
    "with_references",
]
