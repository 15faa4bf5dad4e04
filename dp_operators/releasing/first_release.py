"""Charges of this package's first version: their request hashes differ, and their drafts are not sealed.

In the first version a request itself held the description of the table that the account's binding holds now, so the
same request has another hash today. Ledgers of the first version are not upgraded, but their charges can be entered
into a new ledger from the drafts in a store (``reconciling``). Such a charge is recognised by its old hash, computed
from today's request; otherwise a cleared task would be refused. The charge is handled in one of two ways:

- A committed charge gives the release as it was published. The ledger has the hash of the visible manifest, and the
  manifest has the files' hashes, so that an unsealed draft is used only if it is exactly what was committed.
- A reserved charge is burnt. Its draw, if there is one, was readable in the store: somebody may have read or replaced
  it, and drawing again would be a second draw for one charge.

This module can be deleted when no store holds releases of the first version any more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
from spark_jobs.contract.table_request import TableRequest

if TYPE_CHECKING:
    from dp_operators.budget import Charge, PrivacyLedger

FIRST_TO_SHARE = ("roc_curve", "binned_residuals", "calibration")
"""The kinds that had the option ``share`` in the first version."""
UNFINISHED = "was begun by an earlier version, whose draws cannot be used any more"


def pays_for(charge: Charge, request: TableRequest) -> bool:
    """Whether ``charge`` was made for ``request``, by this version or by the first.

    Args:
        charge: the charge that was found under the request's key.
        request: the request, completed by its account.

    Raises:
        ReleaseError: the store failed.
    """
    if charge.request_sha256 == request.charged_sha256:
        return True
    return isinstance(request, ReleaseRequest) and is_of_first_release(charge, request)


def is_of_first_release(charge: Charge, request: ReleaseRequest) -> bool:
    """Whether the first version made ``charge`` for a request that means the same as ``request``.

    Paths and types can be spelled in several ways. The stored request shows the spelling, but is not trusted: the hash
    in the ledger must be that of ``request`` in this spelling.

    Args:
        charge: the charge that was found under the request's key.
        request: the request, completed by its account.

    Raises:
        ReleaseError: the store failed.
    """
    if charge.request_sha256 in (request.sha256, ""):
        return False
    if charge.request_sha256 == first_sha256(request):
        return True
    return charge.request_sha256 == first_sha256(request, _stored_request(request, charge))


def first_key(request: ReleaseRequest, ledger: PrivacyLedger, *, written: ReleaseRequest) -> str | None:
    """The key under which ``dp-budget run`` of the first version charged a request; None if there is no such charge.

    Args:
        request: the request, completed by its account.
        ledger: the ledger with the charge.
        written: the request as it is in its file, before it was completed.

    Raises:
        LedgerUnavailable: the ledger cannot be reached.
    """
    key = f"cli/{first_sha256(request.model_copy(update={'block_expression': written.block_expression}))}"
    charge = ledger.find_charge(request.account or "", key)
    return key if charge is not None and charge.counts else None


def first_sha256(request: ReleaseRequest, spelling: Mapping[str, Any] | None = None) -> str:
    """The hash that the first version gave to ``request``.

    Args:
        request: the request, completed by its account.
        spelling: the fields of a stored request of the first version. A table, version or pipeline that is the same in
            both is spelled as in the stored request; with None, everything is spelled as in the account.
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
        if options.get("share") and options["kind"] not in FIRST_TO_SHARE:
            del options["share"]
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
    """The draft of a charge that the first version committed.

    Raises:
        ReleaseDamaged: the draft differs from what was committed, or a part is missing.
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
        if content is None or not file.matches(content):
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
        "columns": _spelled_columns(columns, spelled.get("columns")) if table.is_text else None,
        "snapshot": snapshot,
    }


def _spelled_columns(columns: dict[str, str], spelled: Any) -> dict[str, str]:
    """``spelled`` if it declares the table's columns with the same types; otherwise ``columns``."""
    if isinstance(spelled, dict) and spelled:
        try:
            same = {name: normal_type(str(of)) for name, of in spelled.items()}.items() <= columns.items()
        except InvalidRequest:  # a type that this version does not know
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
