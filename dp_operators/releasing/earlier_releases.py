"""Earlier releases and registered key lists that a request names: read, checked against the ledger, and filled in.

Whoever can write to the store could put a model or a distribution function there. It would not have been paid for, and
it would not be private. So a release is used only if its manifest is, byte for byte, the one that the ledger committed,
and its files only if they have the sizes and hashes that the manifest lists. Using a release again costs no budget.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_operators.budget import ChargeState
from dp_operators.releasing.drafts import read_manifest
from dp_operators.releasing.errors import as_release_errors
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import EarlierCurve, EarlierFunction, EcdfOptions, RocComparisonOptions
from spark_jobs.contract.places import Place
from spark_jobs.contract.public_groups import is_registered, names_file
from spark_jobs.contract.release import PRIVATE, Release
from spark_jobs.contract.store.layout import MANIFEST_NAME, release_folder
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.store.sealing import sha256
from spark_jobs.contract.tables import LinearModel, LogisticModel

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader
    from spark_jobs.contract.request import ReleaseRequest

FITS = {"linear": "linear_fit", "logistic": "logistic_fit"}
"""The diagnostic that releases each kind of model."""

ECDF, ROC, COMPARISON = "ecdf", "roc_curve", "roc_comparison"
_ECDF_FILE, _ECDF_COLUMN = f"{ECDF}.parquet", "cdf"
_COMPARED = "diagnostics.compare_with"


@dataclass(frozen=True, kw_only=True)
class CommittedRelease:
    """A published release whose manifest is, byte for byte, the one that the ledger committed.

    Attributes:
        uri: the release's folder.
        release: the parsed manifest.
        what: the request's field that names the release; error messages begin with it.
    """

    uri: str
    release: Release
    what: str

    def file(self, name: str) -> bytes:
        """The content of one of the release's files.

        Raises:
            InvalidRequest: the manifest lists no such file, or the file is missing or differs from the manifest.
            ReleaseFailed: the store failed.
        """
        entries = [entry for entry in self.release.files if entry.name == name]
        with as_release_errors():
            content = open_store(self.uri, what=self.what).read(f"{self.uri}/{name}") if entries else None
        if content is None or not entries[0].matches(content):
            raise InvalidRequest(
                self.what,
                value=self.uri,
                requirement=f"must hold {name} as its manifest says",
                remedy="dp-budget check-release says what is wrong with it",
            )
        return content


def committed_release(uri: object, ledger: LedgerReader, *, what: str) -> CommittedRelease:
    """The published release in a folder.

    Args:
        uri: the folder, or the manifest in it.
        ledger: the ledger that paid for the release; it is only read.
        what: the request's field that names the release.

    Raises:
        InvalidRequest: there is no release in the folder, the ledger has not committed it, or it lies outside the
            output folders of the account that paid for it.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
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
    content = read_manifest(store, folder, what=what, remedy="wait for the task that makes it, or check the path")
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
    return CommittedRelease(uri=folder, release=release, what=what)


