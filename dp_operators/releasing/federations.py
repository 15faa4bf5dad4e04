"""Requests with a federation: what the administrator has registered becomes part of the request before it is charged.

The release key of a federated release is the key of its agreement, in every silo and whichever task makes the release.
So the ledger ensures that an agreement is used once: a second release, of another snapshot or by another task, could
share other counts under the same masks, or reveal whether the counts have changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from spark_jobs.contract.agreement import Agreement
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import Federation, Registration
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.table_request import TableRequest


def with_federation(request: ReleaseRequest, environ: Mapping[str, str] = os.environ) -> ReleaseRequest:
    """``request`` with the registered agreement of the federation that it names; unchanged if it has that already.

    Raises:
        InvalidRequest: the federation is not registered, or for another account, or the request itself gives an
            agreement that is not the registered one.
    """
    federation = request.federation
    if federation is None:
        return request
    agreement = registered_agreement(federation.name, request.account, environ)
    if federation.agreement not in (None, agreement):
        raise InvalidRequest(
            "federation.agreement", None, "must be left out of a charged request, because the administrator has "
            "registered the agreement",
            "give only the federation's name",
        )  # fmt: skip
    completed = federation.model_copy(update={"agreement": agreement})
    return request.model_copy(update={"federation": completed})


def registered_agreement(name: str, account: str | None, environ: Mapping[str, str] = os.environ) -> Agreement:
    """The agreement that is registered under a name for an account.

    Raises:
        InvalidRequest: the federation is not registered, or is registered for another account.
    """
    registered = Registration.read(environ, Federation(name=name).name)
    if registered.account != account:
        raise InvalidRequest(
            "federation", name, f"must be registered for account {account}, and is registered for another account",
            f"name the account of the federation, or have the federation registered for account {account}",
        )  # fmt: skip
    return registered.agreement


def federated_key(agreement: Agreement) -> str:
    """The key of the release that an agreement is for."""
    return f"federated/{agreement.sha256}"


def key_of(request: TableRequest, key: object) -> str:
    """The key of a completed request's release: its agreement's if it has a federation, otherwise ``key``."""
    federation = request.federation if isinstance(request, ReleaseRequest) else None
    if federation is None or federation.agreement is None:
        return str(key)
    return federated_key(federation.agreement)
