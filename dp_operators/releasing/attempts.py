"""What attempts at a release and at a stream have in common: the reservation, and the runs of the application."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from dp_operators.budget import ChargeConflict
from dp_operators.budget.errors import LedgerUnavailable
from dp_operators.budget.mechanism_events import planned_events
from dp_operators.releasing.applications import HERE, Applications, Waiting
from dp_operators.releasing.backends import Backend
from dp_operators.releasing.charged_terms import AnyRequest, ChargedRequest
from dp_operators.releasing.errors import ReleaseDamaged, ReleaseFailed
from dp_operators.releasing.first_release import pays_for
from dp_operators.releasing.following import Progress
from dp_operators.releasing.preflight import check_before_charge
from dp_operators.releasing.requests import account_state, price
from dp_operators.releasing.reservations import claim, require_claim
from dp_operators.releasing.rollback_guard import anchor_entry, require_no_rollback
from dp_operators.releasing.runners import suited
from dp_operators.releasing.sealed_drafts import closed_elsewhere
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ReleaseLayout, release_folder
from spark_jobs.contract.store.sealing import Seal

if TYPE_CHECKING:
    from dp_operators.budget import Charge, PrivacyLedger, Run

GIVE_BACK = "the reservation stays, and is burnt when it is given back"


RENEWAL_SECONDS = 60.0


@dataclass(kw_only=True)
class Heartbeat:
    """Passes an application's progress on, and renews its reservation at most once a minute.

    If the ledger cannot be reached, the application continues: its reservation stays, and still counts as spent.
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


@dataclass(frozen=True, kw_only=True)
class ChargedAttempt(ChargedRequest[AnyRequest]):
    """One attempt at a charged request.

    Attributes:
        runner: where the application runs.
        allotment: the sub-budget that must be able to pay as well, if any.
        actor: who requests it, for the audit log.
        progress: receives public lines.
        waiting: how to wait for an application.
    """

    runner: Backend
    allotment: str | None
    actor: str
    progress: Progress
    waiting: Waiting = HERE

    @classmethod
    def at(cls, charged: ChargedRequest[AnyRequest], **rest: Any) -> Self:
        """An attempt at ``charged``."""
        return cls(**{part.name: getattr(charged, part.name) for part in fields(charged)}, **rest)

    def reserve(self, manifest: str) -> Charge:
        """The charge of the key: the existing one, or a new reservation if the request passes all checks.

        Args:
            manifest: the name of the object whose presence makes the release visible.
        """
        manifest = f"{release_folder(self.output, self.key)}/{manifest}"
        # read before the ledger: a manifest that is visible now was committed before the ledger is read
        visible = self.store.read(manifest, limit=0) is not None
        existing = self.charge()
        request_sha256 = self.request.charged_sha256
        if existing is not None and existing.counts:
            if pays_for(existing, self.request):  # reserve refuses a key that pays for another request
                require_claim(self.store, self.output, self.key, self.account)
                request_sha256 = existing.request_sha256
        else:
            require_no_rollback(self.store, self.output, self.account, self.ledger, actor=self.actor)
            if visible:
                raise ReleaseDamaged(f"{manifest} exists, but the ledger has no charge that paid for it")
            check_before_charge(self, runner=self.runner, allotment=self.allotment)
            claim(self.store, self.output, self.key, self.account)
        failpoint("before_reserve")
        cost = price(self.request)
        charge = self.ledger.reserve(
            self.account,
            release=self.key,
            epsilon=cost.epsilon,
            delta=cost.delta,
            rho=cost.rho,
            blocks=self.request.blocks,
            events=planned_events(cost),
            allotment=self.allotment,
            request_sha256=request_sha256,
            neighbours=self.request.neighbours,
            unit=self.request.unit,
            tables=(self.request.table.identity,),
            actor=self.actor,
        )
        failpoint("after_reserve")
        self.progress(f"charge {charge.id}: {charge.state} {charge.cost.amount} of {self.account}")
        return charge

    def store_request(self, charge: Charge, layout: ReleaseLayout, seal: Seal) -> None:
        """Anchor the charge in the store, then write the request and the account's figures for the application.

        Later attempts keep the account's figures that the first one wrote.
        """
        anchor_entry(self.store, self.output, charge, self.ledger)
        failpoint("before_request")
        if self.store.read(layout.account) is None:
            self.store.create(layout.account, account_state(self.ledger, charge).sealed(seal))
        self.store.create(layout.request, self.request.to_json().encode())
        failpoint("after_request")

    def start_run(self, charge: Charge) -> Run:
        """Record a run in the ledger before its application is started."""
        failpoint("before_start_run")
        try:
            run = self.ledger.start_run(charge.id, actor=self.actor)
        except ChargeConflict:
            raise closed_elsewhere(charge) from None
        failpoint("after_start_run")
        return run

    def applications(self, charge: Charge, layout: ReleaseLayout, seal: Seal) -> Applications:
        """The applications of a charge's runs."""
        backend, engine = suited(self.runner, self.request)
        return Applications(
            store=self.store,
            layout=layout,
            seal=seal,
            backend=backend,
            engine=engine,
            waiting=self.waiting,
            progress=Heartbeat(ledger=self.ledger, charge_id=charge.id, progress=self.progress),
        )

    def run_application(self, applications: Applications, submission: Submission) -> None:
        """Run the application to its end; its outcome is read from the store."""
        failpoint("before_run")
        try:
            applications.finish(submission)
        except OSError as error:
            raise ReleaseFailed(f"the application could not be run ({type(error).__name__})") from error
        failpoint("after_run")
