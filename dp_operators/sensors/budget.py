"""A sensor that waits until a ledger account can pay for a release."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk import BaseSensorOperator

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.tasks.errors import LedgerUnreachable, as_airflow_errors
from dp_operators.tasks.intervals import blocks_of_run
from dp_operators.tasks.keys import charged_key
from dp_operators.tasks.metrics import count_stale
from dp_operators.tasks.rendering import TextTemplates
from dp_operators.triggers.budget import NEVER, PAYS, REFUSED, UNREACHABLE, PrivacyBudgetTrigger
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import plain

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.budget import PrivacyLedger
    from dp_operators.releasing.affordability import Affordability, AffordabilityCheck

ON_EXHAUSTED = ("wait", "fail", "skip")
"""The possible actions while the budget does not suffice."""
FAILURE_HIDING = ("soft_fail", "never_fail", "silent_fail")
"""Airflow's sensor options that hide a failure; this sensor accepts none of them."""


def require_on_exhausted(given: str) -> None:
    """Refuse an ``on_exhausted`` other than ``wait``, ``fail`` and ``skip``.

    Raises:
        InvalidRequest: it is anything else.
    """
    if given not in ON_EXHAUSTED:
        raise InvalidRequest("on_exhausted", given, f"must be one of {', '.join(ON_EXHAUSTED)}", "choose one")


