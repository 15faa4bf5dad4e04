"""Suites that people write for releases: a checkpoint over the published files, and its data docs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import PrivacyLedger
from spark_jobs.checks.release_suites import check_suites
from spark_jobs.contract.errors import InvalidRequest
from tests.support.accounts import open_bound
from tests.support.shown_ledger import publish

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a published ROC curve."""
    folder = tmp_path_factory.mktemp("release")
    ledger = PrivacyLedger(f"sqlite:///{folder}/ledger.db")
    ledger.migrate()
    open_bound(ledger, "visits", epsilon="10", table="/lake/visits", output=folder / "out")
    uri = publish(ledger, folder / "out")
    ledger.close()
    return uri


def suite(*expectations: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"name": "mine", "expectations": [{"type": name, "kwargs": kwargs} for name, kwargs in expectations]}


BETWEEN = "expect_column_values_to_be_between"
GOOD = {
    "roc_curve.parquet": suite((BETWEEN, {"column": "tpr", "min_value": 0, "max_value": 1})),
    "release.json": suite(
        (BETWEEN, {"column": "roc_curve.auc", "min_value": 0.5, "max_value": 1}),
        (BETWEEN, {"column": "roc_curve.auc.lower", "min_value": 0.4}),
        ("expect_column_values_to_be_in_set", {"column": "roc_curve.status", "value_set": ["ok"]}),
    ),
}
BAD = {**GOOD, "release.json": suite((BETWEEN, {"column": "roc_curve.auc", "min_value": 0.99}))}


def test_release_meets_a_suite_and_breaks_another(release: str, tmp_path: Path) -> None:
    assert check_suites(release, GOOD, data_docs=str(tmp_path / "docs")) == []
    assert (tmp_path / "docs" / "index.html").is_file()
    pages = [page for page in (tmp_path / "docs").rglob("*.html") if "validations" in page.parts]
    assert len(pages) == len(GOOD)
    assert any("roc_curve.auc" in page.read_text() for page in pages)
    assert check_suites(release, BAD) == [f"release.json: {BETWEEN}(column='roc_curve.auc', min_value=0.99)"]


@pytest.mark.parametrize(
    ("suites", "line"),
    [
        ({"rows.parquet": suite((BETWEEN, {"column": "tpr"}))}, "suites: got 'rows.parquet'; must be one of"),
        ({"roc_curve.parquet": suite(("expect_nothing", {}))}, "suites.roc_curve.parquet: must be a suite of Great"),
        ({"roc_curve.parquet": {"name": "x", "expectation": []}}, "suites.roc_curve.parquet: must be a suite of Great"),
    ],
)
def test_wrong_suite_is_refused_in_one_line(release: str, suites: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_suites(release, suites)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_folder_without_a_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="must be the folder of a release"):
        check_suites(str(tmp_path), GOOD)


def test_changed_file_is_not_checked(release: str, tmp_path: Path) -> None:
    for path in Path(release).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "roc_curve.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidRequest, match="must hold roc_curve.parquet as its manifest says"):
        check_suites(str(tmp_path), GOOD)


def test_process_answers_with_lines_alone(release: str) -> None:
    asked = json.dumps({"release": release, "suites": BAD, "data_docs": None})
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.checks"], input=asked, capture_output=True, text=True, check=False
    )
    assert (done.returncode, list(json.loads(done.stdout))) == (0, ["unmet"]), done.stderr
