"""Earlier releases and registered key lists that a request names: read, checked against the ledger, and filled in.

Only what the ledger has committed is used (``committed_releases``). Using a release again costs no budget.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_operators.releasing.committed_releases import CommittedRelease, committed_release
from dp_operators.releasing.registered_lookups import named_lookup, require_registered
from dp_operators.releasing.released_bounds import released_bound
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import EarlierCurve, EarlierFunction, EcdfOptions, RocComparisonOptions
from spark_jobs.contract.options.aggregates import entries_by
from spark_jobs.contract.options.lookups import names_lookup
from spark_jobs.contract.options.row_bound import ReleasedBound
from spark_jobs.contract.public_groups import is_registered, names_file
from spark_jobs.contract.tables import LinearModel, LogisticModel, Model

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader
    from spark_jobs.contract.request import ReleaseRequest

MAPPED = "recalibrated"
FITS = {"linear": "linear_fit", "logistic": "logistic_fit", MAPPED: "recalibration"}
"""The diagnostic that releases each kind of model; ``MAPPED`` is the model of a request, with a map that was fitted."""

ECDF, ROC, COMPARISON = "ecdf", "roc_curve", "roc_comparison"
_ECDF_FILE, _ECDF_COLUMN = f"{ECDF}.parquet", "cdf"
_COMPARED = "diagnostics.compare_with"


def fitted_model(uri: object, ledger: LedgerReader, *, kind: object = None) -> dict[str, Any]:
    """The model in a published release, in the form that a request takes; its ``fitted_by`` is the release's key.

    For a recalibration, this is the model whose scores were recalibrated, with the map as ``recalibrated``.

    Args:
        uri: the release's folder.
        ledger: the ledger that paid for the release; it is only read.
        kind: ``linear``, ``logistic`` or ``recalibrated``; needed only for a release that holds several models.

    Raises:
        InvalidRequest: see ``committed_release``; or the release holds no model of this kind.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    committed = committed_release(uri, ledger, what="model.release")
    release = committed.release
    if kind not in (None, *FITS):
        raise InvalidRequest("model.kind", kind, f"must be one of {', '.join(FITS)}", "choose the fit to use")
    kinds = [name for name, fit in FITS.items() if fit in release.results and kind in (None, name)]
    if len(kinds) != 1:
        raise InvalidRequest(
            "model.release", uri, "holds several fitted models" if kinds else "must hold a fitted model",
            "give its kind" if kinds else f"name a release of {' or '.join(FITS.values())}",
        )  # fmt: skip
    fit = release.results[FITS[kinds[0]]]
    model = fit["map"] if kinds[0] == MAPPED else fit["model"]
    if model is None:
        raise InvalidRequest(
            "model.release", uri, "holds no model: its noisy counts were too small to fit one",
            "name another release, or fit again with more of the budget",
        )  # fmt: skip
    signed = {**model, "fitted_by": release.key, "release": committed.uri}
    return _with_map(committed, signed) if kinds[0] == MAPPED else signed


def _with_map(committed: CommittedRelease, score_map: dict[str, Any]) -> dict[str, Any]:
    """The model of a release's request, with the map that the release fitted to its scores."""
    model = committed.release.request.get("model")
    if not isinstance(model, dict) or model.get(MAPPED):
        raise InvalidRequest(
            committed.what, committed.uri, "must be a release of a model that is not recalibrated already",
            f"name a release of {FITS[MAPPED]} whose request has a model without a map of scores",
        )  # fmt: skip
    return {**model, MAPPED: score_map}


def earlier_function(uri: object, ledger: LedgerReader) -> dict[str, Any]:
    """The distribution function in a published release, in the form that a request's ``compare_with`` takes.

    Args:
        uri: the release's folder.
        ledger: the ledger that paid for the release; it is only read.

    Raises:
        InvalidRequest: see ``committed_release``; or the release holds no distribution function.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    committed = committed_release(uri, ledger, what=_COMPARED)
    if ECDF not in committed.release.results:
        raise InvalidRequest(_COMPARED, committed.uri, "must hold a distribution function", f"name a release of {ECDF}")
    content = committed.file(_ECDF_FILE)
    try:
        function = EarlierFunction.of(
            committed.release.results[ECDF],
            _fractions(content),
            released_by=committed.release.key or "",
            release=committed.uri,
        )
    except InvalidRequest as refused:
        raise refused.within(_COMPARED) from None
    except (KeyError, TypeError, ValueError):  # another version wrote it; pyarrow's errors are ValueErrors too
        raise _unreadable(committed, "a distribution function") from None
    return function.model_dump(mode="json")


def earlier_curve(uri: object, ledger: LedgerReader) -> dict[str, Any]:
    """The ROC curve in a published release, in the form that a request's ``compare_with`` takes.

    Args:
        uri: the release's folder.
        ledger: the ledger that paid for the release; it is only read.

    Raises:
        InvalidRequest: see ``committed_release``; or the release holds no ROC curve.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    committed = committed_release(uri, ledger, what=_COMPARED)
    if ROC not in committed.release.results:
        raise InvalidRequest(_COMPARED, committed.uri, "must hold a ROC curve", f"name a release of {ROC}")
    key = committed.release.key or ""
    try:
        curve = EarlierCurve.of(committed.release.results[ROC], released_by=key, release=committed.uri)
    except InvalidRequest as refused:
        raise refused.within(_COMPARED) from None
    except (KeyError, TypeError, ValueError):
        raise _unreadable(committed, "a ROC curve") from None
    return curve.model_dump(mode="json")


