"""Published distribution functions, committed or not, for later requests to be compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dp_operators.budget import PrivacyLedger
from dp_operators.releasing.drafts import sha256
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import release_folder
from spark_jobs.diagnostics import ecdf
from spark_jobs.diagnostics.ecdf import Ecdf
from spark_jobs.mechanisms.noise import Noise, SecureNoise
from spark_jobs.statistics import ValueCounts
from spark_jobs.wording.facts import ReleaseFacts
from tests.support.ledgers import commit as commit_charge
from tests.support.publications import publish

KEY = "test/march/1"
TABLE = "/lake/visits"
CELLS = 256
ROC = {"kind": "roc_curve"}
AMOUNTS = {"kind": "ecdf", "column": "amount", "bounds": [0, 100], "cells": CELLS}


def released(
    *, mean: float = 40.0, rows: int = 3000, seed: int = 1, noise: Noise | None = None, **options: Any
) -> Ecdf:
    """A release of normal amounts, on the grid of ``AMOUNTS``."""
    values = np.random.default_rng(seed).normal(mean, 12, rows)
    statistic = ValueCounts.from_arrays(values, lower=0, upper=100, cells=CELLS)
    return ecdf.release(statistic, epsilon=1, noise=noise or SecureNoise(), named="amount", **options)


def ecdf_release(
    ledger: PrivacyLedger,
    output: str,
    found: Any,
    *,
    kind: str = "ecdf",
    key: str = KEY,
    commit: bool = True,
    diagnostic: Any = None,
    **changes: Any,
) -> str:
    """Publish ``found`` for account ``fits`` as the protocol would, commit it, and say where it lies."""
    request = ReleaseRequest.parse(
        {
            "account": "fits",
            "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
            "diagnostics": [diagnostic or AMOUNTS],
            "label": "visited",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "budget": {"epsilon": "1"},
            "output": output,
        }
    )
    charge = ledger.reserve("fits", release=key, epsilon=1, request_sha256=request.sha256)
    facts = ReleaseFacts(
        request=request, key=key, charge_id=charge.id, cost=Budget(epsilon=1), rules=(), assumptions=(),
        drawn_at="2026-03-31T00:00:00Z", versions={},
    )  # fmt: skip
    release, files = publish({kind: found}, facts=facts)
    content = Release(**{**release.model_dump(), **changes}).to_json().encode()
    folder = Path(release_folder(output, key))
    folder.mkdir(parents=True)
    for name, data in {**files, "release.json": content}.items():
        (folder / name).write_bytes(data)
    if commit:
        commit_charge(ledger, charge.id, sha256(content))
    return str(folder)
