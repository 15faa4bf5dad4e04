"""A cap is raised by a person who has a name, and by nobody else."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.triggers.testing import SuccessTrigger

from dp_operators.budget import PrivacyLedger
from dp_operators.operators.approval import RequestMoreBudgetOperator, TaskAwaitingInput
from dp_operators.tasks.errors import LedgerUnreachable
from spark_jobs.contract.errors import InvalidRequest
from tests.support.airflow import make_context


def request(**fields: Any) -> RequestMoreBudgetOperator:
    given = {"task_id": "more", "account": "visits", "epsilon": "2", "reason": "the yearly report"}
    return RequestMoreBudgetOperator(**{**given, **fields})


@dataclass(frozen=True)
class Asked:
    """A question that waits: what the person reads, the option that approves, and what is kept with the task."""

    subject: str
    body: str
    option: str
    kept: dict[str, Any]


def context_of(asker: str | None = "ada") -> Any:
    context = make_context(task_id="more")
    vars(context["dag_run"])["triggering_user_name"] = asker
    return context


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own operator parks the task, and remembers nothing here."""

    def wait(*_: object) -> None:
        trigger = {"trigger": SuccessTrigger()} if TaskAwaitingInput is TaskDeferred else {}
        raise TaskAwaitingInput(method_name="execute_complete", **trigger)

    monkeypatch.setattr("airflow.providers.standard.operators.hitl.HITLOperator.execute", wait)


def ask(operator: RequestMoreBudgetOperator, asker: str | None = "ada") -> Asked:
    """Ask, as a task does."""
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator.execute(context_of(asker))
    assert operator.options[1:] == ["Reject"]
    return Asked(operator.subject, str(operator.body), operator.options[0], waiting.value.kwargs or {})


def answer(option: str, user: Any = None) -> dict[str, Any]:
    return {
        "chosen_options": [option],
        "params_input": {},
        "responded_at": dt.datetime(2026, 11, 21, tzinfo=dt.UTC),
        "responded_by_user": {"id": "7", "name": "dora"} if user is None else user,
    }


def approve(asked: Asked, user: Any = None, *, asker: str | None = "ada", option: str = "", **fields: Any) -> None:
    """Resume the task after an answer, in another process: of the question it knows what was kept with it."""
    request(**fields).execute_complete(context_of(asker), answer(option or asked.option, user), **asked.kept)


@pytest.fixture
def account(airflow_ledger: PrivacyLedger) -> PrivacyLedger:
    airflow_ledger.open_account("visits", epsilon="1")
    return airflow_ledger


def test_approval_raises_the_cap_in_the_approvers_name(account: PrivacyLedger) -> None:
    asked = ask(request())
    approve(asked)
    assert account.account("visits").cap.epsilon == 2
    entry = account.log()[-1]
    assert (entry.action, entry.actor, entry.reason) == ("raised", "airflow user dora (7)", "the yearly report")
    approve(asked)
    assert len(account.log()) == 2


def test_second_answer_takes_nothing_back(account: PrivacyLedger) -> None:
    """A retry asks again, whatever has become of the first answer."""
    asked = ask(request())
    approve(asked)
    approve(asked, option="Reject")
    assert account.account("visits").cap.epsilon == 2
    approve(ask(request()), {"id": "8", "name": "otto"})
    assert [entry.action for entry in account.log()] == ["opened", "raised"]


def test_allotment_may_be_raised(account: PrivacyLedger) -> None:
    account.allot("visits", "team", epsilon="0.5")
    approve(ask(request(allotment="team", epsilon="0.75")))
    assert str(account.sub_budgets("visits")[0].cap.epsilon) == "0.75"
    assert account.account("visits").cap.epsilon == 1


def test_rejection_raises_nothing(account: PrivacyLedger) -> None:
    approve(ask(request()), option="Reject")
    assert account.account("visits").cap.epsilon == 1


