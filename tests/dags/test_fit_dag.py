"""The fitting DAG, whole: Spark sums and counts, one account pays for the model and for the diagnostics of it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.release_check import check_release
from dp_operators.releasing import ReleaseKey
from examples.demo import lake, setting
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.layout import release_folder
from tests.support.airflow import RUN_DATE, run_dag, states
from tests.support.dag_bags import DagBag

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

DAG_FILE = Path(__file__).parents[2] / "dags" / "fit_then_diagnose.py"
NEXT_MONTH = RUN_DATE + dt.timedelta(days=30)


def load() -> Any:
    bag = DagBag(dag_folder=str(DAG_FILE))
    assert bag.import_errors == {}
    return bag.dags["fit_then_diagnose"]


def released(ledger: PrivacyLedger, task_id: str) -> Release:
    charges = ledger.history(setting.FIT_ACCOUNT)
    [charge] = [charge for charge in charges if ReleaseKey.parse(charge.release).task_id == task_id]
    assert charge.state is ChargeState.COMMITTED
    folder = Path(release_folder(setting.FIT_OUTPUT, charge.release))
    release = Release.from_json((folder / "release.json").read_bytes())
    check_release(release, lambda name: (folder / name).read_bytes())
    return release


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_a_model_is_fitted_and_diagnosed_under_one_account(airflow_ledger: PrivacyLedger) -> None:
    run = run_dag(load())
    assert set(states(run).values()) == {"success"}, states(run)
    fit, diagnosed = released(airflow_ledger, "fit"), released(airflow_ledger, "diagnose")
    model = fit.results["logistic_fit"]["model"]
    named = dict(diagnosed.request["model"])
    assert named.pop("release").startswith("file:///")
    assert named == {**model, "categorical": {}, "fitted_by": fit.key}
    assert model["bounds"] == {name: list(bounds) for name, bounds in lake.BOUNDS.items()}
    assert fit.request["model"] is None

    # by 20,190 rows and epsilon 1: a plain logistic regression has 0.663 on them, and noise costs a few hundredths
    assert diagnosed.results["roc_curve"]["auc"] == pytest.approx(0.64, abs=0.05)
    assert diagnosed.results["calibration"]["status"] == "ok"
    # which of the two, noise decides
    assert fit.results["logistic_fit"]["status"] in ("ok", "shrunk")

    assert airflow_ledger.remaining(setting.FIT_ACCOUNT).epsilon == Decimal("0.5")
    assert airflow_ledger.verify()

    again = run_dag(load())
    assert set(states(again).values()) == {"success"}
    assert len(airflow_ledger.history(setting.FIT_ACCOUNT)) == 2

    later = states(run_dag(load(), logical_date=NEXT_MONTH))
    assert later["budget_for_fit"] == later["fit"] == later["diagnose"] == "skipped"
    assert airflow_ledger.remaining(setting.FIT_ACCOUNT).epsilon == Decimal("0.5")
