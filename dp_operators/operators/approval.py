"""An operator that raises a cap after a person has approved it."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.hitl import ApprovalOperator

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.plugins.addresses import page_address
from dp_operators.tasks.errors import as_airflow_errors
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.budget.cap_decision import CapDecision

try:
    from airflow.sdk.exceptions import TaskAwaitingInput  # noqa: TID251
except ImportError:  # Airflow 3.1 and 3.2 defer a task that waits for a person
    from airflow.providers.common.compat.sdk import TaskDeferred as TaskAwaitingInput  # type: ignore[assignment]

AMOUNTS = ("epsilon", "delta", "rho")
QUESTION = ("account", *AMOUNTS, "reason", "allotment", "privacy_ledger_conn_id")
"""The attributes that say what is asked."""
REFUSED = {
    "defaults": "a timeout may not approve a higher cap",
    "subject": "the question says itself what is asked",
    "body": "the question says itself what is asked, and for what reason",
}
"""Airflow's own arguments that would answer the question, or describe it otherwise than it is."""
ANONYMOUS = "anonymous"
"""The name of Airflow's user who may be anybody, in lower case."""
CHANGED = "ask again: clear the task"
"""What to do where an answer does not count."""


class RequestMoreBudgetOperator(ApprovalOperator):
    """Asks a person to approve a higher cap, and raises it; the person's name and the reason go into the audit log.

    An approval counts only for what the approver saw. The option that approves names the amounts and a hash of the
    question: the account, the cap before and after, the reason and who asks. The hash differs each time the question is
    asked, so Airflow's API refuses an answer to an earlier question, even if the run was deleted and triggered again,
    the task was cleared or a template has another value. The cap is raised to the amounts of the answered question; if
    it has changed since the question was asked, nothing is raised.

    The question says what is requested, who asks and which tasks wait. It links to a page that shows, to users who may
    see the ledger, what is spent and left and what both caps guarantee. A cap that cannot be raised to this value, and
    a reason that the audit log cannot hold, fail before anybody is asked. A user without an identity of their own, as
    in Airflow's all-admins mode, cannot approve. Nor can the user who triggered the run, unless the account allows it
    (``dp-budget approvals``); a run that no user triggered may be approved by everybody who may respond.

    If the person rejects it, nothing is raised and the downstream tasks are skipped. A default answer is not accepted,
    so that a timeout never approves. If the cap already has the requested amounts, it stays as it is; a later rejection
    does not lower it.

    Airflow keeps an answer only for the try in which it was given, so every retry asks again; this includes a retry
    after an approval for which the ledger could not be reached. Airflow 3.3.2 may also fail or retry a task that is
    answered within about a second, before its scheduler has noticed that the task is waiting ("finished with state
    success, but the task instance's state attribute is queued"). The ledger shows whether the cap was raised. If the
    task has ``retries``, the person is then asked a second time; if it has none, clear the task to ask again.

    Args:
        account: the ledger account.
        epsilon, delta, rho: the new cap of each block, as exact decimals; a part that is not given stays as it is.
        reason: why more is needed; shown to the person, and written to the audit log: one line of at most 500 bytes.
        allotment: a sub-budget of the account, whose cap is raised instead of the account's.
        privacy_ledger_conn_id: the connection of the ledger; its login needs the grant ``administer``.
        assigned_users: Airflow's own argument: ``{"id", "name"}`` of the users who may approve; by default everybody
            who may respond for the DAG.

    Raises:
        InvalidRequest: on construction, if ``defaults``, ``subject`` or ``body`` are given or the reason is missing.
        AirflowFailException: the cap cannot be raised to this value, the reason is not one short line, the cap has
            changed since the question was asked, Airflow does not name the approver, or the approver is the person who
            asked and the account does not allow that.
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
                raise InvalidRequest(name, kwargs[name], f"must not be given: {why}", "leave it out")
        if not reason:
            raise InvalidRequest("reason", reason, "must be given", "say why more is needed")
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
        from dp_operators.budget.validation import name_of

        with as_airflow_errors(), closing(PrivacyLedgerHook(self.privacy_ledger_conn_id).get_ledger()) as ledger:
            name_of("reason", self.reason, limit=500)
            decision = self._decision(ledger)
        question = {"nonce": secrets.token_hex(16), **self._question()}
        self._offer(_digest(question, decision, _requester(context)))
        self.subject = f"Raise the privacy budget of {self._whose()} to {self._amounts()}?"
        query = {name: text for name in (*AMOUNTS, "allotment") if (text := question[name])}
        page = page_address(self.privacy_ledger_conn_id, "account", name=self.account, **query)
        facts = {"reason": self.reason, **self._askers(context)}
        self.body = "\n".join([
            *(f"- {name}: {_verbatim(text)}" for name, text in facts.items()),
            "",
            f"[What is spent and left, and what both caps promise]({page}), for those who may see the ledger.",
            "",
            _verbatim(decision.observer()),
        ])  # fmt: skip
        try:
            return super().execute(context)
        except TaskAwaitingInput as waiting:
            waiting.kwargs = {**(waiting.kwargs or {}), "question": question}
            raise

    def _decision(self, ledger: Any) -> CapDecision:
        decision: CapDecision = ledger.cap_decision(
            self.account, epsilon=self.epsilon, delta=self.delta, rho=self.rho, allotment=self.allotment or None
        )
        return decision

    def _offer(self, digest: str) -> None:
        """Make the option that approves the one that names the amounts and the question's hash."""
        self.APPROVE = f"Approve {self._amounts()} ({digest})"
        self.options = [self.APPROVE, self.REJECT]

    def _amounts(self) -> str:
        """The parameters as they were rendered: a second rendering may give other values."""
        return ", ".join(f"{name} {value}" for name in AMOUNTS if (value := getattr(self, name)))

    def _whose(self) -> str:
        account = f"account {self.account}"
        return f"sub-budget {self.allotment} of {account}" if self.allotment else account

    def _question(self) -> dict[str, str | None]:
        values = {name: getattr(self, name) for name in QUESTION}
        return {name: None if value is None else str(value) for name, value in values.items()}

    def _askers(self, context: Context) -> dict[str, str]:
        waiting = sorted(self.get_flat_relative_ids(upstream=False)) if self.has_dag() else []
        return {
            "asked by": _requester(context) or "nobody: the run was not triggered by a user",
            "in": f"task {self.task_id} of run {context['dag_run'].run_id}",
            "waiting for it": ", ".join(waiting) or "no task of this DAG",
        }

    def execute_complete(
        self, context: Context, event: dict[str, Any], question: Mapping[str, str | None] | None = None
    ) -> Any:
        """Raise the cap to the amounts of the question, if the person has approved this very question."""
        options = event.get("chosen_options") or []
        for field in QUESTION:
            setattr(self, field, (question or {}).get(field))
        if "error" in event or options == [self.REJECT]:
            return super().execute_complete(context, event)
        if question is None or not question.get("nonce"):
            raise _not_counted("it is not known which question was answered")
        with as_airflow_errors(), closing(PrivacyLedgerHook(self.privacy_ledger_conn_id).get_ledger()) as ledger:
            decision = self._decision(ledger)
            self._offer(_digest(question, decision, _requester(context)))
            if decision.before != decision.after and options != self.options[:1]:
                raise _not_counted("the cap has changed since, or another question was answered")
            self.APPROVE, self.options = str(options[0]), [*options, self.REJECT]
            name, identity = _person(event)
            if decision.before != decision.after and not decision.account.requester_approves:
                _require_another(_requester(context), name, identity)
            answer = super().execute_complete(context, event)
            ledger.raise_cap(
                self.account,
                epsilon=self.epsilon,
                delta=self.delta,
                rho=self.rho,
                allotment=self.allotment or None,
                actor=f"airflow user {name} ({identity or '-'})",
                reason=self.reason,
            )
        self.log.info("%s raised the cap of %s to %s", name, self._whose(), self._amounts())
        return answer