def test_approval_by_nobody_raises_nothing(account: PrivacyLedger) -> None:
    asked = ask(request())
    with pytest.raises(AirflowFailException, match="does not say who approved"):
        approve(asked, {})
    with pytest.raises(InvalidRequest, match="a timeout may not approve a higher cap"):
        request(defaults="Approve")
    with pytest.raises(InvalidRequest, match="reason: got ''; must be given"):
        request(reason="")
    for nobody in ({"id": "Anonymous", "name": "Anonymous"}, {"id": "9", "name": " anonymous"}, {"id": "anonymous"}):
        with pytest.raises(AirflowFailException, match="does not say who approved"):
            approve(asked, nobody)
    assert account.account("visits").cap.epsilon == 1


OTHERS = {
    "other amounts": {"epsilon": "5000"},
    "another account": {"account": "sales"},
    "another reason": {"reason": "because"},
    "a sub-budget": {"allotment": "team"},
    "the same question": {},
}


@pytest.mark.parametrize("others", OTHERS.values(), ids=list(OTHERS))
def test_approval_of_one_question_is_none_of_another(account: PrivacyLedger, others: dict[str, str]) -> None:
    """A run that is deleted and triggered again, a changed variable and a cleared task each ask anew."""
    account.open_account("sales", epsilon="1")
    account.allot("visits", "team", epsilon="1")
    before = account.log()
    shown, swapped = ask(request(epsilon="12")), ask(request(**{"epsilon": "12", **others}))
    assert shown.option.startswith("Approve epsilon 12 (")
    assert shown.option != swapped.option  # so that Airflow's API refuses it: it accepts a question's own options only
    with pytest.raises(AirflowFailException, match="the cap is not raised: .* another question was answered"):
        approve(swapped, option=shown.option)
    with pytest.raises(AirflowFailException, match="another question was answered"):
        approve(shown, asker="eve")
    with pytest.raises(AirflowFailException, match="not known which question"):
        approve(Asked("", "", "", {}), option=shown.option)
    with pytest.raises(AirflowFailException, match="not known which question"):
        approve(Asked("", "", "", {"question": {"account": "visits", "epsilon": "12"}}), option="Approve")
    assert account.log() == before


def test_approval_of_a_cap_that_has_changed_since_raises_nothing(account: PrivacyLedger) -> None:
    asked = ask(request(epsilon="12"))
    account.raise_cap("visits", epsilon="3", actor="dba", reason="meanwhile")
    with pytest.raises(AirflowFailException, match="the cap has changed since"):
        approve(asked)
    assert account.account("visits").cap.epsilon == 3


def test_requester_does_not_approve_unless_the_account_says_so(account: PrivacyLedger) -> None:
    asked = ask(request(), asker="Dora")
    for user in ({"id": "7", "name": "dora"}, {"id": "dora", "name": "D."}):
        with pytest.raises(AirflowFailException, match="Dora asked for it, and this account wants another person"):
            approve(asked, user, asker="Dora")
    assert account.account("visits").cap.epsilon == 1
    account.set_approvals("visits", requester_approves=True, actor="dba", reason="a team of one")
    approve(asked, asker="Dora")
    assert account.account("visits").cap.epsilon == 2
    account.set_approvals("visits", requester_approves=False, actor="dba", reason="a team of two")
    asked = ask(request(epsilon="4"), asker=None)
    approve(asked, asker=None)
    assert account.account("visits").cap.epsilon == 4
    assert account.verify()


@pytest.mark.parametrize(
    "reason", ["fine\n\n| left | 1 | 100 |", " ", "\t", "a" * 501, "é" * 251, "bell \a", 7], ids=range(7)
)
def test_reason_that_the_log_cannot_hold_is_refused_before_anybody_is_asked(
    account: PrivacyLedger, reason: Any
) -> None:
    with pytest.raises(AirflowFailException, match="reason: .*must be printable text of 1 to 500 bytes"):
        request(reason=reason).execute(context_of())


