"""A word to somebody when an account's budget runs low, and when it is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from decimal import ROUND_DOWN, Decimal
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.operators.keys import DEPLOYMENT, release_key
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import exact_decimal, plain

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.budget import Account, Charge, LedgerReader
    from spark_jobs.contract.privacy import Budget

Notify = Callable[[str], object]
"""Takes one line for somebody to read."""


class PrivacyBudgetNotifier(BaseNotifier):
    """Tells when the release of a task took its account past a part of its cap; meant for ``on_success_callback``.

    The release that passes a part tells it, and so do releases that pass it together at one time. A line names the part
    and what is spent by now, by the ledger's own figures. The ledger is only read.

    Args:
        account: the ledger account; templated.
        notify: takes the line, e.g. a function that sends a mail; by default the line is logged as a warning.
        at: the parts of the cap that are told.
        privacy_ledger_conn_id: the connection of the ledger.
        deployment: this Airflow deployment's name in release keys; by default the ledger connection's.
    """

    template_fields: Sequence[str] = ("account", "privacy_ledger_conn_id", "deployment")

    def __init__(
        self,
        *,
        account: str,
        notify: Notify | None = None,
        at: Sequence[object] = ("0.8", "1"),
        privacy_ledger_conn_id: str = PrivacyLedgerHook.default_conn_name,
        deployment: str | None = None,
    ) -> None:
        super().__init__()
        self.account = account
        self.send = notify or self._warn  # `notify` is a method of every notifier
        self.at = tuple(sorted(_part(value) for value in at))
        self.privacy_ledger_conn_id = privacy_ledger_conn_id
        self.deployment = deployment

    def notify(self, context: Context) -> None:
        """Look at what the task's release was charged, and tell what it passed."""
        hook = PrivacyLedgerHook(self.privacy_ledger_conn_id)
        with closing(hook.get_ledger()) as ledger:
            key = release_key(context, deployment=self.deployment or hook.deployment or DEPLOYMENT)
            charge = ledger.find_charge(self.account, str(key))
            lines = [] if charge is None else self._passed(ledger, charge)
        for line in lines:
            self.send(line)

    def _passed(self, ledger: LedgerReader, charge: Charge) -> list[str]:
        from dp_operators.budget.composition import taken_off

        account = ledger.account(charge.account)
        spent = ledger.blocks(account.name)
        lines = []
        for block in account.paying(charge.blocks):
            after = used(account, spent[block])
            before = used(account, taken_off(spent[block], charge.cost))
            for part in self.at:
                if before < part <= after:
                    where = f"account {account.name}" if block == "all" else f"block {block} of account {account.name}"
                    lines.append(
                        f"{where} is past {plain(100 * part)}% of its privacy budget: {percent(after)} are spent"
                    )
        return lines

    def _warn(self, line: str) -> None:
        self.log.warning("%s", line)


def used(account: Account, spent: Budget) -> Decimal:
    """The part of an account's cap that is used up, in the currency that ends it.

    Where either of two sums may fit, the one that leaves more counts.
    """
    from dp_operators.budget.composition import fraction_spent, limits_of

    return fraction_spent(limits_of(account.composition, account.cap, account.slack), spent)


def percent(part: Decimal) -> str:
    """A part in percent to one decimal, rounded down, so that nothing is called spent that is not."""
    return f"{plain((100 * part).quantize(Decimal('0.1'), rounding=ROUND_DOWN))}%"


def _part(value: Any) -> Decimal:
    part = exact_decimal(value, what="at")
    if not 0 < part <= 1:
        raise InvalidRequest(
            "at", value=plain(part), requirement="must be above 0 and at most 1", remedy="give e.g. '0.8'"
        )
    return part
