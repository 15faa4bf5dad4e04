"""The terms of a table that a charge was made on, after the account's binding of the table has grown.

An account's administrator may bind more columns, public columns or facts at any time. A stream runs for months, and a
task may be cleared long after its run, so a request keeps the terms with which its key was charged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from dp_operators.releasing.errors import as_release_errors
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.layout import ReleaseLayout
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.table_request import TableRequest

if TYPE_CHECKING:
    from dp_operators.budget import PrivacyLedger

AnyRequest = TypeVar("AnyRequest", bound=TableRequest)


def on_charged_terms(request: AnyRequest, ledger: PrivacyLedger, key: str) -> AnyRequest:
    """``request`` on the terms of its key's charge, if it is the charged request but for the table's terms.

    The stored request is used only for these terms and is not trusted: the result must have the hash in the ledger.

    Args:
        request: completed by its account's terms of today.
        ledger: holds the charge.
        key: the release key, or a stream's.

    Raises:
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    charge = ledger.find_charge(request.account or "", key)
    if charge is None or not charge.counts or charge.request_sha256 == request.charged_sha256:
        return request
    if request.output is None:
        return request
    layout = ReleaseLayout.of(Place.of_folder(request.output).folder, charge.release, charge.id)
    with as_release_errors():
        content = open_store(request.output).read(layout.request)
    try:
        stored = type(request).from_json(content or b"{}")
    except InvalidRequest:
        return request
    table = stored.table.model_copy(
        update={"snapshot": request.table.snapshot, "version_order": request.table.version_order}
    )
    as_charged = request.model_copy(update={"table": table})
    return as_charged if as_charged.charged_sha256 == charge.request_sha256 else request
