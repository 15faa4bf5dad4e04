"""A request's fields where they name what a ledger knows: earlier releases, and registered lists of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_operators.releasing.compared import KIND, earlier_function
from dp_operators.releasing.fitted import fitted_model
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import EarlierFunction, EcdfOptions
from spark_jobs.contract.public_groups import is_registered, names_file
from spark_jobs.contract.tables import LinearModel, LogisticModel

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader
    from spark_jobs.contract.request import ReleaseRequest


def is_reference(given: object) -> bool:
    """Whether a field names a release instead of being what it released.

    ``{"release": URI}``, of a model with ``"kind": "linear"`` or ``"logistic"`` where the release holds both; or what a
    task that releases leaves in XCom: ``{"uri", "key", "cost", "status"}``.
    """
    filled = isinstance(given, Mapping) and ("basis" in given or "released_by" in given)
    return isinstance(given, Mapping) and not filled and ("release" in given or "uri" in given)


def refers(fields: Mapping[str, Any]) -> bool:
    """Whether a request's fields name a release, or a registered list of keys, anywhere."""
    return is_reference(fields.get("model")) or any(map(_refers, _entries(fields)))


def require_no_key_file(fields: Mapping[str, Any]) -> None:
    """Refuse a request that is to be charged and names a file of keys: whether one is public, an administrator says.

    Raises:
        InvalidRequest: it names one.
    """
    for entry in _entries(fields):
        groups = entry.get("groups") if isinstance(entry, Mapping) else None
        if names_file(groups):
            raise InvalidRequest(
                "diagnostics.groups", value=groups.get("path") if isinstance(groups, Mapping) else groups,
                requirement="must be a list of keys or {'list': NAME}: a charged request reads no file",
                remedy="list the keys, or have them registered: `dp-budget keys register`",
            )  # fmt: skip


def with_references(fields: Mapping[str, Any], ledger: LedgerReader) -> dict[str, Any]:
    """A request's fields with what a ledger knows where they name that; others as they are.

    The keys of a list that is registered for the account; the models that were fitted, the request's own or the
    ``other`` of a comparison; and the distribution function that an ``ecdf`` is compared with, which may be named by
    its URI alone. The request then holds the values themselves, so that its hash covers them and every attempt works
    with the same.

    Raises:
        InvalidRequest: a file of keys is named, there is no such list, or see ``fitted_model`` and
            ``earlier_function``.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    require_no_key_file(fields)
    filled = dict(fields)
    if is_reference(fields.get("model")):
        filled["model"] = _model(fields["model"], ledger)
    if any(map(_refers, _entries(fields))):
        filled["diagnostics"] = [_filled(entry, fields.get("account"), ledger) for entry in _entries(fields)]
    return filled


def require_as_released(request: ReleaseRequest, ledger: LedgerReader) -> None:
    """Refuse a request that holds another model or function than the release that it says they come from.

    What somebody writes into a request, and who signs it with the key of an earlier release, is never believed: it is
    read again where the ledger says that the release lies.

    Raises:
        InvalidRequest: it holds something else, or see ``fitted_model`` and ``earlier_function``.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    if isinstance(request.model, (LinearModel, LogisticModel)):
        _require_fitted(request.model, ledger, what="model")
    for options in request.diagnostics:
        other = getattr(options, "other", None)
        if isinstance(other, (LinearModel, LogisticModel)):
            _require_fitted(other, ledger, what="diagnostics.other")
        if isinstance(options, EcdfOptions) and options.compare_with is not None:
            held = options.compare_with
            if held.release is None or held != EarlierFunction.parse(earlier_function(held.release, ledger)):
                raise _forged("diagnostics.compare_with", held.released_by)


def _require_fitted(model: LinearModel | LogisticModel, ledger: LedgerReader, *, what: str) -> None:
    if model.release is not None and model != type(model).parse(fitted_model(model.release, ledger, kind=model.kind)):
        raise _forged(what, model.fitted_by)


def _forged(what: str, key: str | None) -> InvalidRequest:
    return InvalidRequest(
        what,
        value=key,
        requirement="must be what that release holds",
        remedy="name the release alone, {'release': URI}",
    )


def _refers(entry: Any) -> bool:
    return _names_other_model(entry) or _names_earlier(entry) or _names_list(entry)


def _filled(entry: Any, account: Any, ledger: LedgerReader) -> Any:
    if _names_list(entry):
        return {**entry, "groups": _registered(entry["groups"], account, ledger)}
    if _names_other_model(entry):
        return {**entry, "other": _model(entry["other"], ledger)}
    if _names_earlier(entry):
        return {**entry, "compare_with": earlier_function(_uri(entry["compare_with"]), ledger)}
    return entry


def _entries(fields: Mapping[str, Any]) -> list[Any]:
    diagnostics = fields.get("diagnostics")
    return list(diagnostics) if isinstance(diagnostics, (list, tuple)) else []


def _registered(groups: Mapping[str, Any], account: Any, ledger: LedgerReader) -> list[Any]:
    """The keys of a list of the account that pays; the request's hash then covers them."""
    if set(groups) != {"list"} or not isinstance(groups["list"], str):
        raise InvalidRequest(
            "diagnostics.groups", value=dict(groups), requirement="must name a registered list, {'list': NAME}, alone",
            remedy="see `dp-budget keys list`",
        )  # fmt: skip
    if not isinstance(account, str):
        raise InvalidRequest("account", requirement="is required", remedy="name the ledger account that pays")
    return list(ledger.key_list(account, groups["list"]).keys)


def _names_list(entry: Any) -> bool:
    return isinstance(entry, Mapping) and is_registered(entry.get("groups"))


def _names_other_model(entry: Any) -> bool:
    return isinstance(entry, Mapping) and is_reference(entry.get("other"))


def _names_earlier(entry: Any) -> bool:
    if not isinstance(entry, Mapping) or entry.get("kind") != KIND:
        return False
    given = entry.get("compare_with")
    return isinstance(given, str) or is_reference(given)


def _uri(given: Any) -> object:
    return given.get("release", given.get("uri")) if isinstance(given, Mapping) else given


def _model(model: Mapping[str, Any], ledger: LedgerReader) -> dict[str, Any]:
    return fitted_model(_uri(model), ledger, kind=model.get("kind"))
