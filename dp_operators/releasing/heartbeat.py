"""Says now and then that a reservation is still worked on, so that it is not taken for a stale one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dp_operators.budget.errors import LedgerUnavailable
from dp_operators.releasing.processes import Progress

if TYPE_CHECKING:
    from dp_operators.budget import PrivacyLedger

RENEWAL_SECONDS = 60.0


@dataclass(kw_only=True)
class Heartbeat:
    """Takes an application's progress, passes it on, and renews its reservation at most once a minute.

    A ledger out of reach stops no application: its reservation stays, and counts.
    """

    ledger: PrivacyLedger
    charge_id: str
    progress: Progress
    _last: float = field(default_factory=time.monotonic, init=False)

    def __call__(self, line: str) -> None:
        """One line of progress."""
        self.progress(line)
        if time.monotonic() - self._last < RENEWAL_SECONDS:
            return
        self._last = time.monotonic()
        try:
            self.ledger.renew(self.charge_id)
        except LedgerUnavailable as away:
            self.progress(f"the reservation was not renewed: {away.reason}")
