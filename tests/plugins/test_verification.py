"""The page that verifies a release: sound, altered, out of reach, and elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.plugins.verification import verification
from dp_operators.releasing import ChargedRequest, LocalRunner, ReleaseError, release
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from tests.operators.conftest import FAKE
from tests.support.accounts import open_bound

pytestmark = [pytest.mark.slow, pytest.mark.verify]


@pytest.fixture
def released(airflow_ledger: PrivacyLedger, tmp_path: Path) -> tuple[PrivacyLedger, str]:
    """A ledger with one release, and the release's folder."""
    open_bound(airflow_ledger, "visits & co", epsilon="1", table="/lake/visits", output=tmp_path / "releases")
    request = ReleaseRequest.parse(
        {
            "account": "visits & co",
            "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
            "label": "any_visit",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": ["roc_curve"],
            "budget": {"epsilon": "1"},
            "output": str(tmp_path / "releases" / "sub"),
        }
    )
    runner = LocalRunner(command=FAKE, private_dir=tmp_path / "private", grace=5.0)
    key = "airflow/dag/run/task/-1"
    published = release(ChargedRequest.of(request, airflow_ledger, key), runner=runner, check=lambda *_: None)
    return airflow_ledger, published.uri


def test_sound_altered_and_unreadable_releases(
    released: tuple[PrivacyLedger, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, uri = released

    def page() -> str:
        return verification("ledger", ledger, "visits & co", uri, nonce="n")

    assert "the ledger paid for this manifest" in page()
    assert "Account visits &amp; co" in page()
    Path(uri, "report.html").write_text("<script>alert(1)</script>")
    manifest = json.loads(Path(uri, "release.json").read_text())
    Path(uri, "release.json").write_text(json.dumps({**manifest, "drawn_at": "<script>"}))
    assert "This is not what the ledger paid for" in page()
    assert "report.html: has another SHA-256 than the manifest says" in page()
    assert "<script>" not in page()

    def fail(*_: object) -> None:
        raise ReleaseError("the output store failed")

    monkeypatch.setattr("dp_operators.plugins.verification.check_release_folder", fail)
    assert "the output store failed" in page()


@pytest.mark.parametrize(
    "elsewhere", ["/etc/folder", "{}/../../secret", "{}/../none", "{}/../..", "{}/../link", "relative"]
)
def test_only_folders_of_the_account_are_read(released: tuple[PrivacyLedger, str], elsewhere: str) -> None:
    ledger, uri = released
    secret = Path(uri).parents[2] / "secret"
    secret.mkdir()
    for folder in (secret, Path(uri).parents[1]):
        (folder / "release.json").write_text("{}")
    (Path(uri).parent / "link").symlink_to(secret)
    with pytest.raises(InvalidRequest, match="must"):
        verification("ledger", ledger, "visits & co", elsewhere.format(uri), nonce="n")


@pytest.mark.parametrize("name", ["../../secret", "/etc/hostname", "a/./b", "a//b", "a\\b", ""])
def test_manifest_reads_no_file_outside_its_folder(released: tuple[PrivacyLedger, str], name: str) -> None:
    ledger, uri = released
    (Path(uri).parents[1] / "secret").write_text("x")
    manifest = json.loads(Path(uri, "release.json").read_text())
    manifest["files"][0]["name"] = name
    Path(uri, "release.json").write_text(json.dumps(manifest))
    page = verification("ledger", ledger, "visits & co", uri, nonce="n")
    assert "release.json: is not a manifest" in page
    assert name == "" or name not in page


def test_symbolic_link_is_not_followed(released: tuple[PrivacyLedger, str]) -> None:
    ledger, uri = released
    report = Path(uri, "report.html")
    same = Path(uri).parents[1] / "same"
    report.rename(same)
    report.symlink_to(same)
    page = verification("ledger", ledger, "visits & co", uri, nonce="n")
    assert "report.html: is a symbolic link" in page
