"""Removes the files of old releases, but keeps what can make them again and what a restored ledger needs.

Of a committed release, the files that its manifest lists are removed, with the sealed copies in its draft. Its
manifest, receipt, request and draw and the anchors stay, and the ledger is only read. So no charge is forgotten or
given back: a retry of the release's task makes the same files again from the same draw, at no cost, and no second draw
can exist. A published file is removed only if it is, byte for byte, the one that the committed manifest lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dp_operators.budget import ChargeState
from dp_operators.releasing.drafts import require_releases
from dp_operators.releasing.errors import as_release_errors
from dp_operators.releasing.inspection import known_charge
from dp_operators.releasing.reconciling import drafts_below
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.layout import MAX_MANIFEST, ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.sealing import sha256

if TYPE_CHECKING:
    from dp_operators.budget import Charge, LedgerReader


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """An old release and its files.

    Attributes:
        release: the release key.
        files: URIs of what is removed, or would be.
        kept: why nothing is removed; empty if something is.
    """

    release: str
    files: tuple[str, ...] = ()
    kept: str = ""


def prune(output: str, ledger: LedgerReader, *, older_than: timedelta, remove: bool) -> tuple[Pruned, ...]:
    """List the old committed releases under ``output`` that still have files; with ``remove``, remove the files.

    Args:
        output: URI of a folder of releases.
        ledger: the ledger that paid for them.
        older_than: a release is old if at least this time has passed since its commit.
        remove: whether to remove the files; otherwise the releases are only listed.

    Raises:
        InvalidRequest: ``output`` is not a folder of releases in a supported store.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    store, before = open_store(output), datetime.now(UTC) - older_than
    listed = []
    with as_release_errors():
        require_releases(store, output)
        for _, charge_id in sorted(set(drafts_below(store, output))):
            charge = known_charge(ledger, charge_id)
            if charge is not None and _is_old(charge, before):
                pruned = _files_of(store, ReleaseLayout.of(output, charge.release, charge.id), charge)
                if pruned.files or pruned.kept:
                    listed.append(pruned)
        for uri in (uri for pruned in listed for uri in pruned.files if remove):
            store.remove(uri)
    return tuple(listed)


def _is_old(charge: Charge, before: datetime) -> bool:
    committed_at = charge.settled_at if charge.state is ChargeState.COMMITTED and charge.manifest_sha256 else None
    return committed_at is not None and datetime.fromisoformat(committed_at) <= before


def _files_of(store: ObjectStore, layout: ReleaseLayout, charge: Charge) -> Pruned:
    manifest = store.read(layout.manifest, limit=MAX_MANIFEST)
    if manifest is None or sha256(manifest) != charge.manifest_sha256:
        return Pruned(release=charge.release, kept="its manifest is missing, or not what the ledger committed")
    draw = store.read(layout.draw)
    if draw is None or sha256(draw) != charge.draw_sha256:
        return Pruned(release=charge.release, kept="its draw is missing, so its files could not be made again")
    return Pruned(release=charge.release, files=tuple(_present(store, layout, Release.from_json(manifest))))


def _present(store: ObjectStore, layout: ReleaseLayout, release: Release) -> Iterator[str]:
    # without its manifest, a draft is one that has not been written yet
    sealed = (layout.draft_manifest, *(layout.draft_file(file.name) for file in release.files))
    yield from (uri for uri in sealed if store.read(uri) is not None)
    for file in release.files:
        content = file.read(store, layout.root)
        if content is not None and file.matches(content):
            yield layout.file(file.name)
