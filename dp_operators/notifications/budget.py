"""A notifier for accounts whose budget runs low or is used up."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from decimal import ROUND_DOWN, Decimal
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier
from asgiref.sync import sync_to_async

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.tasks.keys import charged_key
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.headlines import recorded_text
from spark_jobs.contract.privacy import exact_decimal, plain

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.budget import Account, Charge, LedgerReader
    from spark_jobs.contract.privacy import Budget

Notify = Callable[[str], object]
"""Receives one line of text and delivers it; what it returns is awaited if it can be."""


class PrivacyBudgetNotifier(BaseNotifier):
    """Notifies when a task's release takes its account past a fraction of its cap; use it as ``on_success_callback``.

    The release that passes a fraction sends one line for it. If several releases pass a fraction at the same time, each
    of them may send a line. The line gives the fraction, what is spent by now, and the release's headline figures; with
    ``all_releases``, every release sends a line with its headline figures. The ledger is only read.

    As the callback of a deadline alert it runs in the triggerer, without a task: it then sends one line for each block
    that is past a fraction at that time.

    Args:
        account: the ledger account; templated.
        notify: takes the line, e.g. a function that sends a mail, and may be asynchronous; by default the line is
            logged as a warning.
        at: the fractions of the cap that cause a notification, each above 0 and at most 1.
        all_releases: whether every release also sends a line such as ``visits: AUC 0.730 (0.721 to 0.742), epsilon 0.1,
            1.9 left, report: file:///releases/visits/5f0c/report.html``.
        privacy_ledger_conn_id: the connection of the ledger.
        deployment: this Airflow deployment's name in release keys; by default the ledger connection's.
        federation: the federation that the task names, if it names one; templated.
    """

    template_fields: Sequence[str] = ("account", "privacy_ledger_conn_id", "deployment", "federation")

    def __init__(
        self,
        *,
        account: str,
        notify: Notify | None = None,
        at: Sequence[object] = ("0.8", "1"),
        all_releases: bool = False,
        privacy_ledger_conn_id: str = PrivacyLedgerHook.default_conn_name,
        deployment: str | None = None,
        federation: str | None = None,
    ) -> None:
        super().__init__()
        self.account = account
        self.send = notify or self._warn  # `notify` is a method of every notifier
        self.at = tuple(sorted(_part(value) for value in at))
        self.all_releases = all_releases
        self.privacy_ledger_conn_id = privacy_ledger_conn_id
        self.deployment = deployment
        self.federation = federation

    def notify(self, context: Context) -> None:
        """Send a line for each fraction of the cap that the task's release has passed."""
        for line in self._lines(context):
            sent = self.send(line)
            if inspect.isawaitable(sent):
                asyncio.run(_awaited(sent))

    async def async_notify(self, context: Context) -> None:
        """Send the same lines from the triggerer, where deadlines are watched, without holding up its loop."""
        for line in await sync_to_async(self._lines)(context):
            sent = await asyncio.to_thread(self.send, line)
            if inspect.isawaitable(sent):
                await sent

    def _lines(self, context: Context) -> list[str]:
        hook = PrivacyLedgerHook(self.privacy_ledger_conn_id)
        with closing(hook.get_ledger()) as ledger:
            if "ti" not in context:
                return self._past_by_now(ledger)
            key = charged_key(
                context, hook, account=self.account, federation=self.federation, deployment=self.deployment
            )
            charge = ledger.find_charge(self.account, key)
            if charge is None:
                return []
            figures = recorded_text(charge.figures or ())
            passed = self._passed(ledger, charge)
            lines = [f"{line}, after a release with {figures}" if figures else line for line in passed]
            return [*lines, _released(ledger, charge, figures, _place(context, charge))] if self.all_releases else lines

    def _past_by_now(self, ledger: LedgerReader) -> list[str]:
        """One line for each block that is past a fraction, with the highest one."""
        account = ledger.account(self.account)
        shares = {block: used(account, spent) for block, spent in ledger.blocks(account.name).items()}
        return [
            _line(account, block, max(part for part in self.at if part <= share), share)
            for block, share in shares.items()
            if share >= self.at[0]
        ]

    def _passed(self, ledger: LedgerReader, charge: Charge) -> list[str]:
        from dp_operators.budget.composition import subtracted

        account = ledger.account(charge.account)
        spent = ledger.blocks(account.name)
        lines = []
        for block in account.paying(charge.blocks):
            after = used(account, spent[block])
            before = used(account, subtracted(spent[block], charge.cost))
            for part in self.at:
                if before < part <= after:
                    lines.append(_line(account, block, part, after))
        return lines

    def _warn(self, line: str) -> None:
        self.log.warning("%s", line)


def used(account: Account, spent: Budget) -> Decimal:
    """The fraction of an account's cap that is spent, in the currency that is closest to its limit.

    If the account allows two ways to compose its costs, the one that leaves more counts.
    """
    from dp_operators.budget.composition import fraction_spent, limits_of

    return fraction_spent(limits_of(account.composition, account.cap, account.slack), spent)


def percent(part: Decimal) -> str:
    """A fraction as a percentage with one decimal, rounded down so that it never exceeds what is spent."""
    return f"{plain((100 * part).quantize(Decimal('0.1'), rounding=ROUND_DOWN))}%"


def _line(account: Account, block: str, part: Decimal, share: Decimal) -> str:
    where = f"account {account.name}" if block == "all" else f"block {block} of account {account.name}"
    return f"{where} is past {plain(100 * part)}% of its privacy budget: {percent(share)} is spent"


def _place(context: Context, charge: Charge) -> str:
    """Where the task's report is; the release key, if the task has not returned it."""
    task = context["ti"]
    returned = task.xcom_pull(task_ids=task.task_id) if hasattr(task, "xcom_pull") else None
    uri = returned.get("uri") if isinstance(returned, Mapping) else None
    return f"release {charge.release}" if uri is None else f"report: {uri}/report.html"


def _released(ledger: LedgerReader, charge: Charge, figures: str, place: str) -> str:
    """What a release found, what it cost, what is left and where its report is, in one line."""
    from dp_operators.budget.left import left_in

    left, _ = left_in(ledger.account(charge.account), charge.blocks, ledger)
    cost = f"{charge.cost.amount}, {left.counted_as(charge.cost)} left"
    return f"{charge.account}: {', '.join(filter(None, (figures, cost)))}, {place}"


async def _awaited(sent: Awaitable[object]) -> None:
    await sent


def _part(value: Any) -> Decimal:
    part = exact_decimal(value, what="at")
    if not 0 < part <= 1:
        raise InvalidRequest("at", plain(part), "must be above 0 and at most 1", "give e.g. '0.8'")
    return part
