"""Claiming a place for a release, and giving its reservation back: free where no run read a row, else burnt."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_operators.budget import ChargeConflict, ChargeState
from dp_operators.releasing.drafts import document, require_releases
from dp_operators.releasing.draws import OpenedDraw
from dp_operators.releasing.errors import as_release_errors
from dp_operators.releasing.first_release import pays_for
from dp_operators.releasing.keys import ReleaseKey
from dp_operators.releasing.requests import complete, require_charged
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ReleaseLayout, claim_uri
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.run_statement import NothingRead
from spark_jobs.contract.store.sealing import Seal, SealBroken

if TYPE_CHECKING:
    from datetime import timedelta

    from dp_operators.budget import Charge, PrivacyLedger


def give_back(
    request: ReleaseRequest, *, ledger: PrivacyLedger, key: ReleaseKey | str, reason: str, actor: str = ""
) -> Charge:
    """Give the reservation of a release back for good: ``void`` if no row was read for it, else ``burnt``.

    Args:
        request: the request that was charged; it says where the draw would be.
        ledger: holds the reservation.
        key: names the release.
        reason: why, for the audit log; public.
        actor: who asks, for the audit log.

    Returns:
        The settled charge; one that was settled before is left as it is.

    Raises:
        InvalidRequest: there is no reservation of this request under this key.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be asked; try again.
    """
    account, output = require_charged(request)
    request = complete(request, ledger)
    store = open_store(output)
    charge = ledger.find_charge(account, str(key))
    if charge is None or not pays_for(charge, request):
        raise InvalidRequest(
            "key",
            value=str(key),
            requirement="must be the key of a reservation of this very request",
            remedy="give the request as it was charged: the release's folder holds it",
        )
    if charge.state is not ChargeState.RESERVED:
        return charge
    with as_release_errors():
        require_claim(store, output, charge.release, account)
        layout = ReleaseLayout.of(output, charge.release, charge.id)
        return end_reservation(store, layout, charge, ledger, actor=actor, reason=reason)


@dataclass(frozen=True, kw_only=True)
class Released:
    """What became of a stale reservation: the charge as it is now, and why it is still reserved where it is."""

    charge: Charge
    kept: str = ""


def release_stale(
    output: str, *, ledger: PrivacyLedger, older_than: timedelta, reason: str, actor: str = ""
) -> tuple[Released, ...]:
    """Give back every reservation that nobody has renewed for so long and that began in this store.

    Safe at any age: a run that was started and has not stated that it read no row leaves its charge burnt, and what a
    worker that slept through it may still draw is sealed and opened by nobody.

    Args:
        output: URI of a folder of releases; reservations of other stores are left alone.
        ledger: holds the reservations.
        older_than: how long ago somebody last worked on them.
        reason: why, for the audit log; public.
        actor: who asks, for the audit log.

    Raises:
        InvalidRequest: no folder of releases in a known store, or no reason.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be asked; do it again.
    """
    if not reason:
        raise InvalidRequest("reason", value=reason, requirement="must be given", remedy="say why")
    store, done = open_store(output), []
    with as_release_errors():
        require_releases(store, output)
        for charge in ledger.stale(older_than):
            try:
                require_claim(store, output, charge.release, charge.account)
            except InvalidRequest:
                done.append(Released(charge=charge, kept="it did not begin in this store"))
                continue
            layout = ReleaseLayout.of(output, charge.release, charge.id)
            done.append(Released(charge=end_reservation(store, layout, charge, ledger, actor=actor, reason=reason)))
    return tuple(done)


def claim(store: ObjectStore, output: str, key: str, account: str) -> None:
    """Leave a mark in the store before anything is reserved for ``key``; retries look for it.

    Without it, a retry on a machine with a disk of its own would find no draw and make a second one.

    Raises:
        InvalidRequest: another account has a release of this key in this store.
        OSError: the store failed.
    """
    uri, mark = claim_uri(output, key), _mark(key, account)
    failpoint("before_claim")
    store.create(uri, mark)
    failpoint("after_claim")
    if store.read(uri) != mark:
        raise InvalidRequest(
            "key",
            value=key,
            requirement=f"is taken in {output} by a release of another account",
            remedy="give the release another key, or another output",
        )


def require_claim(store: ObjectStore, output: str, key: str, account: str) -> None:
    """Make sure that ``claim`` left its mark in this very store.

    Raises:
        InvalidRequest: it did not: this machine looks at another store than the one the release began in.
        OSError: the store failed.
    """
    if store.read(claim_uri(output, key)) != _mark(key, account):
        raise InvalidRequest(
            "output",
            value=output,
            requirement="must be the store in which this release began",
            remedy="release to a store that all machines of this deployment share",
        )


def _mark(key: str, account: str) -> bytes:
    return document({"format": 1, "key": key, "account": account})


def end_stated_runs(
    store: ObjectStore, layout: ReleaseLayout, charge: Charge, ledger: PrivacyLedger, *, actor: str
) -> tuple[Charge, tuple[NothingRead, ...]]:
    """Tell the ledger which runs of ``charge`` have stated that they read no row.

    Returns:
        The charge as it is then, and what those runs stated.

    Raises:
        ChargeConflict: the charge was settled meanwhile.
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be asked; try again.
    """
    seal = seal_of(charge, ledger)
    stated = []
    for run in charge.open_runs:
        sealed = store.read(layout.statement(run))
        with suppress(SealBroken):  # whatever else lies there states nothing
            stated.append(NothingRead.from_json(seal.open(f"run-{run}.json", sealed or b""), run=run))
    for statement in stated:
        failpoint("before_end_run")
        charge = ledger.end_run(charge.id, statement.run, actor=actor)
        failpoint("after_end_run")
    return charge, tuple(stated)


def seal_of(charge: Charge, ledger: PrivacyLedger) -> Seal:
    """What the objects of a charge are sealed with.

    Raises:
        LedgerUnavailable: the ledger cannot be asked; try again.
    """
    return Seal(secret=ledger.run_key(charge.id), charge_id=charge.id, request_sha256=charge.request_sha256)


def end_reservation(
    store: ObjectStore, layout: ReleaseLayout, charge: Charge, ledger: PrivacyLedger, *, actor: str, reason: str
) -> Charge:
    """Void a reservation if it is certain that no row was read for it, and burn it otherwise.

    Certain is what the ledger knows of its runs. What lies in the store can only make it less so: a ledger that was
    restored from a backup may have forgotten a run, and the draw or the release has not.

    Raises:
        ChargeConflict: it was settled meanwhile.
        OSError: the store failed.
        LedgerUnavailable: the ledger cannot be asked; try again.
    """
    charge, _ = end_stated_runs(store, layout, ledger.charge(charge.id), ledger, actor=actor)
    draw = store.read(layout.draw)
    failpoint("before_give_back")
    if draw is None and not charge.may_have_drawn and store.read(layout.manifest) is None:
        with suppress(ChargeConflict):  # a run was started meanwhile, or the charge was settled, which burning finds
            return _ended(ledger.void(charge.id, actor=actor, reason=reason))
    events = events_of(draw, charge, ledger)
    return _ended(ledger.burn(charge.id, events=events, actor=actor, reason=reason))


def _ended(charge: Charge) -> Charge:
    failpoint("after_give_back")
    return charge


def events_of(draw: bytes | None, charge: Charge, ledger: PrivacyLedger) -> tuple[dict[str, str], ...] | None:
    """What the mechanisms of a sealed draw spent; None where the charge's secret does not open it.

    Raises:
        LedgerUnavailable: the ledger cannot be asked; try again.
    """
    try:
        return OpenedDraw.of(draw or b"", seal_of(charge, ledger)).events(charge)
    except SealBroken:
        return None
