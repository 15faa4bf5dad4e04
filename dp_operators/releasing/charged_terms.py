"""A request completed with its account's terms: today's terms, or those at which its key was charged.

The account fixes the table and the folder of releases if it has only one, the privacy unit, the neighbour relation and
the domains of the columns; a request need not state them. An administrator may change domains and bind more columns at
any time. A stream runs for months, and a task may be cleared long after its run, so a request whose key was charged
keeps the terms of its charge.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from dp_operators.budget import ChargeState
from dp_operators.budget.tables.audit import DOMAINS_CHANGED, OPENED, TABLE_BOUND
from dp_operators.budget.transactions.bindings import with_domain_texts
from dp_operators.releasing.committed_releases import outputs_ever
from dp_operators.releasing.errors import as_release_errors
from dp_operators.releasing.federations import key_of, with_federation
from dp_operators.releasing.first_release import first_key
from dp_operators.releasing.from_account import account_of, blocks_on, from_account, lists_of
from dp_operators.releasing.released_bounds import released_bound
from dp_operators.releasing.saved_models import with_saved_model
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.completion import completed
from spark_jobs.contract.domain_checks import Domains
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.row_bound import ReleasedBound
from spark_jobs.contract.places import Place
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.row_choice import choice_key, choice_of, with_rows
from spark_jobs.contract.store.layout import MANIFEST_NAME, ReleaseLayout, release_folder
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.tables import TableSource
from spark_jobs.contract.written import Written, written_fields

if TYPE_CHECKING:
    from dp_operators.budget import Account, Charge, PrivacyLedger

AnyRequest = TypeVar("AnyRequest", bound=TableRequest)


@dataclass(frozen=True, kw_only=True)
class ChargedRequest(Generic[AnyRequest]):
    """A request that an account pays for, with its key; made before the request is priced, released or given back.

    Attributes:
        written: the request as its author wrote it.
        request: the completed request: if its key has a charge, on the terms of this charge, otherwise on today's
            terms.
        account: the account that pays.
        output: normalized URI of the folder of releases.
        key: the release key, or a stream's; for a federated release, the key of its agreement.
        ledger: holds the account and the charge.
    """

    written: AnyRequest | Written[AnyRequest]
    request: AnyRequest
    account: str
    output: str
    key: str
    ledger: PrivacyLedger

    @classmethod
    def of(cls, request: AnyRequest | Written[AnyRequest], ledger: PrivacyLedger, key: object = None) -> Self:
        """The request with its account and key, completed on the terms on which it is or would be charged.

        The stored request is used only for the terms of a charge and is not trusted: the result must have the hash in
        the ledger.

        Args:
            request: the request as it is written, or completed.
            ledger: holds the account and the charge.
            key: the release key, or a stream's; by default it follows from the written request, so that equal requests
                have the same key wherever they are run, and however the account changes later.

        Raises:
            InvalidRequest: the request cannot be completed, see ``complete``, and there is no charge for it.
            ReleaseError: the store failed.
            LedgerUnavailable: the ledger cannot be reached.
        """
        refused = None
        try:
            today: AnyRequest | None = complete(request, ledger)
        except InvalidRequest as error:
            # on today's terms it may be refused where a charge was made on earlier ones
            today, refused = None, error
        name = _key_of(request, today, ledger, key)
        today = None if today is None else _with_choice(today, ledger, name)
        charge = ledger.find_charge(request.account, name) if request.account else None
        whole = today
        if charge is not None and charge.counts and (today is None or today.charged_sha256 != charge.request_sha256):
            whole = _as_charged(request, ledger, charge) or today
        if whole is None:
            raise refused or ValueError
        account, output = require_charged(whole)
        return cls(written=request, request=whole, account=account, output=output, key=name, ledger=ledger)

    @cached_property
    def store(self) -> ObjectStore:
        """The store of the output."""
        return open_store(self.output)

    def charge(self) -> Charge | None:
        """The charge of the key as it is now, if it has one.

        Raises:
            LedgerUnavailable: the ledger cannot be reached.
        """
        return self.ledger.find_charge(self.account, self.key)


def require_charged(request: TableRequest) -> tuple[str, str]:
    """The account and the normalized output folder of a request that is to be charged.

    Raises:
        InvalidRequest: the account or the output is missing, or the output names no folder.
    """
    if request.account is None:
        raise InvalidRequest("account", None, "is required", "name the ledger account that pays")
    if request.output is None:
        raise InvalidRequest("output", None, "is required", "name the folder that holds releases")
    return request.account, Place.of_folder(request.output, what="output").folder


def complete(request: AnyRequest | Written[AnyRequest], ledger: PrivacyLedger) -> AnyRequest:
    """``request``, completed with what its account fixes today: table, output, unit, relation, domains, blocks.

    The hash of a saved pipeline and the agreement of a federation are filled in too (``with_saved_model``,
    ``with_federation``). The release's folder keeps the completed request, so that a later change of the account does
    not affect it. A completed request is returned as it is.

    Raises:
        InvalidRequest: there is no such account, the table is not bound to the account or was bound without its
            columns, the request itself gives fields of the binding, contradicts a column's domain, or cannot be
            released on these terms; or see ``with_saved_model`` and ``with_federation``.
        LedgerUnavailable: the ledger cannot be reached.
    """
    return _completed(request, ledger, None, {})


def _key_of(
    request: AnyRequest | Written[AnyRequest], today: AnyRequest | None, ledger: PrivacyLedger, key: object
) -> str:
    """The key of a request's charge: ``key``, or without it the one that follows from what is written."""
    if not key:
        kind = request.kind if isinstance(request, Written) else type(request)
        stream = issubclass(kind, StreamRequest)
        key = f"stream/{request.charged_sha256}" if stream else f"cli/{request.sha256}"
        if isinstance(today, ReleaseRequest) and isinstance(request, ReleaseRequest):
            key = first_key(today, ledger, written=request) or key
    known = request if today is None else today
    return key_of(known, key) if isinstance(known, TableRequest) else str(key)