def test_question_says_what_is_asked_and_links_to_the_figures(account: PrivacyLedger) -> None:
    """Whoever may respond to a task need not see its ledger: the figures stand on a page that asks who looks."""
    account.reserve("visits", release="r", epsilon="0.75")
    with DAG("visits", schedule=None):
        operator = request(account="visits")
        operator >> [EmptyOperator(task_id="release_visits"), EmptyOperator(task_id="send")]
    asked = ask(operator, "ada <b>")
    assert asked.subject == "Raise the privacy budget of account visits to epsilon 2?"
    for line in (
        "- reason: the yearly report",
        r"- asked by: ada \<b\>",
        r"- waiting for it: release\_visits, send",
        r"run scheduled\_\_2026-11-20",
        "(/privacy-ledger/privacy_ledger_default/account?name=visits&epsilon=2), for those who may see the ledger",
        "An observer knows everything but whether one particular row is in the table",
    ):
        assert line in asked.body
    for secret in ("0.75", "0.25", "1.25", "% sure"):
        assert secret not in asked.body
    assert "asked by: nobody" in ask(request(), None).body


def test_option_does_not_reveal_the_cap(account: PrivacyLedger) -> None:
    """Its hash has a nonce that is kept with the task: otherwise, the cap could be found by trying."""
    first, second = ask(request()), ask(request())
    assert first.option != second.option
    assert re.fullmatch(r"Approve epsilon 2 \([0-9a-f]{16}\)", first.option)
    assert len(first.kept["question"]["nonce"]) == 32


def test_cap_that_cannot_be_raised_is_not_asked_for(account: PrivacyLedger) -> None:
    with pytest.raises(AirflowFailException, match="must be at least epsilon 1"):
        request(epsilon="0.5").execute(context_of())


def test_ledger_out_of_reach_may_be_tried_again(account: PrivacyLedger, connect: Any) -> None:
    asked = ask(request())
    connect("privacy_ledger_default", conn_type="privacy_ledger", host="127.0.0.1", port=1, schema="ledger", login="me")
    with pytest.raises(AirflowException) as failed:
        approve(asked)
    assert type(failed.value) is LedgerUnreachable
    assert "connection:privacy_ledger_default cannot be used: " in str(failed.value)
    assert "127.0.0.1" not in str(failed.value)
    assert "me@" not in str(failed.value)


def test_question_about_a_sub_budget_names_it(account: PrivacyLedger) -> None:
    account.allot("visits", "team", epsilon="0.5")
    asked = ask(request(allotment="team"))
    assert asked.subject == "Raise the privacy budget of sub-budget team of account visits to epsilon 2?"
    assert "name=visits&epsilon=2&allotment=team)" in asked.body


def test_headline_and_option_are_of_one_rendering(account: PrivacyLedger) -> None:
    """A template may give another value whenever it is rendered."""
    values = iter(range(2, 100))
    operator = request(epsilon="{{ another() }}")
    operator.render_template_fields({"another": lambda: next(values)})  # type: ignore[typeddict-unknown-key]
    asked = ask(operator)
    assert asked.subject == f"Raise the privacy budget of account visits to epsilon {operator.epsilon}?"
    assert asked.option.startswith(f"Approve epsilon {operator.epsilon} (")
    assert f"&epsilon={operator.epsilon})" in asked.body


def test_only_those_who_are_assigned_may_approve() -> None:
    approver = {"id": "7", "name": "dora"}
    assert request(assigned_users=approver).assigned_users == [approver]


def test_what_was_asked_is_raised_whatever_its_templates_say_by_then(account: PrivacyLedger) -> None:
    approve(ask(request(epsilon=2)), epsilon="1000", reason="another one", account="another")
    assert account.account("visits").cap.epsilon == 2
    assert account.log()[-1].reason == "the yearly report"


def test_reason_cannot_pose_as_a_figure(account: PrivacyLedger) -> None:
    body = ask(request(reason="fine | left | 1 | 100 | ![x](https://evil)")).body
    assert body.startswith(r"- reason: fine \| left \| 1 \| 100 \| !\[x\](https://evil)")


@pytest.mark.parametrize("name", ["subject", "body"])
def test_question_is_not_the_dags_own(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{name}: got 'A little more'; must not be given: the question says"):
        request(**{name: "A little more"})
