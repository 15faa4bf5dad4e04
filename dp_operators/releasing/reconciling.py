"""Reconciliation: enter charges again that a ledger restored from a backup has lost, from the folders of releases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dp_operators.budget import BudgetExceeded, ChargeConflict, ChargeState
from dp_operators.releasing.charged_terms import require_charged
from dp_operators.releasing.drafts import require_releases
from dp_operators.releasing.errors import as_release_errors
from dp_operators.releasing.first_release import stored_sha256
from dp_operators.releasing.inspection import RECONCILED, known_charge
from dp_operators.releasing.requests import price
from dp_operators.releasing.reservations import events_of
from dp_operators.releasing.rollback_guard import begin_epoch
from dp_operators.releasing.stream_records import record_published_steps
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.headlines import headlines
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.request_documents import json_fields
from spark_jobs.contract.store.layout import DRAFT_FOLDER, MANIFEST_NAME, MAX_MANIFEST, ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.sealing import sha256
from spark_jobs.contract.store.stream_objects import STREAM_NAME
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest

if TYPE_CHECKING:
    from dp_operators.budget import PrivacyLedger

_REQUEST = re.compile(rf"([^/]+)/{DRAFT_FOLDER}/([A-Za-z0-9_-]{{1,100}})/request\.json")


@dataclass(frozen=True, kw_only=True)
class Reconciled:
    """What a reconciliation has changed in the ledger.

    Attributes:
        restored: ids of the charges that were missing from the ledger.
        committed: ids of the charges whose commit was missing from the ledger.
        findings: a line for each inconsistency that could not be repaired.
        steps: the number of published steps of streams that were missing from the ledger.
    """

    restored: tuple[str, ...]
    committed: tuple[str, ...]
    findings: tuple[str, ...]
    steps: int = 0


def reconcile(output: str, ledger: PrivacyLedger, *, actor: str) -> Reconciled:
    """Enter every charge that left a trace under ``output`` into the ledger again, and commit the visible releases.

    A draft's folder shows that its charge was reserved, and a visible manifest that it was committed. Nothing is given
    back. A charge without a draft left no trace and drew no noise: a retry reserves it anew. When every inconsistency
    is repaired, a new epoch of anchors begins in the store (see ``rollback_guard``).

    Args:
        output: URI of a folder of releases.
        ledger: the ledger that was restored from a backup; it is written to even while it is frozen.
        actor: who requests it, for the audit log.

    Raises:
        InvalidRequest: ``output`` is not a folder of releases in a supported store.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached; call this again.
    """
    store = open_store(output)
    restored: list[str] = []
    committed: list[str] = []
    findings: list[str] = []
    steps = 0
    with as_release_errors():
        require_releases(store, output)
        for folder, charge_id in _in_order(store, output):
            root = f"{output.rstrip('/')}/{folder}"
            try:
                reason = f"{RECONCILED}{output}"
                missing = known_charge(ledger, charge_id) is None
                if missing and _restore(store, root, charge_id, ledger, reason=reason, actor=actor):
                    restored.append(charge_id)
                if _commit_visible(store, root, charge_id, ledger, reason=reason, actor=actor):
                    committed.append(charge_id)
                steps += record_published_steps(store, root, charge_id, ledger, reason=reason, actor=actor)
            except (InvalidRequest, ValueError) as error:
                findings.append(f"{folder}, charge {charge_id}: {error}")
        if not findings:
            begin_epoch(store, output, ledger)
    return Reconciled(restored=tuple(restored), committed=tuple(committed), findings=tuple(findings), steps=steps)


def drafts_below(store: ObjectStore, output: str) -> Iterator[tuple[str, str]]:
    """The folder and the charge of each draft in a folder of releases."""
    for name in store.names(output):
        match = _REQUEST.fullmatch(name)
        if match is not None:
            yield match[1], match[2]


def _in_order(store: ObjectStore, output: str) -> list[tuple[str, str]]:
    """The drafts (folder, charge id), and of each release first the visible one, then the one that costs most.

    Of the charges of a key only one counts; the others were given back. A ledger that has lost them does not know which
    one that is, and the store is not trusted. Restoring the one that costs most never restores less than was spent.
    """

    def rank(draft: tuple[str, str]) -> tuple[str, bool, Decimal, str]:
        folder, charge_id = draft
        root = f"{output.rstrip('/')}/{folder}"
        visible = False
        with suppress(ValueError):
            visible = _visible(store, root)[1] == charge_id
        return folder, not visible, -_epsilon(store, root, charge_id), charge_id

    return sorted(set(drafts_below(store, output)), key=rank)


def stored_request(content: bytes) -> TableRequest:
    """The request of a release or of a stream, as it is stored with its draft.

    Raises:
        InvalidRequest: what is stored is not a request.
    """
    fields = json_fields(content)
    return (StreamRequest if "time" in fields else ReleaseRequest).parse(fields)


def _visible(store: ObjectStore, root: str) -> tuple[bytes | None, str | None]:
    """The manifest of a visible release, or the description of a visible stream, and the charge that it names.

    Raises:
        ValueError: it is neither.
    """
    manifest = store.read(f"{root}/{MANIFEST_NAME}", limit=MAX_MANIFEST)
    if manifest is not None:
        return manifest, Release.from_json(manifest).charge_id
    described = store.read(f"{root}/{STREAM_NAME}")
    if described is None:
        return None, None
    fields = json.loads(described)
    return described, str(fields.get("charge_id")) if isinstance(fields, dict) else None


def _layout(root: str, charge_id: str) -> ReleaseLayout:
    return ReleaseLayout(root=root, draft=f"{root}/{DRAFT_FOLDER}/{charge_id}")


def _epsilon(store: ObjectStore, root: str, charge_id: str) -> Decimal:
    with suppress(ValueError):
        return stored_request(store.read(_layout(root, charge_id).request) or b"").budget.epsilon
    return Decimal(0)


def _restore(store: ObjectStore, root: str, charge_id: str, ledger: PrivacyLedger, *, reason: str, actor: str) -> bool:
    """Enter a charge again, and return True; False if its key already has a charge that counts."""
    layout = _layout(root, charge_id)
    content = store.read(layout.request) or b""
    request = stored_request(content)
    account, _ = require_charged(request)
    key, cost = _key(store, root), price(request)
    existing = ledger.find_charge(account, key)
    if existing is not None and existing.counts:
        return False
    try:
        ledger.restore(
            account,
            id=charge_id,
            release=key,
            epsilon=cost.epsilon,
            delta=cost.delta,
            rho=cost.rho,
            blocks=request.blocks,
            allotment=_allotment(store.read(layout.account)),
            request_sha256=stored_sha256(content) if isinstance(request, ReleaseRequest) else request.charged_sha256,
            actor=actor,
            reason=reason,
        )
    except BudgetExceeded as exceeded:
        raise InvalidRequest(
            "cap", str(exceeded.cap), "is below what was spent: the ledger has also lost a change of the cap",
            "raise it again, and reconcile again",
        ) from None  # fmt: skip
    return True


def _allotment(account: bytes | None) -> str:
    """The allotment in the account figures; empty if the attempt died before it wrote them."""
    return "" if account is None else str(json.loads(account).get("allotment", ""))


def _key(store: ObjectStore, root: str) -> str:
    """The release key in the claim, which is written before the reservation."""
    return str(json.loads(store.read(f"{root}/{DRAFT_FOLDER}/claim.json") or b"{}").get("key", ""))


def _commit_visible(
    store: ObjectStore, root: str, charge_id: str, ledger: PrivacyLedger, *, reason: str, actor: str
) -> bool:
    manifest, of_charge = _visible(store, root)
    charge = known_charge(ledger, charge_id)
    if manifest is None or charge is None or of_charge != charge_id:
        return False
    if charge.state is ChargeState.COMMITTED and charge.manifest_sha256 == sha256(manifest):
        return False
    if charge.state is not ChargeState.RESERVED:
        raise ChargeConflict(
            "charge",
            value=charge_id,
            requirement=f"is {charge.state.value} in the ledger, but its release is visible",
            remedy="find out who published it",
        )
    draw = store.read(_layout(root, charge_id).draw)
    ledger.restore_commit(
        charge_id,
        sha256(manifest),
        events=events_of(draw, charge, ledger),
        figures=_figures(manifest),
        actor=actor,
        reason=reason,
    )
    return True


def _figures(manifest: bytes) -> list[dict[str, Any]] | None:
    """The headline figures of a visible release; None for a stream, and for what this version cannot read."""
    try:
        return [one.to_dict() for one in headlines(Release.from_json(manifest).results)]
    except (ValueError, TypeError, AttributeError, LookupError):
        return None
