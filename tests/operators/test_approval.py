"""A cap is raised by a person who has a name, and by nobody else."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.triggers.testing import SuccessTrigger

from dp_operators.budget import PrivacyLedger
from dp_operators.operators.approval import RequestMoreBudgetOperator, TaskAwaitingInput
from dp_operators.operators.errors import LedgerUnreachable
from spark_jobs.contract.errors import InvalidRequest
from tests.support.airflow import make_context


def request(**fields: Any) -> RequestMoreBudgetOperator:
    given = {"task_id": "more", "account": "visits", "epsilon": "2", "reason": "the yearly report"}
    return RequestMoreBudgetOperator(**{**given, **fields})


def answer(option: str = "Approve", user: Any = None) -> dict[str, Any]:
    return {
        "chosen_options": [option],
        "params_input": {},
        "responded_at": dt.datetime(2026, 11, 21, tzinfo=dt.UTC),
        "responded_by_user": {"id": "7", "name": "dora"} if user is None else user,
    }


@pytest.fixture
def account(airflow_ledger: PrivacyLedger) -> PrivacyLedger:
    airflow_ledger.open_account("visits", epsilon="1")
    return airflow_ledger


def test_approval_raises_the_cap_in_the_approvers_name(account: PrivacyLedger) -> None:
    request().execute_complete(make_context(), answer())
    assert account.account("visits").cap.epsilon == 2
    entry = account.log()[-1]
    assert (entry.action, entry.actor, entry.reason) == ("raised", "airflow user dora (7)", "the yearly report")
    request().execute_complete(make_context(), answer())
    assert len(account.log()) == 2


def test_second_answer_takes_nothing_back(account: PrivacyLedger) -> None:
    """A retry asks again, whatever has become of the first answer."""
    request().execute_complete(make_context(), answer())
    request().execute_complete(make_context(), answer("Reject"))
    assert account.account("visits").cap.epsilon == 2
    request().execute_complete(make_context(), answer(user={"id": "8", "name": "otto"}))
    assert [entry.action for entry in account.log()] == ["opened", "raised"]


def test_allotment_may_be_raised(account: PrivacyLedger) -> None:
    account.allot("visits", "team", epsilon="0.5")
    request(allotment="team", epsilon="0.75").execute_complete(make_context(), answer())
    assert str(account.sub_budgets("visits")[0].cap.epsilon) == "0.75"
    assert account.account("visits").cap.epsilon == 1


def test_rejection_raises_nothing(account: PrivacyLedger) -> None:
    request().execute_complete(make_context(), answer("Reject"))
    assert account.account("visits").cap.epsilon == 1


def test_approval_by_nobody_raises_nothing(account: PrivacyLedger) -> None:
    with pytest.raises(AirflowFailException, match="does not say who approved"):
        request().execute_complete(make_context(), answer(user={}))
    with pytest.raises(InvalidRequest, match="a timeout may not approve a higher cap"):
        request(defaults="Approve")
    with pytest.raises(InvalidRequest, match="reason: got ''; must be given"):
        request(reason="")
    for nobody in ({"id": "Anonymous", "name": "Anonymous"}, {"id": "9", "name": " anonymous"}, {"id": "anonymous"}):
        with pytest.raises(AirflowFailException, match="does not say who approved"):
            request().execute_complete(make_context(), answer(user=nobody))
    assert account.account("visits").cap.epsilon == 1


def ask(operator: RequestMoreBudgetOperator, monkeypatch: pytest.MonkeyPatch, **run: Any) -> str:
    """What the person who is asked reads."""
    asked: list[str] = []
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.HITLOperator.execute",
        lambda operator, _: asked.append(operator.body),
    )
    context = make_context(task_id="more")
    vars(context["dag_run"]).update(run)
    operator.execute(context)
    return asked[0]


def test_question_shows_figures_in_plain_words(account: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    account.reserve("visits", release="r", epsilon="0.75")
    with DAG("visits", schedule=None):
        operator = request()
        operator >> [EmptyOperator(task_id="release_visits"), EmptyOperator(task_id="send")]
    body = ask(operator, monkeypatch, triggering_user_name="ada <b>")
    for line in (
        "the yearly report",
        "|  | **now** | **if approved** |",
        "| cap | epsilon 1 | epsilon 2 |",
        "| spent | epsilon 0.75 | epsilon 0.75 |",
        "| left | epsilon 0.25 | epsilon 1.25 |",
        "| how sure an observer can become | at most 74% sure | at most 89% sure |",
        "An observer knows everything but whether one particular row is in the table, and holds both for",
        r"- asked by: ada \<b\>",
        r"- waiting for it: release\_visits, send",
        r"run scheduled\_\_2026-11-20",
    ):
        assert line in body
    assert "asked by: nobody" in ask(request(), monkeypatch)


def test_question_about_blocks_and_sub_budgets_shows_the_tightest(
    airflow_ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow_ledger.open_account("visits", composition="zcdp", rho="1", delta="1e-6", blocks="day(at)")
    airflow_ledger.allot("visits", "team", rho="0.5")
    for day, rho in (("2026-11-20", "0.1"), ("2026-11-21", "0.4")):
        airflow_ledger.reserve("visits", release=day, rho=rho, blocks=day, allotment="team")
    body = ask(request(epsilon=None, rho="0.8", allotment="team"), monkeypatch)
    assert "| cap | rho 0.5 | rho 0.8 |" in body
    assert "| spent in block 2026-11-21, which has the least left | rho 0.4 | rho 0.4 |" in body
    assert "| left | rho 0.1 | rho 0.4 |" in body
    assert "except with a probability of about 0.000001" in body


def test_cap_that_cannot_be_raised_is_not_asked_for(account: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException, match="must be at least epsilon 1"):
        ask(request(epsilon="0.5"), monkeypatch)


def test_cap_that_would_be_lower_fails_for_good(account: PrivacyLedger) -> None:
    with pytest.raises(AirflowFailException, match="must be at least epsilon 1"):
        request(epsilon="0.5").execute_complete(make_context(), answer())


def test_ledger_out_of_reach_may_be_tried_again(connect: Any) -> None:
    connect("privacy_ledger_default", conn_type="privacy_ledger", host="127.0.0.1", port=1, schema="ledger")
    with pytest.raises(AirflowException) as failed:
        request().execute_complete(make_context(), answer())
    assert type(failed.value) is LedgerUnreachable


def test_question_says_what_is_asked(account: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    account.allot("visits", "team", epsilon="0.5")
    asked = request(allotment="team")
    ask(asked, monkeypatch)
    assert asked.subject == "Raise the privacy budget of sub-budget team of account visits to epsilon 2?"
    assert asked.options == ["Approve", "Reject"]


def test_headline_and_figures_are_of_one_rendering(account: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A template may give another value whenever it is rendered."""
    values = iter(range(2, 100))
    asked = request(epsilon="{{ another() }}")
    asked.render_template_fields({"another": lambda: next(values)})  # type: ignore[typeddict-unknown-key]
    body = ask(asked, monkeypatch)
    assert asked.subject == f"Raise the privacy budget of account visits to epsilon {asked.epsilon}?"
    assert f"| cap | epsilon 1 | epsilon {asked.epsilon} |" in body


