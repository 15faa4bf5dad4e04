"""A ledger and a folder of releases, with manifests of fitted models that were committed, or were not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dp_operators.budget import PrivacyLedger
from dp_operators.releasing.drafts import sha256
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.layout import release_folder
from tests.support.ledgers import commit as commit_charge
from tests.support.requests import a_request

KEY = "test/fit/1"
LOGISTIC = {
    "kind": "logistic",
    "basis": "differentially_private",
    "intercept": -1.5,
    "coefficients": {"age": 0.25},
    "bounds": {"age": [18.0, 80.0]},
}


def fitted_release(ledger: PrivacyLedger, output: str, *, key: str = KEY, commit: bool = True, **changes: Any) -> str:
    """Write a manifest with a model for account ``fits``, commit it, and say where it lies."""
    request = a_request(account="fits", output=output)
    charge = ledger.reserve("fits", release=key, epsilon=1, request_sha256=request.sha256)
    fields: dict[str, Any] = {
        "key": key,
        "charge_id": charge.id,
        "status": "CHARGED",
        "guarantee": "differentially private",
        "request_sha256": request.sha256,
        "request": request.to_dict(),
        "cost": Budget(epsilon=1),
        "neighbours": Neighbours.ADD_REMOVE,
        "unit": PrivacyUnit(),
        "statement": "",
        "rules": (),
        "assumptions": (),
        "drawn_at": "2026-11-21T00:00:00Z",
        "results": {"logistic_fit": {"model": LOGISTIC}},
        "versions": {},
    }
    content = Release(**{**fields, **changes}).to_json().encode()
    folder = Path(release_folder(output, key))
    folder.mkdir(parents=True)
    (folder / "release.json").write_bytes(content)
    if commit:
        commit_charge(ledger, charge.id, sha256(content))
    return str(folder)