def fitted_model(uri: object, ledger: LedgerReader, *, kind: object = None) -> dict[str, Any]:
    """The model in a published release, in the form that a request takes; its ``fitted_by`` is the release's key.

    Args:
        uri: the release's folder.
        ledger: the ledger that paid for the release; it is only read.
        kind: ``linear`` or ``logistic``; needed only for a release that holds both.

    Raises:
        InvalidRequest: see ``committed_release``; or the release holds no model of this kind.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    committed = committed_release(uri, ledger, what="model.release")
    release = committed.release
    if kind not in (None, *FITS):
        raise InvalidRequest(
            "model.kind", value=kind, requirement=f"must be one of {', '.join(FITS)}", remedy="choose the fit to use"
        )
    kinds = [name for name, fit in FITS.items() if fit in release.results and kind in (None, name)]
    if len(kinds) != 1:
        raise InvalidRequest(
            "model.release",
            value=uri,
            requirement="holds both a linear and a logistic fit" if kinds else "must hold a fitted model",
            remedy="give its kind" if kinds else f"name a release of {' or '.join(FITS.values())}",
        )
    model = release.results[FITS[kinds[0]]]["model"]
    if model is None:
        raise InvalidRequest(
            "model.release",
            value=uri,
            requirement="holds no model: its noisy counts were too small to fit one",
            remedy="name another release, or fit again with more of the budget",
        )
    return {**model, "fitted_by": release.key, "release": committed.uri}


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
        raise InvalidRequest(
            _COMPARED,
            value=committed.uri,
            requirement="must hold a distribution function",
            remedy=f"name a release of {ECDF}",
        )
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
        raise InvalidRequest(
            _COMPARED, value=committed.uri, requirement="must hold a ROC curve", remedy=f"name a release of {ROC}"
        )
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
        _COMPARED,
        value=committed.uri,
        requirement=f"must hold {what} in a form that this version reads",
        remedy="release it again, or compare with a later one",
    )


def _fractions(content: bytes) -> list[float]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(io.BytesIO(content))
    return list(file.read(columns=[_ECDF_COLUMN]).column(_ECDF_COLUMN).to_pylist())


_READERS = {ECDF: earlier_function, COMPARISON: earlier_curve}
"""For each kind that compares with an earlier release, what reads the part of it."""


def is_reference(given: object) -> bool:
    """Whether a field's value names an earlier release, instead of holding what that release published.

    Two forms name one: ``{"release": URI}``, for a model with ``"kind": "linear"`` or ``"logistic"`` where the release
    holds both; and ``{"uri", "key", "cost", "status"}``, which is what a releasing task leaves in XCom.
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
    named = [("diagnostics.groups", entry.get("groups")) for entry in _entries(fields) if isinstance(entry, Mapping)]
    for field, groups in (*named, ("states.keys", _state_keys(fields))):
        if names_file(groups):
            raise InvalidRequest(
                field, value=groups.get("path") if isinstance(groups, Mapping) else groups,
                requirement="must be a list of keys or {'list': NAME}: a charged request reads no file",
                remedy="list the keys, or have them registered: `dp-budget keys register`",
            )  # fmt: skip


def with_references(fields: Mapping[str, Any], ledger: LedgerReader) -> dict[str, Any]:
    """A request's fields with each name of an earlier release or registered key list replaced by its content.

    Replaced are key lists that are registered for the account, the request's fitted ``model`` and the ``other`` model
    of a comparison, and the ``compare_with`` of an ``ecdf`` or a comparison, which may also be the release's URI alone.
    The request's hash then covers the content, and every attempt at the release uses the same.

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
    """Refuse a request whose model or function differs from the one in the release that it names as its source.

    The source that a request claims is not believed: the release is read again from where the ledger says it lies.

    Raises:
        InvalidRequest: the content differs; or see ``fitted_model`` and ``earlier_function``.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    if isinstance(request.model, (LinearModel, LogisticModel)):
        _require_fitted(request.model, ledger, what="model")
    for options in request.diagnostics:
        other = getattr(options, "other", None)
        if isinstance(other, (LinearModel, LogisticModel)):
            _require_fitted(other, ledger, what="diagnostics.other")
        if isinstance(options, (EcdfOptions, RocComparisonOptions)) and options.compare_with is not None:
            given = options.compare_with
            read = _READERS[options.kind]
            if given.release is None or given != type(given).parse(read(given.release, ledger)):
                raise _forged(_COMPARED, given.released_by)


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


def _has_reference(entry: Any) -> bool:
    return _names_other_model(entry) or _names_earlier(entry) or _names_list(entry)


def _filled(entry: Any, account: Any, ledger: LedgerReader) -> Any:
    if _names_list(entry):
        return {**entry, "groups": _registered(entry["groups"], account, ledger)}
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
            field, value=dict(groups), requirement="must name a registered list, {'list': NAME}, alone",
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
    if not isinstance(entry, Mapping) or entry.get("kind") not in _READERS:
        return False
    given = entry.get("compare_with")
    return isinstance(given, str) or is_reference(given)


def _uri(given: Any) -> object:
    return given.get("release", given.get("uri")) if isinstance(given, Mapping) else given


def _model(model: Mapping[str, Any], ledger: LedgerReader) -> dict[str, Any]:
    return fitted_model(_uri(model), ledger, kind=model.get("kind"))
