"""An operator that raises a cap after a person has approved it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.hitl import ApprovalOperator

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.operators.errors import as_airflow_errors
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Context

try:
    from airflow.sdk.exceptions import TaskAwaitingInput  # noqa: TID251
except ImportError:  # Airflow 3.1 and 3.2 defer a task that waits for a person
    from airflow.providers.common.compat.sdk import TaskDeferred as TaskAwaitingInput  # type: ignore[assignment]

QUESTION = ("account", "epsilon", "delta", "rho", "reason", "allotment", "privacy_ledger_conn_id")
"""The attributes that say what is asked."""
REFUSED = {
    "defaults": "a timeout may not approve a higher cap",
    "subject": "the question says itself what is asked",
    "body": "the question says itself what is asked, and for what reason",
}
"""Airflow's own arguments that would answer the question, or describe it otherwise than it is."""
ANONYMOUS = "anonymous"
"""The name of Airflow's user who may be anybody, in lower case."""


class RequestMoreBudgetOperator(ApprovalOperator):
    """Asks a person to approve a higher cap, and raises it; the person's name and the reason go into the audit log.

    The question shows the cap now and the one asked for, what is spent and left, what both caps promise in plain words,
    who asks, and which tasks wait. A cap that cannot be raised to this value fails before anybody is asked. Whoever is
    signed in as nobody in particular, as in Airflow's all-admins mode, cannot approve.

    If the person rejects it, nothing is raised and the downstream tasks are skipped. A default answer is not accepted,
    so that a timeout never approves. Approving a second time changes nothing, and a later rejection does not lower the
    cap.

    Airflow keeps an answer only for the try in which it was given, so every retry asks again; this includes a retry
    after an approval for which the ledger could not be reached. Airflow 3.3.2 may also fail or retry a task that is
    answered within about a second, before its scheduler has noticed that the task is waiting ("finished with state
    success, but the task instance's state attribute is queued"). The ledger shows whether the cap was raised. With
    ``retries``, the person is then asked a second time; without, clear the task.

    What was asked is kept with the waiting task and raised as it was asked, so that a template whose value changes
    between the question and the answer changes nothing.

    Args:
        account: the ledger account.
        epsilon, delta, rho: the new cap of each block; a part that is not given stays as it is.
        reason: why more is needed; shown to the person, and written to the audit log.
        allotment: a sub-budget of the account, whose cap is raised instead of the account's.
        privacy_ledger_conn_id: the connection of the ledger; its login needs the grant ``administer``.
        assigned_users: Airflow's own argument: ``{"id", "name"}`` of the users who may approve; by default everybody
            who may respond for the DAG.

    Raises:
        InvalidRequest: on construction, if ``defaults``, ``subject`` or ``body`` are given or the reason is missing.
        AirflowFailException: the cap cannot be raised to this value, or Airflow does not name the approver.
        AirflowException: the ledger cannot be reached; a retry asks again.
    """

    template_fields: Collection[str] = (
        *ApprovalOperator.template_fields,
        *QUESTION,
    )
    ui_color = "#f5ecdf"
    body: str | None

    def __init__(
        self,
        *,
        account: str,
        reason: str,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        allotment: str | None = None,
        privacy_ledger_conn_id: str = PrivacyLedgerHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        for name, why in REFUSED.items():
            if kwargs.get(name) is not None:
                raise InvalidRequest(
                    name, value=kwargs[name], requirement=f"must not be given: {why}", remedy="leave it out"
                )
        if not reason:
            raise InvalidRequest("reason", value=reason, requirement="must be given", remedy="say why more is needed")
        super().__init__(**{**kwargs, "subject": "Raise a privacy budget?", "body": None})
        self.account = account
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.reason = reason
        self.allotment = allotment
        self.privacy_ledger_conn_id = privacy_ledger_conn_id

    def execute(self, context: Context) -> Any:
        """Ask the person, with all that the decision needs."""
        with as_airflow_errors(), closing(PrivacyLedgerHook(self.privacy_ledger_conn_id).get_ledger()) as ledger:
            decision = ledger.cap_decision(
                self.account, epsilon=self.epsilon, delta=self.delta, rho=self.rho, allotment=self.allotment or None
            )
        self.subject = self._headline()
        facts = {"reason": str(self.reason), **self._askers(context)}
        rows = [
            ("", "**now**", "**if approved**"),
            ("---",) * 3,
            *(tuple(map(_verbatim, row)) for row in decision.rows()),
        ]
        self.body = "\n".join([
            *(f"- {name}: {_verbatim(text)}" for name, text in facts.items()),
            "",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
            _verbatim(decision.observer()),
        ])  # fmt: skip
        try:
            return super().execute(context)
        except TaskAwaitingInput as waiting:
            waiting.kwargs = {**(waiting.kwargs or {}), "question": self._question()}
            raise

    def _headline(self) -> str:
        """What is asked, by the parameters as they were rendered: a second rendering may give other values."""
        parts = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        new_cap = ", ".join(f"{name} {value}" for name, value in parts.items() if value)
        whose = (
            f"sub-budget {self.allotment} of account {self.account}" if self.allotment else f"account {self.account}"
        )
        return f"Raise the privacy budget of {whose} to {new_cap}?"

    def _question(self) -> dict[str, str | None]:
        values = {name: getattr(self, name) for name in QUESTION}
        return {name: None if value is None else str(value) for name, value in values.items()}

    def _askers(self, context: Context) -> dict[str, str]:
        run = context["dag_run"]
        who = getattr(run, "triggering_user_name", None) or "nobody: the run was not triggered by a user"
        waiting = sorted(self.get_flat_relative_ids(upstream=False)) if self.has_dag() else []
        return {
            "asked by": who,
            "in": f"task {self.task_id} of run {run.run_id}",
            "waiting for it": ", ".join(waiting) or "no task of this DAG",
        }

    def execute_complete(
        self, context: Context, event: dict[str, Any], question: Mapping[str, str | None] | None = None
    ) -> Any:
        """Raise the cap if the person has approved it, to what the question said."""
        for field, value in (question or {}).items():
            setattr(self, field, value)
        answer = super().execute_complete(context, event)
        if answer["chosen_options"] != [self.APPROVE]:
            return answer
        person = answer["responded_by_user"] or {}
        name = person.get("name") or person.get("id")
        if not name or name.strip().lower() == ANONYMOUS or str(person.get("id") or "").strip().lower() == ANONYMOUS:
            raise AirflowFailException("the cap is not raised: Airflow does not say who approved")
        with as_airflow_errors(), closing(PrivacyLedgerHook(self.privacy_ledger_conn_id).get_ledger()) as ledger:
            ledger.raise_cap(
                self.account,
                epsilon=self.epsilon,
                delta=self.delta,
                rho=self.rho,
                allotment=self.allotment or None,
                actor=f"airflow user {name} ({person.get('id') or '-'})",
                reason=self.reason,
            )
        self.log.info("%s raised the cap of account %s", name, self.account)
        return answer


def _verbatim(text: str) -> str:
    """Text on one line that Markdown shows as it is; names come from DAGs, users and tables."""
    line = " ".join(text.split())
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", line)
