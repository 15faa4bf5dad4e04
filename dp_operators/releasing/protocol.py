"""One release, from the reservation to the receipt; the same release again, however often it is asked for.

The order of the steps is the whole of it. A reservation is made before anything looks at the data. The noise is drawn
once, because the draw is one object that can be created once. The ledger learns which manifest it pays for before
anybody can see it. So whoever dies where, and whoever wakes up when, finds what is already there and goes on with it:

===============================  =======================================================================
what an attempt finds            what it does
===============================  =======================================================================
no charge, or a void one         checks the request and reserves
reserved, no draw                enters a run in the ledger, and runs the application
reserved, a draw                 enters its hash in the ledger; runs the application, which adopts the draw
reserved, a complete draft       checks draw and draft, and commits the manifest's hash
reserved, the draw it knew gone  burns the charge; the same where something else lies in the draw's place
reserved, a run that read no     enters that in the ledger; a refusal gives the reservation back, unless
row                              another run may have read one
committed, not visible           publishes the committed bytes, re-made from the draw where they are missing
committed, visible, a file gone  publishes that file again; one that was altered is damage, and said to be
committed, visible               returns at once
burnt                            gives up: what was drawn is spent and is never published
a charge of the first release    gives back what was committed, and burns what was reserved (``first_release``)
===============================  =======================================================================

The store is not trusted. Everything of a draft is sealed for its charge and its request (``contract.store.sealing``),
so that nobody can read it or put anything into it before the manifest is committed. The ledger alone decides
what counts:

- *One draw at most is ever readable.* A draft is opened under a draw that the ledger has recorded, it records one hash
  for a charge, and only what was opened is published. However many draws a deleted or restored store lets be made, the
  others stay sealed.
- *Nothing is given back after a row was read.* A run is recorded before it is started, and ended only by its own sealed
  statement that it read none. While one is open, or once a draw is recorded, the ledger refuses to void the charge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from dp_operators.budget import ChargeConflict, ChargeState
from dp_operators.releasing.drafts import Draft, document, missing_files, publish
from dp_operators.releasing.draws import OpenedDraw
from dp_operators.releasing.errors import (
    ReleaseClosed,
    ReleaseDamaged,
    ReleaseFailed,
    ReleaseRejected,
    as_release_errors,
)
from dp_operators.releasing.first_release import (
    UNFINISHED,
    is_of_first_release,
    pays_for,
    read_committed_draft,
)
from dp_operators.releasing.heartbeat import Heartbeat
from dp_operators.releasing.keys import ReleaseKey
from dp_operators.releasing.preflight import SPENT, check_before_charge
from dp_operators.releasing.processes import Progress
from dp_operators.releasing.requests import (
    account_state,
    complete,
    events,
    require_charged,
    require_own_output,
)
from dp_operators.releasing.reservations import claim, end_reservation, end_stated_runs, require_claim, seal_of
from dp_operators.releasing.rollback_guard import anchor_entry, require_no_rollback
from dp_operators.releasing.runners import Runner, Submission
from dp_operators.releasing.sealed_drafts import SealedDrafts, closed_elsewhere, require_paid
from spark_jobs.contract.privacy import Budget, plain
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import MANIFEST_NAME, ReleaseLayout, release_folder
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.sealing import Seal, sha256

if TYPE_CHECKING:
    from dp_operators.budget import Charge, PrivacyLedger

Check = Callable[[Release, Callable[[str], bytes | None]], None]
"""Looks at a draft's manifest and files (by name) before its commit; raises what is to be told if it will not do."""

_RUNS = 2


@dataclass(frozen=True, kw_only=True)
class Published:
    """A visible release.

    Attributes:
        uri: URI of its folder.
        key: its release key.
        cost: what the ledger was charged.
        charge_id: the charge that paid.
        manifest_sha256: hash of its manifest, as the ledger committed it.
        adopted: whether it was visible already, so that this attempt made nothing.
        status: of each diagnostic's result, by its kind; noise alone decides it.
    """

    uri: str
    key: str
    cost: Budget
    charge_id: str
    manifest_sha256: str
    adopted: bool
    status: Mapping[str, str]


