"""The sensor that holds a release back until its account can pay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.operators.keys import DEPLOYMENT, release_key
from dp_operators.operators.outcomes import told_to_airflow
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import Budget, plain

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.budget import PrivacyLedger

ON_EXHAUSTED = ("wait", "fail", "skip")
BLIND = ("soft_fail", "never_fail", "silent_fail")
"""Ways of Airflow's to carry on after a failure, which a privacy gate does not have."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Whether an account can pay, in figures that are its own and public.

    Attributes:
        pays: it can, now.
        never: it never can, because the cost is above the cap.
        reason: why or why not, in one line.
    """

    pays: bool
    never: bool = False
    reason: str


class PrivacyBudgetSensor(BaseSensorOperator):
    """Succeeds once the account could pay for a release; until then it waits, fails or skips.

    A passing sensor is no reservation: two tasks may both pass and one of them then find the budget spent. It saves
    starting what would be refused, and says why. It passes on nothing but the ledger's own word: with the ledger out of
    reach it fails, and is retried like any task. Both modes of Airflow's sensors work: ``poke`` and ``reschedule``.

    Args:
        account: the ledger account.
        epsilon, delta: what the release costs, exact decimals; templated, like ``account``, ``blocks`` and the ids.
        blocks: the ledger's blocks it is charged to.
        on_exhausted: what to do while the budget is short. ``wait``: look again, up to ``timeout``, as a cap may be
            raised and a reservation given back; ``fail``: fail for good; ``skip``: skip this task and what hangs on it.
            A cost above the cap itself is never waited for.
        release_task_id: full id of the task that the sensor guards, in the same DAG. If its release has its charge, the
            sensor passes: a cleared run finds what it paid for, whatever the budget is by now.
        privacy_ledger_conn_id: the connection of the ledger.
        deployment: this Airflow deployment's name in release keys; by default the ledger connection's.

    Raises:
        RequestRefused: on construction: another ``on_exhausted``, or one of ``soft_fail``, ``never_fail`` and
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
        on_exhausted: Literal["wait", "fail", "skip"] = "wait",
        release_task_id: str | None = None,
        privacy_ledger_conn_id: str = PrivacyLedgerHook.default_conn_name,
        deployment: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.account = account
        self.epsilon = epsilon
        self.delta = delta
        self.blocks = blocks
        self.on_exhausted = on_exhausted
        self.release_task_id = release_task_id
        self.privacy_ledger_conn_id = privacy_ledger_conn_id
        self.deployment = deployment
        if on_exhausted not in ON_EXHAUSTED:
            raise RequestRefused(
                "on_exhausted", given=on_exhausted, bound=f"must be one of {', '.join(ON_EXHAUSTED)}", remedy="choose"
            )
        for name in BLIND:
            if getattr(self, name):
                raise RequestRefused(
                    name, given=True, bound="has no place on a privacy gate", remedy="use on_exhausted instead"
                )

    def poke(self, context: Context) -> bool:
        """Ask the ledger once."""
        with told_to_airflow():
            standing = self._standing(context)
        if standing.pays:
            self.log.info("%s", standing.reason)
            return True
        line = f"{self.release_task_id or 'the release'} is held back: {standing.reason}"
        self.log.info("%s", line)
        if self.on_exhausted == "skip":
            raise AirflowSkipException(line)
        if standing.never or self.on_exhausted == "fail":
            raise AirflowFailException(line)
        return False

    def _standing(self, context: Context) -> Standing:
        cost = Budget(epsilon=self.epsilon, delta=self.delta).require_positive()
        blocks = (self.blocks,) if isinstance(self.blocks, str) else tuple(self.blocks)
        if not blocks:
            raise RequestRefused("blocks", bound="must name at least one block", remedy="name 'all'")
        hook = PrivacyLedgerHook(self.privacy_ledger_conn_id)
        with closing(hook.get_ledger()) as ledger:
            if self.release_task_id and self._is_charged(ledger, hook, context, cost):
                return Standing(pays=True, reason=f"{self.release_task_id} has its charge already")
            cap = ledger.account(self.account).cap
            left = {block: ledger.remaining(self.account, block) for block in blocks}
        return judge(self.account, cost=cost, cap=cap, left=left)

    def _is_charged(self, ledger: PrivacyLedger, hook: PrivacyLedgerHook, context: Context, cost: Budget) -> bool:
        from dp_operators.budget import ChargeState

        deployment = self.deployment or hook.deployment or DEPLOYMENT
        key = release_key(context, deployment=deployment, task_id=self.release_task_id)
        charge = ledger.find_charge(self.account, str(key))
        return (
            charge is not None and charge.cost == cost and charge.state in (ChargeState.RESERVED, ChargeState.COMMITTED)
        )


def judge(account: str, *, cost: Budget, cap: Budget, left: Mapping[str, Budget]) -> Standing:
    """Whether blocks with ``left`` of ``cap`` can each bear ``cost``, and the line that says so."""
    for what in ("epsilon", "delta"):
        asked, most = getattr(cost, what), getattr(cap, what)
        if asked > most:
            reason = f"{what} {plain(asked)} is above the cap {plain(most)} of account {account} and can never be paid"
            return Standing(pays=False, never=True, reason=reason)
        block = min(left, key=lambda name: getattr(left[name], what))
        available = getattr(left[block], what)
        if asked > available:
            where = f"account {account}" if block == "all" else f"block {block} of account {account}"
            reason = f"{where} has {what} {plain(available)} of {plain(most)} left, and {plain(asked)} is asked"
            return Standing(pays=False, reason=reason)
    return Standing(pays=True, reason=f"account {account} can pay epsilon {plain(cost.epsilon)}")
