"""How a task ends whose release has undefined diagnostics: as asked for, and always after it was published."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.privacy import Budget


def task(
    status: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, warning: str = "", **fields: Any
) -> ReleaseDiagnosticsOperator:
    made = ReleaseDiagnosticsOperator(task_id="release", request="/requests/undefined.json", **fields)
    cost = Budget(epsilon="1")
    published = SimpleNamespace(
        uri="/r/1", key="k", cost=cost, status=status, adopted=False, figures=(), results={}, warning=warning
    )
    event = SimpleNamespace(published=published, account="visits", share_left=Decimal("0.5"), line="released")
    monkeypatch.setattr(made, "_publish", lambda context, awaited: event)
    return made


@pytest.fixture
def pushed() -> dict[str, Any]:
    return {}


@pytest.fixture
def context(pushed: dict[str, Any]) -> Any:
    return {"ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))}


UNDEFINED = {"auc": "undefined", "roc_curve": "ok"}


def test_it_is_said_and_the_task_ends_well_by_default(monkeypatch: pytest.MonkeyPatch, context: Any) -> None:
    assert task(UNDEFINED, monkeypatch).execute(context)["status"] == UNDEFINED


@pytest.mark.parametrize(("ending", "error"), [("skip", AirflowSkipException), ("fail", AirflowFailException)])
def test_it_ends_as_asked_for_with_the_release_in_xcom(
    monkeypatch: pytest.MonkeyPatch, context: Any, pushed: dict[str, Any], ending: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match="undefined because of the noise: auc; the release was published and paid for"):
        task(UNDEFINED, monkeypatch, on_undefined=ending).execute(context)
    assert (pushed["return_value"]["uri"], pushed["return_value"]["status"]) == ("/r/1", UNDEFINED)


@pytest.mark.parametrize("ending", ["publish", "skip", "fail"])
@pytest.mark.parametrize("status", ["ok", "shrunk", "unchecked", "partly undefined"])
def test_what_is_defined_ends_well(monkeypatch: pytest.MonkeyPatch, context: Any, ending: str, status: str) -> None:
    made = task({"auc": status}, monkeypatch, on_undefined=ending).execute(context)
    assert made["status"] == {"auc": status}


def test_another_ending_is_refused_before_anything_is_released(monkeypatch: pytest.MonkeyPatch, context: Any) -> None:
    made = ReleaseDiagnosticsOperator(task_id="release", request="/requests/undefined.json", on_undefined="ignore")
    monkeypatch.setattr("dp_operators.releasing.release", lambda *_, **__: pytest.fail("released"))
    with pytest.raises(AirflowFailException, match="on_undefined: got 'ignore'"):
        made.execute(context)


def test_the_last_line_is_the_one_with_the_report(
    monkeypatch: pytest.MonkeyPatch, context: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    made = task(UNDEFINED, monkeypatch, warning="about 4,000 rows lack a value", on_undefined="fail")
    with pytest.raises(AirflowFailException):
        made.execute(context)
    shown = "".join(capfd.readouterr()).splitlines()
    lines = ("about 4,000 rows lack a value", "undefined because of the noise: auc; the release was", "released")
    assert all(line in one for line, one in zip(lines, shown[-3:], strict=True)), shown
