"""What operators' tests share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dp_operators.releasing import ChargedRequest, LocalRunner, Published
from spark_jobs.contract.request import ReleaseRequest

FAKE = (sys.executable, "-m", "tests.support.fake_application")
"""The command of the application's stand-in."""


@pytest.fixture
def fake_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases are made without Spark, and what they hold is not checked against the contract."""
    # each task has a runner of its own, which runs one application at a time
    monkeypatch.setattr(
        "dp_operators.operators.application.make_runner",
        lambda *_, **__: LocalRunner(command=FAKE, private_dir=tmp_path / "private", grace=5.0),
    )
    monkeypatch.setattr("dp_operators.release_check.check_release", lambda release, read: None)


@pytest.fixture
def quick_release(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Releases that are published at once, without an application; the ledger is charged as ever.

    It is the status of each kind, which a test may change.
    """
    status = {"roc_curve": "ok"}

    def publish(charged: ChargedRequest[ReleaseRequest], **_: Any) -> Published:
        request, price = charged.request, charged.request.budget
        charge = charged.ledger.reserve(
            charged.account, release=charged.key, epsilon=price.epsilon, blocks=request.blocks
        )
        return Published(
            uri=f"{request.output}/folder",
            key=charged.key,
            cost=price,
            charge_id=charge.id,
            manifest_sha256="ab" * 32,
            adopted=False,
            status=dict(status),
        )

    monkeypatch.setattr("dp_operators.releasing.release", publish)
    return status