def release(
    request: ReleaseRequest,
    *,
    ledger: PrivacyLedger,
    runner: Runner,
    key: ReleaseKey | str,
    check: Check,
    allotment: str | None = None,
    actor: str = "",
    progress: Progress = lambda line: None,
) -> Published:
    """Make the release of ``key``, or go on with what earlier attempts at it left; safe to repeat and to race.

    Args:
        request: what to release; its hash is bound to the key from the first reservation on.
        ledger: pays.
        runner: runs the Spark application.
        key: names the release; equal for every attempt at it.
        check: the release contract; whatever it raises ends the attempt before the commit.
        allotment: an allotment of the account that has to bear the cost as well.
        actor: who asks, for the audit log.
        progress: takes public lines about what goes on.

    Raises:
        InvalidRequest: the request, schema or configuration cannot be served (``BudgetExceeded``: its account cannot
            bear it; ``ChargeConflict``: the key pays for another request). Nothing is charged, nothing published.
        ReleaseError: see its kinds; ``retryable`` says whether to try again.
        LedgerUnavailable: the ledger cannot be asked; try again.
    """
    account, output = require_charged(request)
    request = complete(request, ledger)
    require_own_output(request, ledger, str(key))
    attempt = _Attempt(
        request=request,
        account=account,
        output=output,
        store=open_store(output),
        ledger=ledger,
        runner=runner,
        key=str(key),
        check=check,
        allotment=allotment,
        actor=actor,
        progress=progress,
    )
    with as_release_errors():
        charge = attempt.reserve()
        layout = ReleaseLayout.of(output, attempt.key, charge.id)
        if charge.state is ChargeState.COMMITTED:
            return attempt.finish(charge, layout)
        if charge.state is ChargeState.BURNT:
            raise ReleaseClosed(f"release {key} {SPENT}")
        if is_of_first_release(charge, request):
            raise attempt.unfinished(charge, layout)
        draw, draft = attempt.drafted(charge, layout)
        attempt.commit(charge, draw, draft)
        return attempt.publish(charge, layout, draft)


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """One attempt at a release: what it was asked, and what it works with."""

    request: ReleaseRequest
    account: str
    output: str
    store: ObjectStore
    ledger: PrivacyLedger
    runner: Runner
    key: str
    check: Check
    allotment: str | None
    actor: str
    progress: Progress

    def reserve(self) -> Charge:
        """The charge of this release: the one there is, or a new one if the request is sound."""
        manifest = f"{release_folder(self.output, self.key)}/{MANIFEST_NAME}"
        # looked for before the ledger is asked: what is visible by then was committed by then
        visible = self.store.read(manifest) is not None
        existing = self.ledger.find_charge(self.account, self.key)
        request_sha256 = self.request.sha256
        if existing is not None and existing.state is not ChargeState.VOID:
            if pays_for(existing, self.request):  # another request's key is refused by the ledger, below
                require_claim(self.store, self.output, self.key, self.account)
                request_sha256 = existing.request_sha256
        else:
            require_no_rollback(self.store, self.output, self.account, self.ledger, actor=self.actor)
            if visible:
                raise ReleaseDamaged(f"{manifest} is there, but the ledger knows of no charge that paid for it")
            check_before_charge(self.request, ledger=self.ledger, runner=self.runner, allotment=self.allotment)
            claim(self.store, self.output, self.key, self.account)
        failpoint("before_reserve")
        charge = self.ledger.reserve(
            self.account,
            release=self.key,
            epsilon=self.request.budget.epsilon,
            delta=self.request.budget.delta,
            blocks=self.request.blocks,
            events=events(self.request),
            allotment=self.allotment,
            request_sha256=request_sha256,
            neighbours=self.request.neighbours,
            unit=self.request.unit,
            tables=(self.request.table.identity,),
            actor=self.actor,
        )
        failpoint("after_reserve")
        self.progress(f"charge {charge.id}: {charge.state} epsilon {plain(charge.cost.epsilon)} of {self.account}")
        return charge

    def drafted(self, charge: Charge, layout: ReleaseLayout) -> tuple[OpenedDraw, Draft]:
        """The draw, which the ledger knows by then, and a complete draft of it that meets the release contract."""
        sealed = self._sealed(charge, layout)
        draw = sealed.recorded_draw()
        if draw is None:
            self._store_request(charge, layout, sealed.seal)
        draft = None if draw is None else sealed.draft_of(draw)
        for _ in range(_RUNS):
            if draw is not None and draft is not None:
                break
            run = self._run(charge, layout, draw)
            draw = sealed.recorded_draw() or self._ended_without_draw(charge, layout, run)
            draft = sealed.draft_of(draw)
        if draw is None or draft is None:
            raise ReleaseFailed(_NO_DRAFT)
        failpoint("before_check")
        require_paid(draft.release, draw, charge)
        self.check(draft.release, draft.files.get)
        failpoint("after_check")
        return draw, draft

    def _sealed(self, charge: Charge, layout: ReleaseLayout) -> SealedDrafts:
        return SealedDrafts(
            store=self.store,
            layout=layout,
            seal=seal_of(charge, self.ledger),
            charge=charge,
            ledger=self.ledger,
            actor=self.actor,
        )

    def commit(self, charge: Charge, draw: OpenedDraw, draft: Draft) -> None:
        """Tell the ledger the one manifest that the charge pays for, and what its mechanisms spent."""
        failpoint("before_commit")
        try:
            self.ledger.commit(charge.id, draft.sha256, events=draw.events(charge), actor=self.actor)
        except ChargeConflict:
            raise closed_elsewhere(charge) from None
        failpoint("after_commit")
        self.progress("committed")

    def finish(self, charge: Charge, layout: ReleaseLayout) -> Published:
        """Make a committed release visible, if it is not."""
        visible = self.store.read(layout.manifest)
        if visible is not None:
            if sha256(visible) != charge.manifest_sha256:
                raise ReleaseDamaged(f"{layout.manifest} is not what the ledger committed")
            if not missing_files(self.store, layout, visible):
                return self._published(charge, layout, visible, adopted=True)
            self.progress("files of the published release are missing; they are published again")
        if charge.draw_sha256 is None:
            return self.publish(charge, layout, read_committed_draft(self.store, layout, charge))
        sealed = self._sealed(charge, layout)
        draw = sealed.committed_draw()
        draft = sealed.draft_of(draw)
        if draft is None:
            self._run(charge, layout, draw)
            draft = sealed.draft_of(draw)
        if draft is None:
            raise ReleaseFailed(_NO_DRAFT)
        if draft.sha256 != charge.manifest_sha256:
            raise ReleaseDamaged(f"{layout.draft_manifest} is not what the ledger committed")
        return self.publish(charge, layout, draft)

    def unfinished(self, charge: Charge, layout: ReleaseLayout) -> ReleaseClosed:
        """End a reservation of the first release; what the attempt ends with."""
        why = f"release {self.key} {UNFINISHED}"
        try:
            ended = end_reservation(self.store, layout, charge, self.ledger, actor=self.actor, reason=why)
        except ChargeConflict:
            return closed_elsewhere(charge)
        return ReleaseClosed(f"{why}: charge {charge.id} is {ended.state.value}; ask again under another key")

    def publish(self, charge: Charge, layout: ReleaseLayout, draft: Draft) -> Published:
        """Make a committed draft visible."""
        publish(self.store, layout, draft)
        self.progress(f"published {layout.root}")
        return self._published(charge, layout, draft.manifest, adopted=False)

    def _published(self, charge: Charge, layout: ReleaseLayout, manifest: bytes, *, adopted: bool) -> Published:
        manifest_sha256 = sha256(manifest)
        failpoint("before_receipt")
        if self.store.read(layout.receipt) is None:
            head = self.ledger.head()
            receipt = {
                "format": 1,
                "key": self.key,
                "charge_id": charge.id,
                "manifest_sha256": manifest_sha256,
                "audit_log": {"seq": head.seq, "hash": head.hash},
            }
            self.store.create(layout.receipt, document(receipt))
        failpoint("after_receipt")
        return Published(
            uri=layout.root,
            key=self.key,
            cost=charge.cost,
            charge_id=charge.id,
            manifest_sha256=manifest_sha256,
            adopted=adopted,
            status=Release.from_json(manifest).statuses,
        )

    def _store_request(self, charge: Charge, layout: ReleaseLayout, seal: Seal) -> None:
        """Write what the application reads, once the store is to remember that it is paid for.

        The first attempt's figures are every attempt's.
        """
        anchor_entry(self.store, self.output, charge, self.ledger)
        failpoint("before_request")
        if self.store.read(layout.account) is None:
            self.store.create(layout.account, account_state(self.ledger, charge).sealed(seal))
        self.store.create(layout.request, self.request.to_json().encode())
        failpoint("after_request")

    def _run(self, charge: Charge, layout: ReleaseLayout, draw: OpenedDraw | None) -> int:
        """Run the application to its end; the run's number. The ledger knows of the run before it is started."""
        failpoint("before_start_run")
        try:
            run = self.ledger.start_run(charge.id, actor=self.actor)
        except ChargeConflict:
            raise closed_elsewhere(charge) from None
        failpoint("after_start_run")
        submission = Submission(
            request_uri=layout.request,
            request_sha256=charge.request_sha256,
            charge_id=charge.id,
            key=self.key,
            output=self.output,
            run=run.number,
            draw_sha256="" if draw is None else draw.sha256,
            secret=run.key,
        )
        failpoint("before_run")
        try:
            self.runner.run(submission, Heartbeat(ledger=self.ledger, charge_id=charge.id, progress=self.progress))
        except OSError as error:
            raise ReleaseFailed(f"the application could not be run ({type(error).__name__})") from error
        failpoint("after_run")
        return run.number

    def _ended_without_draw(self, charge: Charge, layout: ReleaseLayout, run: int) -> NoReturn:
        """Tell why a run left no draw; a refusal gives the reservation back if no run of it may have read a row."""
        try:
            charge, stated = end_stated_runs(
                self.store, layout, self.ledger.charge(charge.id), self.ledger, actor=self.actor
            )
            refused = next((statement.refused for statement in stated if statement.run == run), None)
            if refused is None:
                raise ReleaseFailed(_NO_DRAFT)
            if charge.may_have_drawn:
                raise ReleaseRejected(f"{refused} (an earlier run may have read rows: {_GIVE_BACK})")
            failpoint("before_give_back")
            self.ledger.void(charge.id, actor=self.actor, reason=_REFUSED)
            failpoint("after_give_back")
        except ChargeConflict:
            raise closed_elsewhere(charge) from None
        raise refused


_REFUSED = "the request was refused before a row was read"
_GIVE_BACK = "the reservation stays, and is burnt when it is given back"
_NO_DRAFT = (
    "the application ended without a draft; what it printed is in its private file. "
    "The reservation stays, and a retry goes on with it"
)