def _as_charged(request: AnyRequest | Written[AnyRequest], ledger: PrivacyLedger, charge: Charge) -> AnyRequest | None:
    """The request on the terms of a charge; None if the charge is not for it."""
    kind = request.kind if isinstance(request, Written) else type(request)
    written = written_fields(request)
    for output in _outputs(written, ledger, charge):
        layout = ReleaseLayout.of(Place.of_folder(output).folder, charge.release, charge.id)
        with as_release_errors():
            content = open_store(output).read(layout.request)
        try:
            # an attempt that ended before it wrote the request has left only the log
            terms = _bound_then(written, ledger, charge) if content is None else kind.from_json(content).table
            charged = _completed(request, ledger, terms, {"output": output})
        except InvalidRequest:
            continue
        charged = _with_choice(charged, ledger, charge.release)
        if charged.charged_sha256 == charge.request_sha256:
            return charged
    return None


def _with_choice(request: AnyRequest, ledger: PrivacyLedger, key: object) -> AnyRequest:
    """The request with the bound that its key's choice has published; as it is where none has, or none is wanted."""
    if not (isinstance(request, ReleaseRequest) and request.chooses_rows):
        return request
    choice, named = choice_of(request), choice_key(key)
    account, output = require_charged(request)
    charge = ledger.find_charge(account, named)
    if charge is None or charge.state is not ChargeState.COMMITTED:
        return request
    # it stays where the account's releases went when it was made
    for place in dict.fromkeys((output, *outputs_ever(account, ledger))):
        there = choice.changed(output=place)
        if charge.request_sha256 != there.charged_sha256 and _as_charged(there, ledger, charge) is None:
            continue
        folder = release_folder(place, named)
        with as_release_errors():
            if open_store(place).read(f"{folder}/{MANIFEST_NAME}", limit=0) is not None:
                return cast("AnyRequest", with_rows(request, ReleasedBound.parse(released_bound(folder, ledger))))
    return request


def _bound_then(fields: Mapping[str, Any], ledger: PrivacyLedger, charge: Charge) -> TableBinding:
    """How the request's table was bound when a charge was made, by the log.

    Raises:
        InvalidRequest: the request's table cannot be read, or was not bound then.
    """
    account = ledger.account(charge.account)
    identity = TableSource.parse(from_account(fields, account)["table"]).identity
    binding: dict[str, Any] | None = None
    for entry in ledger.log(charge.account):
        details = json.loads(entry.details)
        if entry.seq >= charge.entry:
            break
        if entry.action == OPENED:
            binding = details.get("bindings", {}).get(identity)
        elif details.get("table") == identity and entry.action == TABLE_BOUND:
            binding = details["binding"]
        elif details.get("table") == identity and entry.action == DOMAINS_CHANGED and binding is not None:
            binding = with_domain_texts(binding, details["domains"])
    return TableBinding.parse(binding)


def _outputs(fields: Mapping[str, Any], ledger: PrivacyLedger, charge: Charge) -> Iterator[str]:
    """The folders in which a charge may have begun: the request's, or else all that its account ever had."""
    if fields.get("output") is not None:
        yield str(fields["output"])
        return
    yield from outputs_ever(charge.account, ledger)


def _completed(
    request: AnyRequest | Written[AnyRequest],
    ledger: PrivacyLedger,
    terms: TableSource | TableBinding | None,
    given: Mapping[str, Any],
) -> AnyRequest:
    """The request on today's terms of its table, or on those of a charged one; ``given`` stands for what it leaves out.

    Raises:
        InvalidRequest: see ``complete``.
    """
    written = written_fields(request)
    account = account_of(written, ledger)
    fields = from_account({**given, **written}, account)
    today = _binding(fields, account)
    terms = today if terms is None else terms
    columns = terms.columns or ()
    domains = Domains(columns=columns, lists=lists_of(columns, account, ledger))
    filled = completed(fields, domains)
    if isinstance(request, Written):
        whole = request.kind.parse(filled)
    else:
        whole = request if filled == written else type(request).parse(filled)
    if isinstance(whole, ReleaseRequest):
        whole = cast("AnyRequest", with_federation(with_saved_model(whole, ledger)))
    blocks, expression = blocks_on(whole, account, domains)
    if isinstance(terms, TableBinding):
        table = whole.table.model_copy(update={"version_order": None}).completed(terms)
    else:
        table = terms.model_copy(update={"snapshot": whole.table.snapshot})
    if isinstance(whole, StreamRequest) and whole.follow is None:
        table = table.model_copy(update={"version_order": today.order})
    return whole.changed(table=table, blocks=blocks, block_expression=expression)


def _binding(fields: Mapping[str, Any], account: Account) -> TableBinding:
    """The account's binding of the request's table."""
    try:
        identity = TableSource.parse(fields["table"]).identity
    except InvalidRequest as refused:
        raise refused.within("table") from None
    binding = account.bindings.get(identity)
    if binding is None:
        raise InvalidRequest(
            "table", identity, f"must have its columns bound to account {account.name}, which was opened without them",
            f"have them bound: `dp-budget bind {account.name}`",
        )  # fmt: skip
    return TableBinding.parse(binding)
