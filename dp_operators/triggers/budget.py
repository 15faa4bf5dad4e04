"""A trigger that waits for budget without occupying a worker; it only reads the ledger, so it may safely run twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from dp_operators.hooks.ledger import PrivacyLedgerHook
from spark_jobs.contract.errors import InvalidRequest

PAYS, NEVER, REFUSED, UNREACHABLE = "pays", "never", "refused", "away"
"""How the wait ended: the account can pay, can never pay, the check is invalid, or the ledger cannot be reached."""


class PrivacyBudgetTrigger(BaseTrigger):
    """Checks the budget at intervals, and ends once the account can pay, can never pay, or cannot be checked.

    Args:
        privacy_ledger_conn_id: the connection of the ledger.
        question: the fields of ``dp_operators.releasing.affordability.AffordabilityCheck``, as plain JSON values.
        poke_interval: seconds between two checks.
    """

    def __init__(self, *, privacy_ledger_conn_id: str, question: dict[str, Any], poke_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.privacy_ledger_conn_id = privacy_ledger_conn_id
        self.question = question
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and the arguments that reconstruct the trigger."""
        return (
            "dp_operators.triggers.budget.PrivacyBudgetTrigger",
            {
                "privacy_ledger_conn_id": self.privacy_ledger_conn_id,
                "question": self.question,
                "poke_interval": self.poke_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check until the wait is over, and yield one event, ``{"status", "reason"}``."""
        while (outcome := await sync_to_async(self._check)()) is None:
            await asyncio.sleep(self.poke_interval)
        yield TriggerEvent(outcome)  # type: ignore[no-untyped-call]

    def _check(self) -> dict[str, str] | None:
        from dp_operators.budget import LedgerUnavailable
        from dp_operators.releasing.affordability import AffordabilityCheck

        try:
            with closing(PrivacyLedgerHook(self.privacy_ledger_conn_id).get_ledger()) as ledger:
                affordability = AffordabilityCheck(**self.question).run(ledger)
        except InvalidRequest as refused:
            return {"status": REFUSED, "reason": str(refused)}
        except LedgerUnavailable as unavailable:
            return {"status": UNREACHABLE, "reason": str(unavailable)}
        if affordability.pays:
            return {"status": PAYS, "reason": affordability.reason}
        return {"status": NEVER, "reason": affordability.reason} if affordability.never else None
