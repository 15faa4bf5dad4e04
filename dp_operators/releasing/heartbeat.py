"""Renews a reservation while its application runs, so that it is not considered stale."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dp_operators.budget.errors import LedgerUnavailable
from dp_operators.releasing.following import Progress

if TYPE_CHECKING:
    from dp_operators.budget import PrivacyLedger

RENEWAL_SECONDS = 60.0


@dataclass(kw_only=True)
class Heartbeat:
    """Passes an application's progress on, and renews its reservation at most once a minute.

    If the ledger cannot be reached, the application goes on: its reservation stays, and still counts as spent.
    """

    ledger: PrivacyLedger
    charge_id: str
    progress: Progress
    _last: float = field(default_factory=time.monotonic, init=False)

    def __call__(self, line: str) -> None:
        """Pass one line of progress on."""
        self.progress(line)
        if time.monotonic() - self._last < RENEWAL_SECONDS:
            return
        self._last = time.monotonic()
        try:
            self.ledger.renew(self.charge_id)
        except LedgerUnavailable as unavailable:
            self.progress(f"the reservation was not renewed: {unavailable.reason}")
