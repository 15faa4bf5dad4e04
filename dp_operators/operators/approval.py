"""A higher cap, once somebody who answers for it has approved."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.operators.errors import as_airflow_errors
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Context


class RequestMoreBudgetOperator(ApprovalOperator):
    """Asks a person to raise a cap, and raises it if they approve: their name and the reason go into the audit log.

    Rejected, nothing is raised and what hangs on the task is skipped. Nobody approves by staying silent: a default
    answer is refused. Approving again finds the cap raised and changes nothing; rejecting later does not take it back.

    Every retry asks anew: Airflow forgets the answer with the try that it was given to. So an approval that found the
    ledger out of reach has to be given again. Airflow 3.3.2 also fails a task, or retries it, that is answered within
    about a second of asking, before its scheduler has noticed that the process that asked has ended ("finished with
    state success, but the task instance's state attribute is queued"). The cap may be raised by then or not, and the
    ledger says which; with ``retries`` the person is asked a second time, and without, clear the task.

    Args:
        account: the ledger account.
        epsilon, delta, rho: the new cap of each block; what is not given stays.
        reason: why more is needed; shown to the person, and kept.
        allotment: an allotment of the account whose cap is to be raised instead.
        privacy_ledger_conn_id: the connection of the ledger; its login needs the part ``administer``.
        assigned_users: Airflow's own argument: ``{"id", "name"}`` of those whose approval counts; by default of anybody
            who may answer for the DAG.

    Raises:
        InvalidRequest: on construction: ``defaults`` are given, or no reason.
        AirflowFailException: the cap cannot be raised so, or nobody's name is known.
        AirflowException: the ledger cannot be reached; a retry asks again.
    """

    template_fields: Collection[str] = (
        *ApprovalOperator.template_fields,
        "account",
        "epsilon",
        "delta",
        "rho",
        "reason",
        "allotment",
        "privacy_ledger_conn_id",
    )
    ui_color = "#f5ecdf"

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
        subject: str | None = None,
        body: str | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("defaults") is not None:
            raise InvalidRequest(
                "defaults",
                value=kwargs["defaults"],
                requirement="have no place here: nobody approves by staying silent",
                remedy="leave them out",
            )
        if not reason:
            raise InvalidRequest("reason", value=reason, requirement="must be given", remedy="say why more is needed")
        new_cap = ", ".join(
            f"{name} {value}" for name, value in (("epsilon", epsilon), ("delta", delta), ("rho", rho)) if value
        )
        whose = f"allotment {allotment} of account {account}" if allotment else f"account {account}"
        super().__init__(
            subject=subject or f"Raise the privacy budget of {whose} to {new_cap}?",
            body=body or reason,
            **kwargs,
        )
        self.account = account
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.reason = reason
        self.allotment = allotment
        self.privacy_ledger_conn_id = privacy_ledger_conn_id

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on with the person's answer."""
        answer = super().execute_complete(context, event)
        if answer["chosen_options"] != [self.APPROVE]:
            return answer
        person = answer["responded_by_user"] or {}
        name = person.get("name") or person.get("id")
        if not name:
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
