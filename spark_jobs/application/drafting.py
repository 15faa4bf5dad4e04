"""From a draw to a draft: deterministic, so that every attempt makes the same bytes."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import version
from typing import Any

from spark_jobs.application.draw import Draw
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.publishing import ReleaseFacts, publish

ASSUMED_OF_MODEL = {
    "public": "The model is public: it was fitted without any row of this release. "
    "Had it seen them, this release would not be private.",
    "differentially_private": "The model was fitted by a differentially private method whose cost is accounted for "
    "elsewhere; this release's cost comes on top of it.",
}


def diagnostic(kind: str) -> Any:
    """The module of ``spark_jobs.diagnostics`` that makes diagnostics of this kind."""
    return import_module(f"spark_jobs.diagnostics.{kind}")


def assumptions(request: ReleaseRequest) -> tuple[str, ...]:
    """What the guarantee of a release for ``request`` rests on."""
    said = [ASSUMED_OF_MODEL[request.model.basis]]
    if request.unit.column is None:
        said.append(
            "The privacy unit is a row. A person who owns several rows is protected row by row, not as a whole."
        )
    said.append(f"The table is read as of {request.table.snapshot.describe()}, which is not written again.")
    return tuple(said)


def draft(
    request: ReleaseRequest,
    draw: Draw,
    *,
    key: str | None,
    rules: tuple[str, ...],
    account: AccountState | None,
) -> tuple[Release, dict[str, bytes]]:
    """The manifest and the files of the release that ``draw`` makes."""
    results = {
        kind: diagnostic(kind).summarise(diagnostic(kind).Measurement.from_dict(fields), seed=draw.seed)
        for kind, fields in draw.measurements.items()
    }
    facts = ReleaseFacts(
        request=request,
        key=key,
        charge_id=draw.charge_id,
        cost=draw.cost,
        rules=rules,
        assumptions=assumptions(request),
        drawn_at=draw.drawn_at,
        versions=draw.versions,
        account=account,
    )
    return publish(results, facts=facts)


def versions() -> dict[str, str]:
    """The programs whose versions decide what a draw and its draft look like."""
    names = ("airflow-provider-dp-diagnostics", "pyspark", "opendp", "numpy", "scipy", "matplotlib", "pyarrow")
    return {name: version(name) for name in names}


def read_account(content: bytes | None) -> AccountState | None:
    """The account's figures that the caller stored beside the request; None for a draft outside the ledger."""
    return None if content is None else AccountState.parse(json.loads(content))
