"""A condition on a released figure: it holds downstream tasks back, and a name that is unknown costs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, task

from dp_operators.budget import PrivacyLedger
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.diagnostics import roc_curve
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.accounts import open_bound
from tests.support.airflow import make_context, run_dag, states

Make = Callable[..., ReleaseDiagnosticsOperator]


def curve(epsilon: str) -> dict[str, Any]:
    counts = ScoreCounts.from_arrays([0, 1] * 4000, [0.2, 0.6, 0.7, 0.8] * 2000)
    released = roc_curve.release(counts, epsilon=epsilon, noise=SeededNoise(1)).to_dict()
    return dict(json.loads(json.dumps(released, allow_nan=False)))


@pytest.fixture
def found(quick_release: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The results that the next release publishes, which a test may change."""
    import dp_operators.releasing

    quick, results = dp_operators.releasing.release, {"roc_curve": curve("1")}

    def publish(*given: Any, **named: Any) -> Any:
        quick_release["roc_curve"] = results["roc_curve"]["status"]
        return replace(quick(*given, **named), results=results)

    monkeypatch.setattr("dp_operators.releasing.release", publish)
    return results


@pytest.fixture
def account(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    open_bound(airflow_ledger, "visits", epsilon="4", table="/lake/visits", output=tmp_path / "releases")
    return airflow_ledger


@pytest.fixture
def make(tmp_path: Path, account: PrivacyLedger) -> Make:
    def operator(**fields: Any) -> ReleaseDiagnosticsOperator:
        return ReleaseDiagnosticsOperator(
            task_id="release",
            account="visits",
            table={"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
            label="any_visit",
            model={"kind": "columns", "score": "score", "basis": "public"},
            diagnostics="roc_curve",
            epsilon="1",
            output=str(tmp_path / "releases"),
            **fields,
        )

    return operator


def test_a_figure_that_meets_it_passes_and_is_in_xcom(make: Make, found: dict[str, Any]) -> None:
    returned = make(gate="roc_curve.auc.lower >= 0.5").execute(make_context())
    [auc] = returned["figures"]
    assert (auc["name"], auc["value"]) == ("roc_curve.auc", found["roc_curve"]["auc"])


@pytest.mark.parametrize(
    ("epsilon", "gate"),
    [("1", "roc_curve.auc.lower >= 0.99"), ("0.0001", "roc_curve.auc >= 0"), ("0.0001", "roc_curve.auc <= 1")],
)
def test_another_figure_fails_the_task_after_it_was_published(
    make: Make, account: PrivacyLedger, found: dict[str, Any], epsilon: str, gate: str
) -> None:
    found["roc_curve"] = curve(epsilon)
    assert found["roc_curve"]["status"] == ("ok" if epsilon == "1" else "undefined")
    pushed: dict[str, Any] = {}
    context = make_context()
    context["ti"].xcom_push = lambda key, value: pushed.update({key: value})
    with pytest.raises(AirflowFailException, match=f"the gate {gate} does not hold; the release was published"):
        make(gate=gate).execute(context)
    assert len(account.history("visits")) == 1
    assert pushed["return_value"]["figures"][0]["name"] == "roc_curve.auc"


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_unknown_name_is_refused_before_anything_is_charged(
    make: Make, account: PrivacyLedger, found: dict[str, Any], dry_run: bool
) -> None:
    with pytest.raises(AirflowFailException, match="gate: got 'roc_curve.area'; must name a figure"):
        make(gate="roc_curve.area > 0.5", dry_run=dry_run).execute(make_context())
    assert account.history("visits") == ()


def test_what_is_no_condition_is_an_import_error(make: Make) -> None:
    with pytest.raises(InvalidRequest, match="gate: got 'roc_curve.auc'"):
        make(gate="roc_curve.auc")


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.usefixtures("airflow_database", "found")
def test_it_holds_back_what_comes_downstream(make: Make) -> None:
    with DAG("gated", schedule=None) as dag:

        @task
        def deploy() -> None:
            """Deploy the model."""

        make(gate="roc_curve.auc.lower >= 0.99") >> deploy()
    assert states(run_dag(dag)) == {"release": "failed", "deploy": "upstream_failed"}
