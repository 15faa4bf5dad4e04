"""Models that an earlier release has fitted: taken from its manifest, and only if the ledger vouches for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_operators.budget import ChargeState
from dp_operators.releasing.drafts import sha256
from dp_operators.releasing.errors import store_faults
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.layout import MANIFEST_NAME
from spark_jobs.contract.release import PRIVATE, Release
from spark_jobs.contract.stores import open_store

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader

FITS = {"linear": "linear_fit", "logistic": "logistic_fit"}
"""Kinds of models, and the diagnostics that release them."""


def is_reference(model: object) -> bool:
    """Whether a request's ``model`` names a release instead of being a model.

    ``{"release": URI}``, with ``"kind": "linear"`` or ``"logistic"`` where the release holds both; or what a task that
    releases leaves in XCom: ``{"uri", "key", "cost"}``.
    """
    return isinstance(model, Mapping) and "basis" not in model and ("release" in model or "uri" in model)


def refers(fields: Mapping[str, Any]) -> bool:
    """Whether a request's fields name a release where they could hold a model: its own, or one to compare it with."""
    return is_reference(fields.get("model")) or any(map(_compares_with_a_release, _entries(fields)))


def with_fitted_model(fields: Mapping[str, Any], ledger: LedgerReader) -> dict[str, Any]:
    """A request's fields with the models themselves where they name releases that fitted them; others as they are.

    Raises:
        RequestRefused: see ``fitted_model``.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    filled = dict(fields)
    if is_reference(fields.get("model")):
        filled["model"] = _looked_up(fields["model"], ledger)
    if any(map(_compares_with_a_release, _entries(fields))):
        filled["diagnostics"] = [
            {**entry, "other": _looked_up(entry["other"], ledger)} if _compares_with_a_release(entry) else entry
            for entry in _entries(fields)
        ]
    return filled


def _entries(fields: Mapping[str, Any]) -> list[Any]:
    diagnostics = fields.get("diagnostics")
    return list(diagnostics) if isinstance(diagnostics, (list, tuple)) else []


def _compares_with_a_release(entry: Any) -> bool:
    return isinstance(entry, Mapping) and is_reference(entry.get("other"))


def _looked_up(model: Mapping[str, Any], ledger: LedgerReader) -> dict[str, Any]:
    return fitted_model(model.get("release", model.get("uri")), ledger, kind=model.get("kind"))


def fitted_model(uri: object, ledger: LedgerReader, *, kind: object = None) -> dict[str, Any]:
    """The model that a published release holds, as a request takes it; ``fitted_by`` says which release that was.

    The manifest has to be the very one that the ledger committed: a model that somebody wrote into a folder, or changed
    there, was not paid for, and would not be private however it calls itself.

    Args:
        uri: the release's folder.
        ledger: that paid for it; it is only read.
        kind: ``linear`` or ``logistic``, for a release that holds both.

    Raises:
        RequestRefused: no release lies there, the ledger has not committed this one, or it holds no such model.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    if not isinstance(uri, str) or not uri:
        raise RequestRefused(
            "model.release",
            given=uri,
            bound="must be the URI of a release",
            remedy="give what the fitting task returned",
        )
    release = _committed(uri.rstrip("/").removesuffix(f"/{MANIFEST_NAME}"), ledger)
    if kind not in (None, *FITS):
        raise RequestRefused(
            "model.kind", given=kind, bound=f"must be one of {', '.join(FITS)}", remedy="say which fit is meant"
        )
    found = [name for name, fit in FITS.items() if fit in release.results and kind in (None, name)]
    if len(found) != 1:
        raise RequestRefused(
            "model.release",
            given=uri,
            bound="holds both a linear and a logistic fit" if found else "must hold a fitted model",
            remedy="say which by kind" if found else f"name a release of {' or '.join(FITS.values())}",
        )
    return {**release.results[FITS[found[0]]]["model"], "fitted_by": release.key}


def _committed(uri: str, ledger: LedgerReader) -> Release:
    store = open_store(uri, what="model.release")
    with store_faults():
        content = store.read(f"{uri}/{MANIFEST_NAME}")
    if content is None:
        raise RequestRefused(
            "model.release",
            given=uri,
            bound=f"must be a folder that holds {MANIFEST_NAME}",
            remedy="wait for the fitting task, or check the path",
        )
    refused = RequestRefused(
        "model.release",
        given=uri,
        bound="must be a release that this ledger has committed",
        remedy="fit the model by a charged release; dp-budget check-release says what is wrong with this one",
    )
    try:
        release = Release.from_json(content)
        charge = ledger.charge(release.charge_id or "")
    except RequestRefused:
        raise refused from None
    paid = charge.state is ChargeState.COMMITTED and charge.manifest_sha256 == sha256(content)
    if not paid or release.key != charge.release or release.guarantee != PRIVATE:
        raise refused
    return release
