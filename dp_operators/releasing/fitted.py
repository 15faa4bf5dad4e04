"""Models that an earlier release has fitted: taken from its manifest, and only if the ledger vouches for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dp_operators.releasing.committed import committed_release
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader

FITS = {"linear": "linear_fit", "logistic": "logistic_fit"}
"""Kinds of models, and the diagnostics that release them."""


def fitted_model(uri: object, ledger: LedgerReader, *, kind: object = None) -> dict[str, Any]:
    """The model that a published release holds, as a request takes it; ``fitted_by`` says which release that was.

    The manifest has to be the very one that the ledger committed: a model that somebody wrote into a folder, or changed
    there, was not paid for, and would not be private however it calls itself.

    Args:
        uri: the release's folder.
        ledger: that paid for it; it is only read.
        kind: ``linear`` or ``logistic``, for a release that holds both.

    Raises:
        InvalidRequest: no release lies there, the ledger has not committed this one, or it holds no such model.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    committed = committed_release(uri, ledger, what="model.release")
    release = committed.release
    if kind not in (None, *FITS):
        raise InvalidRequest(
            "model.kind", value=kind, requirement=f"must be one of {', '.join(FITS)}", remedy="say which fit is meant"
        )
    found = [name for name, fit in FITS.items() if fit in release.results and kind in (None, name)]
    if len(found) != 1:
        raise InvalidRequest(
            "model.release",
            value=uri,
            requirement="holds both a linear and a logistic fit" if found else "must hold a fitted model",
            remedy="say which by kind" if found else f"name a release of {' or '.join(FITS.values())}",
        )
    if release.results[FITS[found[0]]]["model"] is None:
        raise InvalidRequest(
            "model.release",
            value=uri,
            requirement="holds no model: through its noise, there were too few rows to fit one",
            remedy="name another release, or fit again with more of the budget",
        )
    return {**release.results[FITS[found[0]]]["model"], "fitted_by": release.key, "release": committed.uri}
