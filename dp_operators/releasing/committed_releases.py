"""Published releases that the ledger has committed, read from the store.

Whoever can write to the store could put a model or a distribution function there that was never paid for and is not
private. So a release is used only if its manifest is, byte for byte, the one that the ledger committed, and its files
only if they have the sizes and hashes that the manifest lists.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_operators.budget import ChargeState
from dp_operators.budget.tables.audit import OPENED, OUTPUTS_BOUND
from dp_operators.releasing.drafts import read_manifest
from dp_operators.releasing.errors import as_release_errors
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.release import PRIVATE, Release
from spark_jobs.contract.store.layout import MANIFEST_NAME, release_folder
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.store.sealing import sha256

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader


@dataclass(frozen=True, kw_only=True)
class CommittedRelease:
    """A published release whose manifest is, byte for byte, the one that the ledger committed.

    Attributes:
        uri: the release's folder.
        release: the parsed manifest.
        what: the request's field that names the release; error messages begin with it.
    """

    uri: str
    release: Release
    what: str

    def file(self, name: str) -> bytes:
        """The content of one of the release's files.

        Raises:
            InvalidRequest: the manifest lists no such file, or the file is missing or differs from the manifest.
            ReleaseFailed: the store failed.
        """
        entries = [entry for entry in self.release.files if entry.name == name]
        with as_release_errors():
            content = entries[0].read(open_store(self.uri, what=self.what), self.uri) if entries else None
        if content is None or not entries[0].matches(content):
            raise InvalidRequest(
                self.what, self.uri, f"must hold {name} as its manifest says",
                "dp-budget check-release says what is wrong with it",
            )  # fmt: skip
        return content


def outputs_ever(account: str, ledger: LedgerReader) -> tuple[str, ...]:
    """The folders that an account releases to, and then all those that it was ever bound to."""
    folders = list(ledger.account(account).outputs)
    for entry in reversed(ledger.log(account)):
        if entry.action in (OPENED, OUTPUTS_BOUND):
            folders += json.loads(entry.details).get("outputs", [])
    return tuple(dict.fromkeys(folders))


def committed_release(
    uri: object, ledger: LedgerReader, *, what: str, manifest_sha256: str | None = None, earlier: bool = False
) -> CommittedRelease:
    """The published release in a folder.

    Args:
        uri: the folder, or the manifest in it.
        ledger: the ledger that paid for the release; it is only read.
        what: the request's field that names the release.
        manifest_sha256: the hash of the release's manifest, if known; a manifest with another hash is not parsed.
        earlier: whether it may also lie in a folder that the account was bound to before.

    Raises:
        InvalidRequest: there is no release in the folder, the ledger has not committed it, or it lies outside the
            output folders of the account that paid for it.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    if not isinstance(uri, str) or not uri:
        raise InvalidRequest(what, uri, "must be the URI of a release", "give what the task that made it returned")
    folder = Place.of_folder(uri.rstrip("/").removesuffix(f"/{MANIFEST_NAME}"), what=what).identity
    store = open_store(folder, what=what)
    content = read_manifest(store, folder, what=what, remedy="wait for the task that makes it, or check the path")
    refused = InvalidRequest(
        what,
        folder,
        "must be a release that this ledger has committed",
        "make it by a charged release; dp-budget check-release says what is wrong with this one",
    )
    if manifest_sha256 is not None and manifest_sha256 != sha256(content):
        raise refused
    try:
        release = Release.from_json(content)
        charge = ledger.charge(release.charge_id or "")
        outputs = outputs_ever(charge.account, ledger) if earlier else ledger.account(charge.account).outputs
    except InvalidRequest:
        raise refused from None
    paid = charge.state is ChargeState.COMMITTED and charge.manifest_sha256 == sha256(content)
    if not paid or release.key != charge.release or release.guarantee != PRIVATE:
        raise refused
    parent = Place.of_folder(folder.rpartition("/")[0], what=what)
    bound = any(Place.parse(output).contains(parent) for output in outputs)
    if not bound or folder != release_folder(parent.identity, charge.release):
        raise InvalidRequest(
            what, folder, f"must lie where account {charge.account} releases",
            "name the release where it was published; dp-budget show lists the account's outputs",
        )  # fmt: skip
    return CommittedRelease(uri=folder, release=release, what=what)
