"""What the first release of this package left behind: hashes of requests, and drafts that are not sealed.

That release wrote into a request what an account says of its table today, so the hash of the same request has changed.
A charge of its time is recognised by the old hash, computed from today's request; without that, a task that is cleared
after the upgrade would be refused. What may be done with such a charge is little, and safe:

- A committed one is given back as it was published. The ledger has the manifest's hash, and the manifest those of the
  files, so that a draft which nobody sealed is believed only where it is what was committed.
- A reserved one is burnt. Its draw, if there is one, lay readable in the store: it may have been read or replaced, and
  to draw again would be a second draw for one charge.

Nothing else depends on this module: it goes when no ledger holds charges of the first release any more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_operators.budget import ChargeState
from dp_operators.releasing.drafts import Draft
from dp_operators.releasing.errors import ReleaseDamaged, as_release_errors
from spark_jobs.contract.column_types import normal_type
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.sealing import sha256

if TYPE_CHECKING:
    from dp_operators.budget import Charge, PrivacyLedger

UNFINISHED = "was begun by an earlier version, whose draws cannot be used any more"


def pays_for(charge: Charge, request: ReleaseRequest) -> bool:
    """Whether ``charge`` was made for ``request``, by this release or by the first.

    Args:
        charge: found under the request's key.
        request: completed by its account's terms.

    Raises:
        ReleaseError: the store failed.
    """
    return charge.request_sha256 == request.sha256 or is_of_first_release(charge, request)


def is_of_first_release(charge: Charge, request: ReleaseRequest) -> bool:
    """Whether the first release made ``charge`` for a request that means the same as ``request``.

    The request that it stored is asked only how it spelled what can be spelled in several ways. It is not believed: the
    hash in the ledger has to be that of ``request``, so spelled.

    Args:
        charge: found under the request's key.
        request: completed by its account's terms.

    Raises:
        ReleaseError: the store failed.
    """
    if charge.request_sha256 in (request.sha256, ""):
        return False
    if charge.request_sha256 == first_sha256(request):
        return True
    return charge.request_sha256 == first_sha256(request, _stored_request(request, charge))


def first_key(request: ReleaseRequest, ledger: PrivacyLedger, *, written: ReleaseRequest) -> str | None:
    """The key under which the first release's ``dp-budget run`` charged a request by default; None if it did not.

    Args:
        request: completed by its account's terms.
        ledger: holds the charge.
        written: the request as its file has it.

    Raises:
        LedgerUnavailable: the ledger cannot be asked.
    """
    key = f"cli/{first_sha256(request.model_copy(update={'block_expression': written.block_expression}))}"
    charge = ledger.find_charge(request.account or "", key)
    return None if charge is None or charge.state is ChargeState.VOID else key


def first_sha256(request: ReleaseRequest, spelling: Mapping[str, Any] | None = None) -> str:
    """The hash that the first release gave to ``request``.

    Args:
        request: completed by its account's terms.
        spelling: the fields of a request of the first release: where they name the same table, version and pipeline,
            they are written as there. None writes them as the account has them.
    """
    fields = request.to_dict()
    fields["table"] = _first_table(request, spelling or {})
    model = fields["model"] or {}
    for name in ("release", "sha256"):
        model.pop(name, None)
    if model.get("kind") == "spark_ml":
        model["path"] = _spelled(model["path"], _part(spelling or {}, "model").get("path"))
    for options in fields["diagnostics"]:
        if isinstance(options.get("compare_with"), dict):
            options["compare_with"].pop("release", None)
    return _canonical_sha256(fields)


def stored_sha256(content: bytes) -> str:
    """The hash of a stored request as the version that wrote it computed it.

    Args:
        content: a JSON document that has been read as a request.
    """
    return _canonical_sha256(json.loads(content))


def _canonical_sha256(fields: Any) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_committed_draft(store: ObjectStore, layout: ReleaseLayout, charge: Charge) -> Draft:
    """The draft of a charge that the first release committed.

    Raises:
        ReleaseDamaged: it is not what was committed, or something of it is gone.
        OSError: the store failed.
    """
    manifest = store.read(layout.draft_manifest)
    if manifest is None:
        manifest = store.read(layout.manifest)
    if manifest is None or sha256(manifest) != charge.manifest_sha256:
        raise ReleaseDamaged(f"{layout.draft_manifest} is not what the ledger committed")
    release = Release.from_json(manifest)
    files = {}
    for file in release.files:
        content = store.read(layout.draft_file(file.name))
        if content is None or (len(content), sha256(content)) != (file.size, file.sha256):
            raise ReleaseDamaged(f"{layout.draft_file(file.name)} is not what was committed; only a backup has it")
        files[file.name] = content
    return Draft(manifest=manifest, release=release, files=files)


def _first_table(request: ReleaseRequest, spelling: Mapping[str, Any]) -> dict[str, Any]:
    table, spelled = request.table, _part(spelling, "table")
    columns = {column.name: column.type for column in table.columns or ()}
    snapshot = table.snapshot.model_dump(mode="json")
    pinned, spelled_pins = snapshot["partition"], _part(spelled, "snapshot").get("partition")
    if pinned and _as_texts(pinned) == _as_texts(spelled_pins):
        snapshot["partition"] = spelled_pins
    return {
        "format": table.form,
        "path": table.path and _spelled(table.path, spelled.get("path")),
        "name": table.name,
        "columns": _spelled_columns(columns, spelled.get("columns")) if table.form == "csv" else None,
        "snapshot": snapshot,
    }


def _spelled_columns(columns: dict[str, str], spelled: Any) -> dict[str, str]:
    """``spelled``, where its columns are those of the table, with the same types in other words."""
    if isinstance(spelled, dict) and spelled:
        try:
            same = {name: normal_type(str(of)) for name, of in spelled.items()}.items() <= columns.items()
        except InvalidRequest:  # a type that this release does not know
            same = False
        if same:
            return spelled
    return columns


def _spelled(path: str, spelled: Any) -> str:
    try:
        same = isinstance(spelled, str) and Place.of_folder(spelled).identity == Place.of_folder(path).identity
    except InvalidRequest:
        same = False
    return str(spelled) if same else path


def _as_texts(pins: Any) -> dict[str, str]:
    return {name: str(value) for name, value in pins.items()} if isinstance(pins, dict) else {}


def _part(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = fields.get(name)
    return part if isinstance(part, dict) else {}


def _stored_request(request: ReleaseRequest, charge: Charge) -> Mapping[str, Any]:
    if request.output is None:
        return {}
    layout = ReleaseLayout.of(Place.of_folder(request.output).folder, charge.release, charge.id)
    with as_release_errors():
        content = open_store(request.output).read(layout.request)
    try:
        stored = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}
