"""The request of a task: its fields, from parameters or a file, before the ledger completes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.request_documents import load_fields, load_model, without_gate
from spark_jobs.contract.store.layout import MANIFEST_NAME
from spark_jobs.contract.written import Written, read_written

BUDGET = ("epsilon", "delta", "rho")
FIELDS = (
    "account", "table", "label", "model", "diagnostics", "neighbours", "unit", "where", "output", "blocks", "title",
    "record", "scoring", "federation", "input_suite", "row_id",
)  # fmt: skip
"""The parameters of a release task that are fields of its request; those of ``BUDGET`` are in its ``budget``."""


def given_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request among a task's parameters; None stands for an omitted field."""
    budget = {name: parameters[name] for name in BUDGET if parameters.get(name) is not None}
    fields = {name: parameters[name] for name in FIELDS if parameters.get(name) is not None}
    return {**fields, "budget": budget} if budget else fields


def whole_or_fields(whole: Any, fields: dict[str, Any]) -> Any:
    """The whole request if it is given, otherwise its fields.

    Raises:
        InvalidRequest: both are given.
    """
    if whole is None:
        return fields
    if fields:
        raise InvalidRequest(
            "request", f"also {', '.join(sorted(fields))}", "must contain all fields of the request",
            "move these fields into request, or leave request out",
        )  # fmt: skip
    return whole


def read_request(given: str | Mapping[str, Any]) -> ReleaseRequest | Written[ReleaseRequest]:
    """The request in a rendered dictionary or in a file.

    Raises:
        InvalidRequest: the request is not valid, or names an earlier release or a key list, which only a ledger can
            resolve.
    """
    return read_written(ReleaseRequest, request_fields(given))


def request_fields(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request, with a model read from its file; a model that names a release stays a reference.

    Raises:
        InvalidRequest: a file cannot be read, or does not contain fields.
    """
    if isinstance(given, str):
        return without_gate(load_fields(given))
    fields = dict(given)
    model = fields.get("model")
    if isinstance(model, str):
        fields["model"] = {"release": model} if _names_a_release(model) else load_model(model)
    if isinstance(fields.get("blocks"), str):
        fields["blocks"] = [fields["blocks"]]
    return fields


def checked_fields(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request, checked; a request that refers to the ledger is checked later, once it is resolved.

    Raises:
        InvalidRequest: the fields give no valid request, or name a file of keys.
    """
    from dp_operators.releasing import has_references, require_no_key_file

    fields = request_fields(given)
    require_no_key_file(fields)
    if not has_references(fields):
        read_written(ReleaseRequest, fields)
    return fields


def _names_a_release(text: str) -> bool:
    """Whether a text names a release's folder or manifest, rather than a model's file."""
    return "://" in text or text.endswith(f"/{MANIFEST_NAME}") or Path(text).is_dir()
