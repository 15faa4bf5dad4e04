"""Checks that a release's folder agrees with its manifest, and its manifest with the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_operators.budget import ChargeState
from dp_operators.releasing.drafts import read_manifest
from dp_operators.releasing.errors import as_release_errors
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.headlines import headlines
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.layout import DRAFT_FOLDER, MANIFEST_NAME, MAX_RECEIPT, RECEIPT_NAME, folder_name
from spark_jobs.contract.store.objects import LocalStore, ObjectStore, local_path, open_store
from spark_jobs.contract.store.sealing import sha256

if TYPE_CHECKING:
    from dp_operators.budget import Charge, LedgerReader


def check_release_folder(uri: str, ledger: LedgerReader) -> tuple[str, ...]:
    """A line for each difference between a release's folder, its manifest and the ledger; empty for a sound release.

    Args:
        uri: the release's folder.
        ledger: the ledger that paid for the release; it is only read.

    Raises:
        InvalidRequest: there is no release in the folder.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    uri = uri.rstrip("/").removesuffix(f"/{MANIFEST_NAME}")
    store = open_store(uri, what="release")
    content = read_manifest(store, uri, what="release", remedy="check the path")
    with as_release_errors():
        try:
            release = Release.from_json(content)
        except ValueError:
            return (f"{MANIFEST_NAME}: is not a manifest",)
        charge = known_charge(ledger, release.charge_id)
        return (
            *_files(store, uri, release),
            *_unlisted(store, uri, release),
            *_payment(release, charge, sha256(content)),
            *_place(uri, release),
            *_receipt(store.read(f"{uri}/{RECEIPT_NAME}", limit=MAX_RECEIPT), release, charge, sha256(content), ledger),
        )


def known_charge(ledger: LedgerReader, charge_id: str | None) -> Charge | None:
    """The charge of this id; None if the ledger has none."""
    try:
        return ledger.charge(charge_id or "")
    except InvalidRequest:
        return None


def _files(store: ObjectStore, uri: str, release: Release) -> Iterator[str]:
    for file in release.files:
        if isinstance(store, LocalStore) and _is_link(local_path(uri), file.name):
            yield f"{file.name}: is a symbolic link, which is not followed"
            continue
        content = file.read(store, uri)
        if content is None:
            yield f"{file.name}: is missing"
        elif not file.matches(content):
            yield f"{file.name}: has another SHA-256 than the manifest says, {file.sha256}"


def _is_link(folder: Path, name: str) -> bool:
    """Whether a file's name leads elsewhere: its content is then no release's, and nobody is told about it."""
    return (folder / name).resolve() != folder.resolve() / name


def _unlisted(store: ObjectStore, uri: str, release: Release) -> Iterator[str]:
    """The objects in the folder that the manifest does not list; drafts are left out."""
    own = {MANIFEST_NAME, RECEIPT_NAME, *(file.name for file in release.files)}
    for name in sorted(store.names(uri)):
        if name not in own and not name.startswith(f"{DRAFT_FOLDER}/"):
            yield f"{name}: is not in the manifest"


def _payment(release: Release, charge: Charge | None, manifest: str) -> Iterator[str]:
    if charge is None:
        yield f"{MANIFEST_NAME}: names charge {release.charge_id or 'none'}, which the ledger does not know"
        return
    if charge.state is not ChargeState.COMMITTED:
        yield f"{MANIFEST_NAME}: its charge {charge.id} is {charge.state.value}, not committed"
    elif charge.manifest_sha256 != manifest:
        yield f"{MANIFEST_NAME}: has SHA-256 {manifest}, the ledger committed {charge.manifest_sha256 or 'none'}"
    else:
        yield from _other_figures(release, charge)
    for what, claimed, paid in (
        ("key", release.key, charge.release),
        ("request", release.request_sha256, charge.request_sha256),
        ("relation", release.neighbours.value, charge.neighbours.value),
        ("unit", release.unit, charge.unit),
    ):
        if claimed != paid:
            yield f"{MANIFEST_NAME}: its {what} is not that of charge {charge.id}"
    if not release.cost.is_within(charge.cost):
        yield f"{MANIFEST_NAME}: its cost is above that of charge {charge.id}"


def _other_figures(release: Release, charge: Charge) -> Iterator[str]:
    """The figures that the ledger recorded otherwise than the manifest, which it committed, has them."""
    stated = {one.name: one.to_dict() for one in headlines(release.results)}
    for entry in charge.figures or ():
        name = entry.get("name") if isinstance(entry, dict) else entry
        if stated.get(str(name)) != entry:
            yield f"{MANIFEST_NAME}: the ledger has another figure {name} of charge {charge.id}"


def _place(uri: str, release: Release) -> Iterator[str]:
    if release.key and uri.rsplit("/", 1)[-1] != folder_name(release.key):
        yield f"{MANIFEST_NAME}: lies in another folder than its key's, {folder_name(release.key)}"


def _receipt(
    content: bytes | None, release: Release, charge: Charge | None, manifest: str, ledger: LedgerReader
) -> Iterator[str]:
    if content is None:
        yield f"{RECEIPT_NAME}: is missing"
        return
    try:
        receipt: dict[str, Any] = json.loads(content)
        seq, recorded = int(receipt["audit_log"]["seq"]), str(receipt["audit_log"]["hash"])
        facts = (receipt["charge_id"], receipt["manifest_sha256"])
    except (ValueError, KeyError, TypeError):
        yield f"{RECEIPT_NAME}: is not a receipt"
        return
    if facts != (release.charge_id, manifest):
        yield f"{RECEIPT_NAME}: is another manifest's"
    entry = ledger.entry(seq)
    if entry is None and seq <= ledger.head().seq and not ledger.sees_all():
        return  # another account's entry, which this role may not see
    if (entry is None or entry.hash != recorded) and not _was_restored(ledger, charge):
        state = "has no such entry" if entry is None else "has a different one"
        yield f"{RECEIPT_NAME}: records entry {seq} of the audit log as {recorded}; the log {state}: it was altered"


def _was_restored(ledger: LedgerReader, charge: Charge | None) -> bool:
    """Whether the charge was entered again after a restore, so that its receipt refers to the lost part of the log."""
    entry = None if charge is None else ledger.entry(charge.entry)
    return entry is not None and entry.reason.startswith(RECONCILED)


RECONCILED = "reconciled from "
"""The beginning of the reason of every entry that a reconciliation writes."""
