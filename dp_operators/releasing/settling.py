"""Claiming a place for a release, and giving a reservation back so that nothing can be drawn for it any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_operators.budget import ChargeState
from dp_operators.releasing.drafts import document, require_releases
from dp_operators.releasing.errors import store_faults
from dp_operators.releasing.keys import ReleaseKey
from dp_operators.releasing.requests import require_charged, with_blocks
from dp_operators.releasing.spendings import drawn_events
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.failpoints import failpoint
from spark_jobs.contract.layout import ReleaseLayout, claim_uri
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.stores import ObjectStore, open_store
from spark_jobs.contract.tombstone import Tombstone, is_tombstone

if TYPE_CHECKING:
    from datetime import timedelta

    from dp_operators.budget import Charge, PrivacyLedger


def give_back(
    request: ReleaseRequest, *, ledger: PrivacyLedger, key: ReleaseKey | str, reason: str, actor: str = ""
) -> Charge:
    """Give the reservation of a release back for good: ``void`` if nothing was drawn, ``burnt`` if something was.

    Args:
        request: the request that was charged; it says where the draw would be.
        ledger: holds the reservation.
        key: names the release.
        reason: why, for the tombstone and the audit log; public.
        actor: who asks, for the audit log.

    Returns:
        The settled charge; one that was settled before is left as it is.

    Raises:
        RequestRefused: there is no reservation of this request under this key.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be asked; try again.
    """
    account, output = require_charged(request)
    request = with_blocks(request, ledger)
    store = open_store(output)
    charge = ledger.find_charge(account, str(key))
    if charge is None or charge.request_sha256 != request.sha256:
        raise RequestRefused(
            "key",
            given=str(key),
            bound="must be the key of a reservation of this very request",
            remedy="give the request as it was charged: the release's folder holds it",
        )
    if charge.state is not ChargeState.RESERVED:
        return charge
    with store_faults():
        require_claim(store, output, charge.release, account)
        layout = ReleaseLayout.of(output, charge.release, charge.id)
        return _give_back(store, layout, charge, ledger, actor=actor, reason=reason)


@dataclass(frozen=True, kw_only=True)
class Released:
    """What became of a stale reservation: the charge as it is now, and why it is still reserved where it is."""

    charge: Charge
    kept: str = ""


def release_stale(
    output: str, *, ledger: PrivacyLedger, older_than: timedelta, reason: str, actor: str = ""
) -> tuple[Released, ...]:
    """Give back every reservation that nobody has renewed for so long and that began in this store.

    A tombstone is laid first, so that a worker that slept through it can no longer draw: safe at any age.

    Args:
        output: URI of a folder of releases; reservations of other stores are left alone.
        ledger: holds the reservations.
        older_than: how long ago somebody last worked on them.
        reason: why, for the tombstones and the audit log; public.
        actor: who asks, for the audit log.

    Raises:
        RequestRefused: no folder of releases in a known store, or no reason.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be asked; do it again.
    """
    if not reason:
        raise RequestRefused("reason", given=reason, bound="must be given", remedy="say why")
    store, done = open_store(output), []
    with store_faults():
        require_releases(store, output)
        for charge in ledger.stale(older_than):
            try:
                require_claim(store, output, charge.release, charge.account)
            except RequestRefused:
                done.append(Released(charge=charge, kept="it did not begin in this store"))
                continue
            layout = ReleaseLayout.of(output, charge.release, charge.id)
            done.append(Released(charge=_give_back(store, layout, charge, ledger, actor=actor, reason=reason)))
    return tuple(done)


def claim(store: ObjectStore, output: str, key: str, account: str) -> None:
    """Leave a mark in the store before anything is reserved for ``key``; retries look for it.

    Without it, a retry on a machine with a disk of its own would find no draw and make a second one.

    Raises:
        RequestRefused: another account has a release of this key in this store.
        OSError: the store failed.
    """
    uri, mark = claim_uri(output, key), _mark(key, account)
    failpoint("before_claim")
    store.create(uri, mark)
    failpoint("after_claim")
    if store.read(uri) != mark:
        raise RequestRefused(
            "key",
            given=key,
            bound=f"is taken in {output} by a release of another account",
            remedy="give the release another key, or another output",
        )


def require_claim(store: ObjectStore, output: str, key: str, account: str) -> None:
    """Make sure that ``claim`` left its mark in this very store.

    Raises:
        RequestRefused: it did not: this machine looks at another store than the one the release began in.
        OSError: the store failed.
    """
    if store.read(claim_uri(output, key)) != _mark(key, account):
        raise RequestRefused(
            "output",
            given=output,
            bound="must be the store in which this release began",
            remedy="release to a store that all machines of this deployment share",
        )


def _mark(key: str, account: str) -> bytes:
    return document({"format": 1, "key": key, "account": account})


def lay_tombstone(store: ObjectStore, layout: ReleaseLayout, charge: Charge, reason: str) -> bool:
    """Make a draw of ``charge`` impossible for ever; False if there is one.

    What lies at the draw's path decides, not what ``create`` says: both sides create exclusively, so it never changes.

    Raises:
        OSError: the store failed; the tombstone may lie there or not.
    """
    failpoint("before_tombstone")
    store.create(layout.draw, Tombstone.of(charge.id, reason=reason).to_json())
    content = store.read(layout.draw)
    failpoint("after_tombstone")
    if content is None:
        raise OSError(f"{layout.draw} cannot be read back")
    return is_tombstone(content)


def _give_back(
    store: ObjectStore, layout: ReleaseLayout, charge: Charge, ledger: PrivacyLedger, *, actor: str, reason: str
) -> Charge:
    if lay_tombstone(store, layout, charge, reason):
        return settle(ledger, charge, drawn=False, actor=actor, reason=reason)
    told = drawn_events(store.read(layout.draw), max_rows=charge.unit.max_rows)
    return settle(ledger, charge, drawn=True, events=told, actor=actor, reason=reason)


def settle(
    ledger: PrivacyLedger,
    charge: Charge,
    *,
    drawn: bool,
    events: tuple[dict[str, str], ...] | None = None,
    actor: str,
    reason: str,
) -> Charge:
    """Tell the ledger how a reservation ended: spent if something was drawn, free again if nothing ever can be.

    Raises:
        ChargeConflict: it ended otherwise before.
        LedgerUnavailable: the ledger cannot be asked; try again.
    """
    failpoint("before_settle")
    if drawn:
        settled = ledger.burn(charge.id, events=events, actor=actor, reason=reason)
    else:
        settled = ledger.void(charge.id, actor=actor, reason=reason)
    failpoint("after_settle")
    return settled