def _requester(context: Context) -> str:
    """The user who triggered the run; empty if no user did."""
    return str(getattr(context["dag_run"], "triggering_user_name", None) or "")


def _digest(question: Mapping[str, str | None], decision: CapDecision, requester: str) -> str:
    """A hash of all that is asked; its nonce keeps the caps, which few may see, from being guessed."""
    caps = [repr(vars(holder.cap)) for holder in (decision.before, decision.after)]
    parts = (*(f"{name}={question.get(name)}" for name in ("nonce", *QUESTION)), *caps, requester)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _person(event: Mapping[str, Any]) -> tuple[str, str]:
    """The name and the id of the person who answered.

    Raises:
        AirflowFailException: nobody in particular did.
    """
    person = event["responded_by_user"] or {}
    identity = str(person.get("id") or "")
    name = str(person.get("name") or identity)
    if not name or ANONYMOUS in (name.strip().lower(), identity.strip().lower()):
        raise AirflowFailException("the cap is not raised: Airflow does not say who approved")
    return name, identity


def _require_another(requester: str, *approver: str) -> None:
    if requester and requester.strip().lower() in {name.strip().lower() for name in approver}:
        raise AirflowFailException(
            f"the cap is not raised: {requester} asked for it, and this account wants another person's approval; have "
            "somebody else answer, or let it say otherwise with `dp-budget approvals`"
        )


def _not_counted(why: str) -> AirflowFailException:
    return AirflowFailException(f"the cap is not raised: {why}; {CHANGED}")


def _verbatim(text: str) -> str:
    """Text on one line that Markdown shows as it is; names come from DAGs, users and tables."""
    line = " ".join(text.split())
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", line)