class PrivacyBudgetSensor(TextTemplates, BaseSensorOperator):
    """Succeeds once the account can pay for a release; until then it waits, fails or skips.

    The sensor avoids starting a release that would be refused, and logs why it waits. It reserves nothing: two tasks
    may both pass, although the budget suffices for only one of them. The release task directly downstream then does
    what the sensor's ``on_exhausted`` says. If the ledger cannot be reached, the sensor fails and is retried like any
    task. It works in the modes ``poke`` and ``reschedule``, and with ``deferrable``.

    Args:
        account: the ledger account.
        epsilon, delta: the cost of the release, as exact decimals; templated, like ``account``, ``blocks`` and the ids.
        rho: the cost in a ``zcdp`` account, in place of epsilon and delta; templated.
        blocks: the ledger's blocks to charge, or ``interval`` for the blocks of the run's data interval.
        allotment: a sub-budget of the account that must be able to pay as well.
        on_exhausted: what to do while the budget does not suffice. ``wait``: check again until ``timeout``, as a cap
            may be raised or a reservation given back; ``fail``: fail without a retry; ``skip``: skip this task and its
            downstream tasks. A cost above the cap itself always fails, unless it is skipped.
        release_task_id: full id of the release task in the same DAG. If its release has a charge already, the sensor
            passes, so that a cleared run gets the release that it has paid for, whatever budget is left.
        federation: the federation that the release task names; templated. A federation's release has one charge in this
            ledger, whichever task or run makes it; the sensor passes if the ledger has this charge.
        privacy_ledger_conn_id: the connection of the ledger.
        deployment: this Airflow deployment's name in release keys; by default the ledger connection's.
        deferrable: wait in the triggerer, which only reads the ledger, without occupying a worker.

    Raises:
        InvalidRequest: on construction: ``on_exhausted`` is unknown, or ``soft_fail``, ``never_fail`` or
            ``silent_fail`` is set; each would hide a failed budget check.
        AirflowFailException: the account does not exist, the federation is not registered for the account, or the
            account cannot pay and waiting is not wanted or cannot help.
        AirflowSkipException: the account cannot pay, and ``on_exhausted`` is ``skip``.
        AirflowException: the ledger cannot be reached.
    """

    template_fields: Sequence[str] = (
        "account",
        "epsilon",
        "delta",
        "rho",
        "blocks",
        "allotment",
        "release_task_id",
        "federation",
        "privacy_ledger_conn_id",
        "deployment",
    )
    ui_color = "#f5ecdf"

    def __init__(
        self,
        *,
        account: str,
        epsilon: object = None,
        delta: object = 0,
        rho: object = None,
        blocks: str | Sequence[str] = ("all",),
        allotment: str | None = None,
        on_exhausted: Literal["wait", "fail", "skip"] = "wait",
        release_task_id: str | None = None,
        federation: str | None = None,
        privacy_ledger_conn_id: str = PrivacyLedgerHook.default_conn_name,
        deployment: str | None = None,
        deferrable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.account = account
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.blocks = blocks
        self.allotment = allotment
        self.deferrable = deferrable
        self.on_exhausted = on_exhausted
        self.release_task_id = release_task_id
        self.federation = federation
        self.privacy_ledger_conn_id = privacy_ledger_conn_id
        self.deployment = deployment
        require_on_exhausted(on_exhausted)
        for name in FAILURE_HIDING:
            if getattr(self, name):
                raise InvalidRequest(name, True, "would hide a failed budget check", "use on_exhausted instead")

    def execute(self, context: Context) -> Any:
        """Check until the account can pay; if deferrable, check once and leave the waiting to a trigger."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            with as_airflow_errors():
                trigger = PrivacyBudgetTrigger(
                    privacy_ledger_conn_id=self.privacy_ledger_conn_id,
                    question=self._serializable_check(context),
                    poke_interval=float(self.poke_interval),
                )
            timeout = None if not self.timeout else dt.timedelta(seconds=float(self.timeout))
            self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)
        return None

    def execute_complete(self, context: Context, event: Mapping[str, str] | None = None) -> None:
        """End the task with the outcome in the trigger's event."""
        status, reason = (event or {}).get("status"), (event or {}).get("reason", "the trigger gave no reason")
        if status == PAYS:
            self.log.info("%s: %s", self._release(), reason)
        elif status in (NEVER, REFUSED):
            raise AirflowFailException(self._waiting_line(reason))
        else:
            raise (LedgerUnreachable if status == UNREACHABLE else AirflowException)(self._waiting_line(reason))

    def poke(self, context: Context) -> bool:
        """Check once whether the account can pay."""
        with as_airflow_errors():
            affordability = self._affordability(context)
        if affordability.pays:
            self.log.info("%s: %s", self._release(), affordability.reason)
            return True
        line = self._waiting_line(affordability.reason)
        self.log.info("%s", line)
        if self.on_exhausted == "skip":
            raise AirflowSkipException(line)
        if affordability.never or self.on_exhausted == "fail":
            raise AirflowFailException(line)
        return False

    def _release(self) -> str:
        return self.release_task_id or "the release"

    def _waiting_line(self, reason: str) -> str:
        return f"{self._release()} is held back: {reason}"

    def _affordability(self, context: Context) -> Affordability:
        hook = PrivacyLedgerHook(self.privacy_ledger_conn_id)
        with closing(hook.get_ledger()) as ledger:
            count_stale(self.account, ledger)
            return self._make_check(context, hook, ledger).run(ledger)

    def _serializable_check(self, context: Context) -> dict[str, Any]:
        """The check's fields as plain JSON values, for the trigger."""
        hook = PrivacyLedgerHook(self.privacy_ledger_conn_id)
        with closing(hook.get_ledger()) as ledger:
            check = self._make_check(context, hook, ledger)
        fields = dict(vars(check), blocks=list(check.blocks))
        cost = check.cost
        in_rho = {"rho": None} if cost.rho is None else {"rho": plain(cost.rho)}
        return {**fields, "epsilon": plain(cost.epsilon), "delta": plain(cost.delta), **in_rho}

    def _make_check(self, context: Context, hook: PrivacyLedgerHook, ledger: PrivacyLedger) -> AffordabilityCheck:
        from dp_operators.releasing.affordability import AffordabilityCheck

        key = ""
        if self.release_task_id or self.federation:
            key = charged_key(
                context, hook, account=self.account, federation=self.federation, deployment=self.deployment,
                task_id=self.release_task_id,
            )  # fmt: skip
        blocks = (self.blocks,) if isinstance(self.blocks, str) else tuple(self.blocks)
        return AffordabilityCheck(
            account=self.account,
            epsilon=self.epsilon,
            delta=self.delta,
            rho=self.rho,
            blocks=blocks_of_run(blocks, self.account, ledger, context),
            allotment=self.allotment or None,
            key=key,
        )
