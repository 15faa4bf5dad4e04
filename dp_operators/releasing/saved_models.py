"""Saved pipelines that a request names: bound by the hash of their files before anything is charged."""

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
    """``request`` with the hash of the pipeline that it names, which the application compares before it uses any of it.

    A hash that the request gives is left as it is: the application holds the pipeline against it.

    Raises:
        InvalidRequest: the pipeline lies within a table of an account, is none, or lies where this machine cannot read
            it and the request does not give its hash.
        LedgerUnavailable: the ledger cannot be asked.
    """
    model = request.model
    if not isinstance(model, SparkMLModel):
        return request
    place = Place.of_folder(model.path, what="model.path")
    for account in ledger.accounts():
        for table in account.tables:
            if Place.parse(table).overlaps(place):
                raise InvalidRequest(
                    "model.path", value=model.path, requirement=f"must not lie within a table: {table} is one",
                    remedy="save the model outside the lake's tables",
                )  # fmt: skip
    if model.sha256 is not None:
        return request
    if not place.identity.startswith(WORKER_SCHEMES):
        raise InvalidRequest(
            "model.sha256",
            requirement=f"is required of a pipeline that is not in a store of {' or '.join(WORKER_SCHEMES)}",
            remedy="copy the pipeline there, or give the hash that `dp-budget hash-pipeline` prints of a copy",
        )  # fmt: skip
    bound = model.model_copy(update={"sha256": read_pipeline(model.path).sha256})
    return request.model_copy(update={"model": bound})