def _unreadable(committed: CommittedRelease, what: str) -> InvalidRequest:
    """The refusal of a release that another version wrote."""
    return InvalidRequest(
        _COMPARED, committed.uri, f"must hold {what} in a form that this version reads",
        "release it again, or compare with a later one",
    )  # fmt: skip


def _fractions(content: bytes) -> list[float]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(io.BytesIO(content))
    return list(file.read(columns=[_ECDF_COLUMN]).column(_ECDF_COLUMN).to_pylist())


_BOUND = "max_rows"
_READERS = {ECDF: earlier_function, COMPARISON: earlier_curve}
"""For each kind that compares with an earlier release, what reads the part of it."""


def is_reference(given: object) -> bool:
    """Whether a field's value names an earlier release, instead of holding the content of one.

    A release is named by ``{"release": URI}``, for a model with ``"kind": "linear"`` or ``"logistic"`` if the release
    holds both; or by ``{"uri", "key", "cost", "status"}``, which a releasing task leaves in XCom.
    """
    filled = isinstance(given, Mapping) and ("basis" in given or "released_by" in given)
    return isinstance(given, Mapping) and not filled and ("release" in given or "uri" in given)


def has_references(fields: Mapping[str, Any]) -> bool:
    """Whether any field of a request names an earlier release or a registered key list."""
    named = is_reference(fields.get("model")) or is_registered(_state_keys(fields))
    return named or any(map(_has_reference, _entries(fields)))


def require_no_key_file(fields: Mapping[str, Any]) -> None:
    """Refuse a charged request that names a file of keys: an administrator has to confirm that a key list is public.

    Raises:
        InvalidRequest: the request names such a file.
    """
    entries = [entry for entry in _entries(fields) if isinstance(entry, Mapping)]
    named = [("diagnostics.groups", entry.get("groups")) for entry in entries]
    named += [("diagnostics.by.values", one.get("values")) for entry in entries for one in _dimensions(entry)]
    for field, groups in (*named, ("states.keys", _state_keys(fields))):
        if names_file(groups):
            raise InvalidRequest(
                field, groups.get("path") if isinstance(groups, Mapping) else groups,
                "must be a list of keys or {'list': NAME}: a charged request reads no file",
                "list the keys, or have them registered: `dp-budget keys register`",
            )  # fmt: skip


def with_references(fields: Mapping[str, Any], ledger: LedgerReader) -> dict[str, Any]:
    """A request's fields, with each reference to an earlier release or a registered key list replaced by its content.

    This replaces key lists that are registered for the account; the request's fitted ``model`` and the ``other`` model
    of a comparison; the ``compare_with`` of an ``ecdf`` or a comparison, which may also be just the release's URI; and
    a ``max_rows`` that a release has chosen. The request's hash then covers the content, and every attempt at the
    release uses the same content.

    Raises:
        InvalidRequest: a file of keys is named, or there is no such key list; or see ``fitted_model`` and
            ``earlier_function``.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    require_no_key_file(fields)
    filled = dict(fields)
    if is_reference(fields.get("model")):
        filled["model"] = _model(fields["model"], ledger)
    if is_registered(_state_keys(fields)):
        keys = _registered(_state_keys(fields), fields.get("account"), ledger, field="states.keys")
        filled["states"] = {**fields["states"], "keys": keys}
    if any(map(_has_reference, _entries(fields))):
        filled["diagnostics"] = [_filled(entry, fields.get("account"), ledger) for entry in _entries(fields)]
    return filled


def require_as_released(request: ReleaseRequest, ledger: LedgerReader) -> None:
    """Refuse a request whose model, function or lookup differs from the release or lookup that it names as source.

    The request's own copy is not trusted: the release is read again from the place that the ledger has for it, and the
    lookup from the ledger.

    Raises:
        InvalidRequest: the content differs; or see ``fitted_model`` and ``earlier_function``.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    require_registered(request, ledger)
    if request.model is not None:
        _require_fitted(request.model, ledger, what="model")
    for options in request.diagnostics:
        other = getattr(options, "other", None)
        if other is not None:
            _require_fitted(other, ledger, what="diagnostics.other")
        if isinstance(options, (EcdfOptions, RocComparisonOptions)) and options.compare_with is not None:
            given = options.compare_with
            read = _READERS[options.kind]
            if given.release is None or given != type(given).parse(read(given.release, ledger)):
                raise _forged(_COMPARED, given.released_by)
        rows = getattr(options, _BOUND, None)
        if isinstance(rows, ReleasedBound) and (
            rows.release is None or rows != ReleasedBound.parse(released_bound(rows.release, ledger))
        ):
            raise _forged(f"diagnostics.{_BOUND}", rows.released_by)


