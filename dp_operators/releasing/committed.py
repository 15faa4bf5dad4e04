"""Earlier releases that a request names: read from their store, and taken only if the ledger vouches for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_operators.budget import ChargeState
from dp_operators.releasing.errors import store_faults
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.release import PRIVATE, Release
from spark_jobs.contract.store.layout import MANIFEST_NAME, release_folder
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.store.sealing import sha256

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader


@dataclass(frozen=True, kw_only=True)
class Committed:
    """A published release whose manifest is, byte for byte, the one that the ledger committed.

    Attributes:
        uri: its folder.
        release: what the manifest says.
        what: the field of the request that names it, for refusals.
    """

    uri: str
    release: Release
    what: str

    def file(self, name: str) -> bytes:
        """The content of one of its files.

        Raises:
            InvalidRequest: the manifest names no such file, or it is not there as the manifest says.
            ReleaseFailed: the store failed.
        """
        entries = [entry for entry in self.release.files if entry.name == name]
        with store_faults():
            content = open_store(self.uri, what=self.what).read(f"{self.uri}/{name}") if entries else None
        if content is None or (len(content), sha256(content)) != (entries[0].size, entries[0].sha256):
            raise InvalidRequest(
                self.what,
                value=self.uri,
                requirement=f"must hold {name} as its manifest says",
                remedy="dp-budget check-release says what is wrong with it",
            )
        return content


def committed_release(uri: object, ledger: LedgerReader, *, what: str) -> Committed:
    """The published release in a folder.

    Args:
        uri: the folder, or the manifest in it.
        ledger: that paid for it; it is only read.
        what: the field of the request that names it.

    Raises:
        InvalidRequest: no release lies there, the ledger has not committed this one, or it lies elsewhere than where
            the account that paid for it releases.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    if not isinstance(uri, str) or not uri:
        raise InvalidRequest(
            what,
            value=uri,
            requirement="must be the URI of a release",
            remedy="give what the task that made it returned",
        )
    folder = Place.of_folder(uri.rstrip("/").removesuffix(f"/{MANIFEST_NAME}"), what=what).identity
    store = open_store(folder, what=what)
    with store_faults():
        content = store.read(f"{folder}/{MANIFEST_NAME}")
    if content is None:
        raise InvalidRequest(
            what,
            value=folder,
            requirement=f"must be a folder that holds {MANIFEST_NAME}",
            remedy="wait for the task that makes it, or check the path",
        )
    refused = InvalidRequest(
        what,
        value=folder,
        requirement="must be a release that this ledger has committed",
        remedy="make it by a charged release; dp-budget check-release says what is wrong with this one",
    )
    try:
        release = Release.from_json(content)
        charge = ledger.charge(release.charge_id or "")
        outputs = ledger.account(charge.account).outputs
    except InvalidRequest:
        raise refused from None
    paid = charge.state is ChargeState.COMMITTED and charge.manifest_sha256 == sha256(content)
    if not paid or release.key != charge.release or release.guarantee != PRIVATE:
        raise refused
    if folder not in (release_folder(output, charge.release) for output in outputs):
        raise InvalidRequest(
            what,
            value=folder,
            requirement=f"must lie where account {charge.account} releases",
            remedy="name the release where it was published; dp-budget show lists the account's outputs",
        )
    return Committed(uri=folder, release=release, what=what)
