"""Claims of a release key in a store, and the end of a reservation: void if no run read a row, otherwise burnt."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dp_operators.budget import ChargeConflict, ChargeState
from dp_operators.releasing.applications import kept_handle
from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.charged_terms import ChargedRequest
from dp_operators.releasing.drafts import document, require_releases
from dp_operators.releasing.draws import OpenedDraw
from dp_operators.releasing.errors import ReleaseDamaged, as_release_errors
from dp_operators.releasing.first_release import pays_for
from dp_operators.releasing.processes import PROCESS, ProcessGroups
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.row_choice import choice_key, choice_of
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ReleaseLayout, claim_uri
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.run_statement import NothingRead
from spark_jobs.contract.store.sealing import Seal, SealBroken, open_whole
from spark_jobs.contract.store.stream_objects import StreamLayout

if TYPE_CHECKING:
    from datetime import timedelta

    from dp_operators.budget import Charge, PrivacyLedger


def give_back(charged: ChargedRequest[Any], *, reason: str, actor: str = "") -> Charge:
    """Give the reservation of a release or a stream back for good: ``void`` if no row was read for it, else ``burnt``.

    Args:
        charged: the request that was charged; its output holds the draw, if there is one.
        reason: written to the audit log; public.
        actor: who requests it, for the audit log.

    Returns:
        The void or burnt charge; a charge that was no longer reserved is returned unchanged.

    Raises:
        InvalidRequest: this key was never charged for this request.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached; try again.
    """
    if isinstance(charged.request, ReleaseRequest) and charged.request.chooses_rows:
        # nothing but the choice can have been reserved
        charged = ChargedRequest.of(choice_of(charged.request), charged.ledger, choice_key(charged.key))
    store, charge = charged.store, charged.charge()
    if charge is None or not pays_for(charge, charged.request):
        raise InvalidRequest(
            "key", charged.key, "must be the key of a reservation for this request",
            "give the request as it was charged: the folder of the release or stream holds it",
        )  # fmt: skip
    if charge.state is not ChargeState.RESERVED:
        return charge
    with as_release_errors():
        require_claim(store, charged.output, charge.release, charged.account)
        layout = ReleaseLayout.of(charged.output, charge.release, charge.id)
        return end_reservation(store, layout, charge, charged.ledger, actor=actor, reason=reason)


LOOK_HERE = ProcessGroups(grace=0).look
"""Looks at processes of this machine alone."""


@dataclass(frozen=True, kw_only=True)
class StaleReservation:
    """A stale reservation after ``release_stale``.

    Attributes:
        charge: its charge as it is now.
        kept: why it is still reserved; empty if it was given back.
    """

    charge: Charge
    kept: str = ""


def release_stale(
    output: str,
    *,
    ledger: PrivacyLedger,
    older_than: timedelta,
    reason: str,
    actor: str = "",
    look: Callable[[Handle], RunState] = LOOK_HERE,
) -> tuple[StaleReservation, ...]:
    """Give back every reservation that began in this store and that has not been renewed for a given time.

    This is safe for reservations of any age. If a run was started and has not stated that it read no row, its charge is
    burnt. If a suspended worker resumes later and draws noise, its sealed draw is never opened.

    A reservation whose application still runs is not stale, although nobody renews it while its task waits without a
    worker. If it cannot be found out whether the application still runs, the reservation is kept, too; ``give_back``
    ends such a single reservation.

    Args:
        output: URI of a folder of releases; reservations in other stores stay as they are.
        ledger: the ledger with the reservations.
        older_than: the time since the last renewal.
        reason: written to the audit log; public.
        actor: who requests it, for the audit log.
        look: a function from the stored handle of an application to whether the application still runs.

    Raises:
        InvalidRequest: ``output`` is not a folder of releases in a supported store, or the reason is missing.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached; call this again.
    """
    if not reason:
        raise InvalidRequest("reason", reason, "must be given", "say why")
    store, done = open_store(output), []
    with as_release_errors():
        require_releases(store, output)
        for charge in ledger.stale(older_than):
            try:
                require_claim(store, output, charge.release, charge.account)
            except InvalidRequest:
                done.append(StaleReservation(charge=charge, kept="it did not begin in this store"))
                continue
            layout = ReleaseLayout.of(output, charge.release, charge.id)
            kept = _running(store, layout, charge, ledger, look)
            ended = charge if kept else end_reservation(store, layout, charge, ledger, actor=actor, reason=reason)
            done.append(StaleReservation(charge=ended, kept=kept))
    return tuple(done)


def _running(
    store: ObjectStore,
    layout: ReleaseLayout,
    charge: Charge,
    ledger: PrivacyLedger,
    look: Callable[[Handle], RunState],
) -> str:
    """Why a charge is not stale; empty if none of its applications runs."""
    seal = seal_of(charge, ledger)
    for run in charge.open_runs:
        handle = kept_handle(store, layout, seal, run)
        state = RunState.ENDED if handle is None else look(handle)
        if state is RunState.RUNNING:
            return f"the application of run {run} still runs"
        if state is RunState.UNKNOWN and handle is not None and handle.backend != PROCESS:
            return f"the application of run {run} is on {handle.backend} and cannot be asked for"
    return ""


def claim(store: ObjectStore, output: str, key: str, account: str) -> None:
    """Write the claim of ``key`` to the store, before anything is reserved for it; retries require the claim.

    Without a claim, a retry on a machine with its own disk would find no draw there, and draw a second time.

    Raises:
        InvalidRequest: another account has a release of this key in this store.
        ReleaseDamaged: the claim is not whole.
        OSError: the store failed.
    """
    uri, content = claim_uri(output, key), _claim(key, account)
    failpoint("before_claim")
    store.create(uri, content)
    failpoint("after_claim")
    if _claimed(store, uri) != content:
        raise InvalidRequest(
            "key", key, f"is taken in {output} by a release of another account",
            "give the release another key, or another output",
        )  # fmt: skip


def require_claim(store: ObjectStore, output: str, key: str, account: str) -> None:
    """Refuse a store without the claim of ``key``, in which the release did not begin.

    Raises:
        InvalidRequest: the claim is missing, or it is another release's.
        ReleaseDamaged: the claim is not whole.
        OSError: the store failed.
    """
    if _claimed(store, claim_uri(output, key)) != _claim(key, account):
        raise InvalidRequest(
            "output", output, "must be the store in which this release began",
            "release to a store that all machines of this deployment share",
        )  # fmt: skip


def _claim(key: str, account: str) -> bytes:
    return document({"format": 1, "key": key, "account": account})


def _claimed(store: ObjectStore, uri: str) -> bytes | None:
    """The claim there; None without one."""

    def opener(content: bytes) -> bytes:
        try:
            json.loads(content)
        except ValueError:
            raise SealBroken("a claim is JSON") from None
        return content

    try:
        return open_whole(partial(store.read, uri), opener)
    except SealBroken:
        raise ReleaseDamaged(
            f"{uri} is not whole, so that nobody can tell whose key it is; remove it, or give the release another key"
        ) from None


def end_stated_runs(
    store: ObjectStore, layout: ReleaseLayout, charge: Charge, ledger: PrivacyLedger, *, actor: str
) -> tuple[Charge, tuple[NothingRead, ...]]:
    """End, in the ledger, the open runs of ``charge`` that have stated that they read no row.

    Returns:
        The updated charge, and the statements of those runs.

    Raises:
        ChargeConflict: the charge is no longer reserved.
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be reached; try again.
    """
    seal = seal_of(charge, ledger)
    stated: list[NothingRead] = []
    for run in charge.open_runs:
        with suppress(SealBroken):  # an object that the charge's secret does not open is no statement
            opened = open_whole(partial(store.read, layout.statement(run)), partial(_statement, seal=seal, run=run))
            stated.extend(() if opened is None else (opened,))
    for statement in stated:
        failpoint("before_end_run")
        charge = ledger.end_run(charge.id, statement.run, actor=actor)
        failpoint("after_end_run")
    return charge, tuple(stated)


def _statement(sealed: bytes, *, seal: Seal, run: int) -> NothingRead:
    return NothingRead.from_json(seal.open(f"run-{run}.json", sealed), run=run)


def seal_of(charge: Charge, ledger: PrivacyLedger) -> Seal:
    """The seal of a charge's objects in the store.

    Raises:
        LedgerUnavailable: the ledger cannot be reached; try again.
    """
    return Seal(secret=ledger.run_key(charge.id), charge_id=charge.id, request_sha256=charge.request_sha256)


def end_reservation(
    store: ObjectStore, layout: ReleaseLayout, charge: Charge, ledger: PrivacyLedger, *, actor: str, reason: str
) -> Charge:
    """Void a reservation if it is certain that no row was read for it, and burn it otherwise.

    The ledger's record of runs decides. In addition, a charge is never voided if the store has a draw of it or
    something published: these may come from a run that a ledger restored from a backup lacks.

    Raises:
        ChargeConflict: the charge is no longer reserved.
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be reached; try again.
    """
    charge, _ = end_stated_runs(store, layout, ledger.charge(charge.id), ledger, actor=actor)
    stream = StreamLayout(release=layout)
    draw, *others = map(store.read, (layout.draw, layout.manifest, stream.segment(0), stream.description))
    failpoint("before_give_back")
    if draw is None and not any(others) and not charge.may_have_drawn:
        with suppress(ChargeConflict):  # a run was started meanwhile, or the charge is not reserved; burn raises then
            return _ended(ledger.void(charge.id, actor=actor, reason=reason))
    events = events_of(draw, charge, ledger)
    return _ended(ledger.burn(charge.id, events=events, actor=actor, reason=reason))


def _ended(charge: Charge) -> Charge:
    failpoint("after_give_back")
    return charge


def events_of(draw: bytes | None, charge: Charge, ledger: PrivacyLedger) -> tuple[dict[str, str], ...] | None:
    """The events of a sealed draw's mechanisms; None if the charge's secret does not open the draw.

    Raises:
        LedgerUnavailable: the ledger cannot be reached; try again.
    """
    try:
        return OpenedDraw.of(draw or b"", seal_of(charge, ledger)).events(charge)
    except SealBroken:
        return None