def _require_fitted(model: Model, ledger: LedgerReader, *, what: str) -> None:
    score_map = model.recalibrated
    if score_map is not None and score_map.release is not None:
        # the model below the map is what the charged request of that release had, so it is compared as a whole
        if model.model_dump(mode="json") != _parsed(model, fitted_model(score_map.release, ledger, kind=MAPPED)):
            raise _forged(what, score_map.fitted_by)
    elif isinstance(model, (LinearModel, LogisticModel)) and model.release is not None:
        unmapped = model.model_copy(update={MAPPED: None})
        if unmapped != type(model).parse(fitted_model(model.release, ledger, kind=model.kind)):
            raise _forged(what, model.fitted_by)


def _parsed(model: Model, fields: dict[str, Any]) -> dict[str, Any] | None:
    """The model of these fields in its JSON form; None if it is of another kind than ``model``."""
    return type(model).parse(fields).model_dump(mode="json") if fields.get("kind") == model.kind else None


def _forged(what: str, key: str | None) -> InvalidRequest:
    return InvalidRequest(
        what, key, "must be as in the release that the request names", "give only the release, {'release': URI}"
    )


def _has_reference(entry: Any) -> bool:
    return _names_other_model(entry) or _names_earlier(entry) or _names_list(entry) or _names_choice(entry)


def _filled(entry: Any, account: Any, ledger: LedgerReader) -> Any:
    if _names_choice(entry):
        return _filled({**entry, _BOUND: released_bound(_uri(entry[_BOUND]), ledger)}, account, ledger)
    if _names_list(entry) and is_registered(entry.get("groups")):
        return {**entry, "groups": _registered(entry["groups"], account, ledger)}
    if _names_list(entry):
        return {**entry, "by": [_filled_dimension(one, account, ledger) for one in entries_by("column", entry["by"])]}
    if _names_other_model(entry):
        return {**entry, "other": _model(entry["other"], ledger)}
    if _names_earlier(entry):
        return {**entry, "compare_with": _READERS[entry["kind"]](_uri(entry["compare_with"]), ledger)}
    return entry


def _entries(fields: Mapping[str, Any]) -> list[Any]:
    diagnostics = fields.get("diagnostics")
    return list(diagnostics) if isinstance(diagnostics, (list, tuple)) else []


def _state_keys(fields: Mapping[str, Any]) -> Any:
    """The keys of a stream's states, as its request has them."""
    states = fields.get("states")
    return states.get("keys") if isinstance(states, Mapping) else None


def _registered(
    groups: Mapping[str, Any], account: Any, ledger: LedgerReader, *, field: str = "diagnostics.groups"
) -> list[Any]:
    """The keys of a list that is registered for the account that pays."""
    if set(groups) != {"list"} or not isinstance(groups["list"], str):
        raise InvalidRequest(
            field,
            dict(groups),
            "must be {'list': NAME} with no other entry, NAME being a registered list",
            "remove the other entries; `dp-budget keys list` shows the names",
        )
    if not isinstance(account, str):
        raise InvalidRequest("account", None, "is required", "name the ledger account that pays")
    return list(ledger.key_list(account, groups["list"]).keys)


def _names_list(entry: Any) -> bool:
    named = isinstance(entry, Mapping) and is_registered(entry.get("groups"))
    return named or any(is_registered(one.get("values")) or names_lookup(one) for one in _dimensions(entry))


def _dimensions(entry: Any) -> list[Mapping[str, Any]]:
    """The dimensions of a table of aggregates that are written as objects; of another kind, none."""
    by = entries_by("column", entry.get("by")) if isinstance(entry, Mapping) else ()
    return [one for one in by if isinstance(one, Mapping)] if isinstance(by, (list, tuple)) else []


def _filled_dimension(given: Any, account: Any, ledger: LedgerReader) -> Any:
    if isinstance(given, Mapping) and names_lookup(given):
        return {**given, "lookup": named_lookup(given["lookup"], account, ledger)}
    if not isinstance(given, Mapping) or not is_registered(given.get("values")):
        return given
    return {**given, "values": _registered(given["values"], account, ledger, field="diagnostics.by.values")}


def _names_other_model(entry: Any) -> bool:
    return isinstance(entry, Mapping) and is_reference(entry.get("other"))


def _names_choice(entry: Any) -> bool:
    return isinstance(entry, Mapping) and is_reference(entry.get(_BOUND))


def _names_earlier(entry: Any) -> bool:
    if not isinstance(entry, Mapping) or entry.get("kind") not in _READERS:
        return False
    given = entry.get("compare_with")
    return isinstance(given, str) or is_reference(given)


def _uri(given: Any) -> object:
    return given.get("release", given.get("uri")) if isinstance(given, Mapping) else given


def _model(model: Mapping[str, Any], ledger: LedgerReader) -> dict[str, Any]:
    return fitted_model(_uri(model), ledger, kind=model.get("kind"))
