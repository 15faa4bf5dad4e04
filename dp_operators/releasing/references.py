"""A request's fields where they name earlier releases instead of holding what these released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_operators.releasing.compared import KIND, earlier_function
from dp_operators.releasing.fitted import fitted_model

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader


def is_reference(given: object) -> bool:
    """Whether a field names a release instead of being what it released.

    ``{"release": URI}``, of a model with ``"kind": "linear"`` or ``"logistic"`` where the release holds both; or what a
    task that releases leaves in XCom: ``{"uri", "key", "cost", "status"}``.
    """
    return isinstance(given, Mapping) and "basis" not in given and ("release" in given or "uri" in given)


def refers(fields: Mapping[str, Any]) -> bool:
    """Whether a request's fields name a release anywhere."""
    return is_reference(fields.get("model")) or any(
        _names_other_model(entry) or _names_earlier(entry) for entry in _entries(fields)
    )


def with_releases(fields: Mapping[str, Any], ledger: LedgerReader) -> dict[str, Any]:
    """A request's fields with what earlier releases hold where they name these; others as they are.

    The models that were fitted, the request's own or the ``other`` of a comparison; and the distribution function that
    an ``ecdf`` is compared with, which may be named by its URI alone. The request then holds the values themselves, so
    that its hash covers them and every attempt works with the same.

    Raises:
        RequestRefused: see ``fitted_model`` and ``earlier_function``.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    filled = dict(fields)
    if is_reference(fields.get("model")):
        filled["model"] = _model(fields["model"], ledger)
    if any(_names_other_model(entry) or _names_earlier(entry) for entry in _entries(fields)):
        filled["diagnostics"] = [_filled(entry, ledger) for entry in _entries(fields)]
    return filled


def _filled(entry: Any, ledger: LedgerReader) -> Any:
    if _names_other_model(entry):
        return {**entry, "other": _model(entry["other"], ledger)}
    if _names_earlier(entry):
        return {**entry, "compare_with": earlier_function(_uri(entry["compare_with"]), ledger)}
    return entry


def _entries(fields: Mapping[str, Any]) -> list[Any]:
    diagnostics = fields.get("diagnostics")
    return list(diagnostics) if isinstance(diagnostics, (list, tuple)) else []


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
