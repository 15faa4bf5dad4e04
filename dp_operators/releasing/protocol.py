"""One release, from the reservation to the receipt; the same release again, however often it is asked for.

The order of the steps is the whole of it. A reservation is made before anything looks at the data. The noise is drawn
once, because the draw is one object that can be created once. The ledger learns which manifest it pays for before
anybody can see it. So whoever dies where, and whoever wakes up when, finds what is already there and goes on with it:

===============================  =======================================================================
what an attempt finds            what it does
===============================  =======================================================================
no charge, or a void one         checks the request and reserves
reserved, no draw                runs the application
reserved, a draw                 runs the application, which adopts the draw
reserved, a complete draft       checks it and commits its hash
reserved, given back by halves   finishes that, and reserves anew
committed, not visible           publishes the committed bytes, re-made from the draw where they are missing
committed, visible               returns at once
burnt                            gives up: what was drawn is spent and is never published
===============================  =======================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_operators.budget import ChargeConflict, ChargeState
from dp_operators.releasing.drafts import Draft, document, publish, read_draft, sha256
from dp_operators.releasing.errors import (
    ReleaseDamaged,
    ReleaseFailed,
    ReleaseRejected,
    ReleaseSettled,
    store_faults,
)
from dp_operators.releasing.heartbeat import Heartbeat
from dp_operators.releasing.keys import ReleaseKey
from dp_operators.releasing.preflight import SPENT, check_before_charge
from dp_operators.releasing.processes import Progress
from dp_operators.releasing.requests import (
    account_state,
    events,
    require_charged,
    require_own_output,
    with_blocks,
)
from dp_operators.releasing.runners import Runner, Submission
from dp_operators.releasing.settling import claim, lay_tombstone, require_claim, settle
from dp_operators.releasing.spendings import drawn_events
from dp_operators.releasing.witnesses import bear_witness, require_remembered
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.failpoints import failpoint
from spark_jobs.contract.layout import MANIFEST_NAME, ReleaseLayout, release_folder
from spark_jobs.contract.privacy import Budget, plain
from spark_jobs.contract.release import PRIVATE, Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.stores import ObjectStore, open_store
from spark_jobs.contract.tombstone import is_tombstone

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
        RequestRefused: the request, schema or configuration cannot be served (``BudgetExceeded``: its account cannot
            bear it; ``ChargeConflict``: the key pays for another request). Nothing is charged, nothing published.
        ReleaseError: see its kinds; ``retryable`` says whether to try again.
        LedgerUnavailable: the ledger cannot be asked; try again.
    """
    account, output = require_charged(request)
    request = with_blocks(request, ledger)
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
    with store_faults():
        charge = attempt.reserve()
        layout = ReleaseLayout.of(output, attempt.key, charge.id)
        if charge.state is ChargeState.COMMITTED:
            return attempt.finish(charge, layout)
        if charge.state is ChargeState.BURNT:
            raise ReleaseSettled(f"release {key} {SPENT}")
        draft = attempt.drafted(charge, layout)
        attempt.commit(charge, layout, draft)
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
        found = self.ledger.find_charge(self.account, self.key)
        if found is None or found.state is ChargeState.VOID or self._was_given_back(found):
            require_remembered(self.store, self.output, self.account, self.ledger, actor=self.actor)
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
            request_sha256=self.request.sha256,
            neighbours=self.request.neighbours,
            unit=self.request.unit,
            tables=(self.request.table.identity,),
            actor=self.actor,
        )
        failpoint("after_reserve")
        self.progress(f"charge {charge.id}: {charge.state} epsilon {plain(charge.cost.epsilon)} of {self.account}")
        return charge

    def drafted(self, charge: Charge, layout: ReleaseLayout) -> Draft:
        """A complete draft that meets the release contract."""
        draft = read_draft(self.store, layout)
        if draft is None:
            self._store_request(charge, layout)
        for _ in range(_RUNS):
            if draft is not None:
                break
            draft = self._run(charge, layout)
            if draft is None:
                self._raise_refusal(charge, layout)
        if draft is None:
            raise ReleaseFailed(_NO_DRAFT)
        failpoint("before_check")
        self._require_paid(charge, draft.release)
        self.check(draft.release, draft.files.get)
        failpoint("after_check")
        return draft

    def commit(self, charge: Charge, layout: ReleaseLayout, draft: Draft) -> None:
        """Tell the ledger the one manifest that the charge pays for, and what its mechanisms spent."""
        failpoint("before_commit")
        try:
            draw = self.store.read(layout.draw)
            if draw is not None:
                self.ledger.record_draw(charge.id, sha256(draw), actor=self.actor)
            told = drawn_events(draw, max_rows=charge.unit.max_rows)
            self.ledger.commit(charge.id, draft.sha256, events=told, actor=self.actor)
        except ChargeConflict:
            raise ReleaseSettled(
                f"charge {charge.id} was settled elsewhere while this attempt ran; nothing was published"
            ) from None
        failpoint("after_commit")
        self.progress("committed")

    def finish(self, charge: Charge, layout: ReleaseLayout) -> Published:
        """Make a committed release visible, if it is not."""
        visible = self.store.read(layout.manifest)
        if visible is not None:
            if sha256(visible) != charge.manifest_sha256:
                raise ReleaseDamaged(f"{layout.manifest} is not what the ledger committed")
            return self._published(charge, layout, visible, adopted=True)
        draft = read_draft(self.store, layout)
        if draft is None:
            draw = self.store.read(layout.draw)
            if draw is None or is_tombstone(draw):
                raise ReleaseDamaged(f"{layout.draw} is gone; what was committed cannot be made without it")
            draft = self._run(charge, layout)
        if draft is None:
            raise ReleaseFailed(_NO_DRAFT)
        if draft.sha256 != charge.manifest_sha256:
            raise ReleaseDamaged(f"{layout.draft_manifest} is not what the ledger committed")
        return self.publish(charge, layout, draft)

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

    def _was_given_back(self, charge: Charge) -> bool:
        """Finish what an earlier attempt began when its request was refused; the key is free again then."""
        if charge.request_sha256 != self.request.sha256:
            return False  # another request's, which the ledger is about to say
        require_claim(self.store, self.output, self.key, self.account)
        if charge.state is not ChargeState.RESERVED:
            return False
        layout = ReleaseLayout.of(self.output, self.key, charge.id)
        draw = self.store.read(layout.draw)
        if draw is None and self.store.read(layout.refusal) is not None:
            laid = lay_tombstone(self.store, layout, charge, _REFUSED)
        else:
            laid = draw is not None and is_tombstone(draw)
        if laid:
            settle(self.ledger, charge, drawn=False, actor=self.actor, reason=_REFUSED)
        return laid

    def _store_request(self, charge: Charge, layout: ReleaseLayout) -> None:
        """Write what the application reads, once the store is to remember that it is paid for.

        The first attempt's figures are every attempt's.
        """
        bear_witness(self.store, self.output, charge, self.ledger)
        failpoint("before_request")
        if self.store.read(layout.account) is None:
            state = account_state(self.ledger, charge)
            self.store.create(layout.account, document(state.model_dump(mode="json")))
        self.store.create(layout.request, self.request.to_json().encode())
        failpoint("after_request")

    def _run(self, charge: Charge, layout: ReleaseLayout) -> Draft | None:
        submission = Submission(request_uri=layout.request, charge_id=charge.id, key=self.key, output=self.output)
        failpoint("before_run")
        try:
            self.runner.run(submission, Heartbeat(ledger=self.ledger, charge_id=charge.id, progress=self.progress))
        except OSError as error:
            raise ReleaseFailed(f"the application could not be run ({type(error).__name__})") from error
        failpoint("after_run")
        return read_draft(self.store, layout)

    def _raise_refusal(self, charge: Charge, layout: ReleaseLayout) -> None:
        """Tell why there is no draft; returns where another attempt has drawn, so that its draw can be adopted."""
        draw, refusal = self.store.read(layout.draw), self.store.read(layout.refusal)
        buried = draw is not None and is_tombstone(draw)
        if refusal is None and not buried:
            raise ReleaseFailed(_NO_DRAFT)
        if draw is None:
            buried = lay_tombstone(self.store, layout, charge, _REFUSED)
        if not buried:
            return
        settle(self.ledger, charge, drawn=False, actor=self.actor, reason=_REFUSED)
        if refusal is None:
            raise ReleaseSettled(f"charge {charge.id} was given back while this attempt ran; nothing was drawn")
        raise _refusal(refusal)

    def _require_paid(self, charge: Charge, release: Release) -> None:
        facts = {
            "its charge": release.charge_id == charge.id and release.status == "CHARGED",
            "its key": release.key == self.key,
            "its request": release.request_sha256 == charge.request_sha256 == self.request.sha256,
            "its relation": release.neighbours is charge.neighbours,
            "its unit": release.unit == charge.unit,
            "its cost, which exceeds the reservation": release.cost.epsilon <= charge.cost.epsilon
            and release.cost.delta <= charge.cost.delta,
            "its noise, which is not private": release.guarantee == PRIVATE,
        }
        wrong = [name for name, holds in facts.items() if not holds]
        if wrong:
            raise ReleaseRejected(f"the draft is not what charge {charge.id} pays for: {'; '.join(wrong)}")


_REFUSED = "the request was refused"
_NO_DRAFT = (
    "the application ended without a draft; what it printed is in its private file. "
    "The reservation stays, and a retry goes on with it"
)


def _refusal(content: bytes) -> RequestRefused:
    try:
        return RequestRefused.from_dict(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError):
        return RequestRefused("request", bound="was refused by the application", remedy="its private file says more")
