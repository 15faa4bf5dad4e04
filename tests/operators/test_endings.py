"""How a release's task ends, end to end: with its figures, and as its parameters say; the application is a stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException

from dp_operators.budget import PrivacyLedger
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.headlines import headlines
from spark_jobs.contract.left_out import LeftOut
from tests.operators.test_gate import curve
from tests.support.accounts import open_bound
from tests.support.airflow import make_context

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fake_application")]

UNDEFINED = curve("0.0001")
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def account(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    open_bound(airflow_ledger, "visits", epsilon="4", table="/lake/visits", output=tmp_path / "releases")
    return airflow_ledger


@pytest.fixture
def run(account: PrivacyLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the task of one release whose application finds a result; gives what XCom gets."""
    path = tmp_path / "found.json"
    monkeypatch.setenv("DP_FAKE_FOUND", str(path))

    def execute(result: dict[str, Any], *, left_out: LeftOut | None = None, **fields: Any) -> dict[str, Any]:
        about = {} if left_out is None else {"left_out": left_out.model_dump(mode="json")}
        path.write_text(json.dumps({"results": {"roc_curve": result}, **about}))
        given = {
            "account": "visits",
            "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
            "label": "any_visit",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": "roc_curve",
            "epsilon": "1",
            "output": str(tmp_path / "releases"),
        }
        whole = {"request": fields.pop("request")} if "request" in fields else given
        context, pushed = make_context(), {}
        context["ti"].xcom_push = lambda key, value: pushed.update({key: value})
        try:
            return ReleaseDiagnosticsOperator(task_id="release", **whole, **fields).execute(context)
        except AirflowException as ended:
            ended.pushed = pushed.get("return_value")  # type: ignore[attr-defined]
            raise

    return execute


@pytest.mark.parametrize(
    ("ending", "error"), [("publish", None), ("skip", AirflowSkipException), ("fail", AirflowFailException)]
)
def test_an_undefined_release_is_published_and_recorded_however_the_task_ends(
    account: PrivacyLedger, run: Run, ending: str, error: type[Exception] | None
) -> None:
    for _ in range(2):  # a cleared task ends alike, and pays nothing more
        if error is None:
            returned = run(UNDEFINED, on_undefined=ending)
        else:
            with pytest.raises(error, match="undefined because of the noise: roc_curve; the release was publ") as ended:
                run(UNDEFINED, on_undefined=ending)
            returned = ended.value.pushed  # type: ignore[attr-defined]
        assert returned["status"] == {"roc_curve": "undefined"}
        assert [one["value"] for one in returned["figures"]] == [None]
        assert (Path(returned["uri"]) / "release.json").is_file()
        [charge] = account.history("visits")
        assert (charge.state, list(charge.figures or ())) == ("committed", returned["figures"])
    assert account.verification().findings == ()


def test_xcom_the_ledger_and_the_last_line_have_the_same_figures(
    account: PrivacyLedger, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    noisy = {"not_parsed": 3000, "null": 0, "outside": 0}
    left_out = LeftOut.of_counts(noisy, scale=10, max_rows=1, by_unit=False)
    returned = run(curve("1"), left_out=left_out)
    [auc] = headlines({"roc_curve": curve("1")})
    [charge] = account.history("visits")
    assert returned["figures"] == [auc.to_dict()] == list(charge.figures or ())
    *_, rows, last = "".join(capfd.readouterr()).splitlines()
    assert left_out.line() in rows
    assert f"{auc}, epsilon 1, 3 left, report: {returned['uri']}/report.html" in last


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_the_gate_of_the_requests_file_is_the_tasks(
    account: PrivacyLedger, run: Run, tmp_path: Path, suffix: str
) -> None:
    fields = {
        "account": "visits", "table": {"snapshot": {"path_version": "v1"}}, "label": "any_visit",
        "model": {"kind": "columns", "score": "score", "basis": "public"}, "diagnostics": ["roc_curve"],
        "budget": {"epsilon": "1"}, "gate": "roc_curve.auc.lower >= 0.99",
    }  # fmt: skip
    file = tmp_path / f"request.{suffix}"
    file.write_text(json.dumps(fields))
    with pytest.raises(AirflowFailException, match=r"the gate roc_curve.auc.lower >= 0.99 does not hold"):
        run(curve("1"), request=str(file))
    file.write_text(json.dumps({**fields, "gate": "roc_curve.auc.lower >= 0.5"}))
    run(curve("1"), request=str(file))
    file.write_text(json.dumps({**fields, "gate": "roc_curve.aux >= 0.5"}))
    with pytest.raises(AirflowFailException, match="gate: got 'roc_curve.aux'"):
        run(curve("1"), request=str(file), dry_run=True)
    assert len(account.history("visits")) == 1, "another gate makes no other release"
