"""Public lookups that a request names: filled in from the ledger, and compared with what was registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.dimensions import Dimension
from spark_jobs.contract.options.lookups import Lookup

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader
    from spark_jobs.contract.request import ReleaseRequest

_FIELD = "diagnostics.by.lookup"
_NAMED = ("name", "key", "value", "sha256")


def named_lookup(given: Any, account: Any, ledger: LedgerReader) -> dict[str, Any]:
    """The registered lookup that a request names, in the form that a dimension takes.

    Args:
        given: the lookup's name, or its ``name`` with the ``key``, ``value`` or ``sha256`` that the request expects.
        account: the account that pays.
        ledger: the ledger, which is only read.

    Raises:
        InvalidRequest: the account has no such lookup, or the lookup is not as the request expects.
        LedgerUnavailable: the ledger cannot be reached.
    """
    wanted = dict(given) if isinstance(given, Mapping) else {"name": given}
    name = wanted.get("name")
    if not isinstance(name, str) or not set(_NAMED).issuperset(wanted):
        raise InvalidRequest(
            _FIELD, given if isinstance(given, str) else None,
            f"must be the name of a registered lookup, or its {', '.join(_NAMED)}", "see `dp-budget lookup`",
        )  # fmt: skip
    if not isinstance(account, str):
        raise InvalidRequest("account", None, "is required", "name the ledger account that pays")
    lookup = ledger.lookup(account, name).lookup
    for part in _NAMED[1:]:
        if wanted.get(part) not in (None, getattr(lookup, part)):
            raise InvalidRequest(
                f"{_FIELD}.{part}", wanted[part],
                f"must be the same as in the registered lookup {name}, which has {getattr(lookup, part)}",
                "correct it, or name the lookup alone",
            )  # fmt: skip
    return lookup.model_dump(mode="json")


def require_registered(request: ReleaseRequest, ledger: LedgerReader) -> None:
    """Refuse a request whose lookup differs from the one that is registered for its account under that name.

    Raises:
        InvalidRequest: the lookup differs, or none is registered under that name.
        LedgerUnavailable: the ledger cannot be reached.
    """
    for options in request.diagnostics:
        for lookup in _lookups(options):
            if ledger.lookup(request.account or "", lookup.name).lookup != lookup:
                raise InvalidRequest(
                    _FIELD, lookup.name, "must have the same entries as the lookup that is registered under this name",
                    "give only the name of the lookup",
                )  # fmt: skip


def _lookups(options: Any) -> tuple[Lookup, ...]:
    by = getattr(options, "by", None) or ()  # of every kind that has dimensions
    return tuple(one.lookup for one in by if isinstance(one, Dimension) and one.lookup is not None)
