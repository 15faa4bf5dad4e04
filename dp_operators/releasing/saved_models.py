"""Saved pipelines that a request names: the hash of their files becomes part of the request before it is charged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.pipelines import WORKER_SCHEMES, read_pipeline
from spark_jobs.contract.tables import SparkMLModel

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader


def with_saved_model(request: ReleaseRequest, ledger: LedgerReader) -> ReleaseRequest:
    """``request`` with the hash of the saved pipeline that it names; the application checks it before loading any file.

    A hash that the request already gives is kept.

    Raises:
        InvalidRequest: the path lies within a table of an account or holds no pipeline; or this machine cannot read the
            path and the request gives no hash.
        LedgerUnavailable: the ledger cannot be reached.
    """
    model = request.model
    if not isinstance(model, SparkMLModel):
        return request
    place = Place.of_folder(model.path, what="model.path")
    for account in ledger.accounts():
        for table in account.tables:
            if Place.parse(table).overlaps(place):
                raise InvalidRequest(
                    "model.path", model.path, "must not lie within the folder of a table, and must not contain one",
                    "save the model outside the lake's tables",
                )  # fmt: skip
    if model.sha256 is not None:
        return request
    if not place.identity.startswith(WORKER_SCHEMES):
        raise InvalidRequest(
            "model.sha256", None, f"is required of a pipeline that is not in a store of {' or '.join(WORKER_SCHEMES)}",
            "copy the pipeline there, or give the hash that `dp-budget hash-pipeline` prints for a copy",
        )  # fmt: skip
    bound = model.model_copy(update={"sha256": read_pipeline(model.path).sha256})
    return request.model_copy(update={"model": bound})