def test_only_those_who_are_assigned_may_approve() -> None:
    approver = {"id": "7", "name": "dora"}
    assert request(assigned_users=approver).assigned_users == [approver]


def test_what_was_asked_is_raised_whatever_its_templates_say_by_then(
    account: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(*_: object) -> None:
        trigger = {"trigger": SuccessTrigger()} if TaskAwaitingInput is TaskDeferred else {}
        raise TaskAwaitingInput(method_name="execute_complete", **trigger)

    monkeypatch.setattr("airflow.providers.standard.operators.hitl.HITLOperator.execute", wait)
    with pytest.raises(TaskAwaitingInput) as waiting:
        request(epsilon=2).execute(make_context(task_id="more"))
    later = request(epsilon="1000", reason="another one", account="another")
    later.execute_complete(make_context(), answer(), **(waiting.value.kwargs or {}))
    assert account.account("visits").cap.epsilon == 2
    assert account.log()[-1].reason == "the yearly report"


def test_reason_cannot_pose_as_a_figure(account: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    body = ask(request(reason="fine\n\n| left | 1 | 100 |\n![x](https://evil)"), monkeypatch)
    assert body.startswith(r"- reason: fine \| left \| 1 \| 100 \| !\[x\](https://evil)")
    assert body.count("\n| left |") == 1


@pytest.mark.parametrize("name", ["subject", "body"])
def test_question_is_not_the_dags_own(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{name}: got 'A little more'; must not be given: the question says"):
        request(**{name: "A little more"})
