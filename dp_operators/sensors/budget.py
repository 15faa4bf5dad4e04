"""The sensor that holds a release back until its account can pay."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.operators.errors import LedgerAway, as_airflow_errors
from dp_operators.operators.intervals import blocks_of_run
from dp_operators.operators.keys import DEPLOYMENT, release_key
from dp_operators.triggers.budget import AWAY, NEVER, PAYS, REFUSED, PrivacyBudgetTrigger
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, plain

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.budget import PrivacyLedger
    from dp_operators.releasing.affordability import Affordability, AffordabilityCheck

ON_EXHAUSTED = ("wait", "fail", "skip")
"""What may be done while the budget does not suffice."""
BLIND = ("soft_fail", "never_fail", "silent_fail")
"""Ways of Airflow's to carry on after a failure, which a privacy gate does not have."""


def require_on_exhausted(given: str) -> None:
    """Refuse a word that names no way to meet an exhausted budget.

    Raises:
        InvalidRequest: for any other word than ``wait``, ``fail`` and ``skip``.
    """
    if given not in ON_EXHAUSTED:
        raise InvalidRequest(
            "on_exhausted", value=given, requirement=f"must be one of {', '.join(ON_EXHAUSTED)}", remedy="choose"
        )


class PrivacyBudgetSensor(BaseSensorOperator):
    """Succeeds once the account could pay for a release; until then it waits, fails or skips.

    A passing sensor is no reservation: two tasks may both pass and one of them then find the budget spent. The release
    directly after its sensor then does what the sensor's ``on_exhausted`` says. The sensor saves starting what would be
    refused, and says why. It passes on nothing but the ledger's own word: with the ledger out of
    reach it fails, and is retried like any task. All of Airflow's ways to wait work: the modes ``poke`` and
    ``reschedule``, and ``deferrable``.

    Args:
        account: the ledger account.
        epsilon, delta: what the release costs, exact decimals; templated, like ``account``, ``blocks`` and the ids.
        blocks: the ledger's blocks it is charged to; ``interval`` for those that the run is about.
        allotment: an allotment of the account that must be able to pay as well.
        on_exhausted: what to do while the budget is short. ``wait``: look again, up to ``timeout``, as a cap may be
            raised and a reservation given back; ``fail``: fail for good; ``skip``: skip this task and what hangs on it.
            A cost above the cap itself is never waited for.
        release_task_id: full id of the task that the sensor guards, in the same DAG. If its release has its charge, the
            sensor passes: a cleared run finds what it paid for, whatever the budget is by now.
        privacy_ledger_conn_id: the connection of the ledger.
        deployment: this Airflow deployment's name in release keys; by default the ledger connection's.
        deferrable: wait in the triggerer, which only reads the ledger, and hold no worker meanwhile.

    Raises:
        InvalidRequest: on construction: another ``on_exhausted``, or one of ``soft_fail``, ``never_fail`` and
            ``silent_fail``, which have no place on a privacy gate.
        AirflowFailException: the account does not exist, or cannot pay and ``on_exhausted`` or the cap says to fail.
        AirflowSkipException: it cannot pay, and ``on_exhausted`` is ``skip``.
        AirflowException: the ledger cannot be reached.
    """

    template_fields: Sequence[str] = (
        "account",
        "epsilon",
        "delta",
        "blocks",
        "allotment",
        "release_task_id",
        "privacy_ledger_conn_id",
        "deployment",
    )
    ui_color = "#f5ecdf"

    def __init__(
        self,
        *,
        account: str,
        epsilon: object,
        delta: object = 0,
        blocks: str | Sequence[str] = ("all",),
        allotment: str | None = None,
        on_exhausted: Literal["wait", "fail", "skip"] = "wait",
        release_task_id: str | None = None,
        privacy_ledger_conn_id: str = PrivacyLedgerHook.default_conn_name,
        deployment: str | None = None,
        deferrable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.account = account
        self.epsilon = epsilon
        self.delta = delta
        self.blocks = blocks
        self.allotment = allotment
        self.deferrable = deferrable
        self.on_exhausted = on_exhausted
        self.release_task_id = release_task_id
        self.privacy_ledger_conn_id = privacy_ledger_conn_id
        self.deployment = deployment
        require_on_exhausted(on_exhausted)
        for name in BLIND:
            if getattr(self, name):
                raise InvalidRequest(
                    name, value=True, requirement="has no place on a privacy gate", remedy="use on_exhausted instead"
                )

    def execute(self, context: Context) -> Any:
        """Ask until the account can pay; deferrable, ask once and leave the rest to a trigger."""
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
        """Go on with what the trigger found out."""
        status, reason = (event or {}).get("status"), (event or {}).get("reason", "the trigger said nothing")
        if status == PAYS:
            self.log.info("%s: %s", self._release(), reason)
        elif status in (NEVER, REFUSED):
            raise AirflowFailException(self._waiting_line(reason))
        else:
            raise (LedgerAway if status == AWAY else AirflowException)(self._waiting_line(reason))

    def poke(self, context: Context) -> bool:
        """Ask the ledger once."""
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
            return self._make_check(context, hook, ledger).run(ledger)

    def _serializable_check(self, context: Context) -> dict[str, Any]:
        """The question as a trigger can be given it: text and numbers written out."""
        hook = PrivacyLedgerHook(self.privacy_ledger_conn_id)
        with closing(hook.get_ledger()) as ledger:
            check = self._make_check(context, hook, ledger)
        fields = dict(vars(check), blocks=list(check.blocks))
        cost = Budget(epsilon=check.epsilon, delta=check.delta)
        return {**fields, "epsilon": plain(cost.epsilon), "delta": plain(cost.delta)}

    def _make_check(self, context: Context, hook: PrivacyLedgerHook, ledger: PrivacyLedger) -> AffordabilityCheck:
        from dp_operators.releasing.affordability import AffordabilityCheck

        key = ""
        if self.release_task_id:
            deployment = self.deployment or hook.deployment or DEPLOYMENT
            key = str(release_key(context, deployment=deployment, task_id=self.release_task_id))
        blocks = (self.blocks,) if isinstance(self.blocks, str) else tuple(self.blocks)
        return AffordabilityCheck(
            account=self.account,
            epsilon=self.epsilon,
            delta=self.delta,
            blocks=blocks_of_run(blocks, self.account, ledger, context),
            allotment=self.allotment or None,
            key=key,
        )
