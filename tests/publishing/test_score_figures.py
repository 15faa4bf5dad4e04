"""Files and report sections of AUC, average precision, binormal curve and confusion matrices."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from dp_operators.release_check import check_release
from spark_jobs.application.draft import draft
from spark_jobs.application.run import measure
from spark_jobs.contract.options import ScoreCells
from spark_jobs.mechanisms.noise import SecureNoise
from spark_jobs.statistics import ScoreCounts
from tests.application.test_draw import counts, request

ASKED: dict[str, dict[str, Any]] = {
    "auc": {},
    "average_precision": {"interval": False, "method": "polynomial"},
    "binormal_roc": {"points": 17},
    "confusion_matrix": {"thresholds": [0.2, 0.5, 0.8]},
    "ranking_figures": {"depths": [0.1, 0.5], "points": 9},
    "recalibration": {"clip": 0.01},
}
ROWS = {
    "auc": 1,
    "average_precision": 1,
    "binormal_roc": 17,
    "confusion_matrix": 3,
    "ranking_figures": 13,
    "recalibration": 41,
}
EMPTY = {ScoreCells(): ScoreCounts.from_arrays([], [])}


def published(statistics: Any) -> Any:
    asked = request(diagnostics=[{"kind": kind, **options} for kind, options in ASKED.items()])
    drawn = measure(asked, statistics, charge_id="c", noise=SecureNoise())
    return draft(asked, drawn, key="k", rules=())


@pytest.fixture(scope="module", params=["rows", "no rows"])
def release(request: pytest.FixtureRequest) -> Any:
    return published(counts() if request.param == "rows" else EMPTY)


@pytest.mark.slow
def test_releases_meet_their_contract(release: Any) -> None:
    manifest, files = release
    check_release(manifest, files.get)
    assert set(manifest.results) == set(ASKED)


@pytest.mark.parametrize("kind", ASKED)
def test_each_has_a_data_file_of_its_shape_and_two_pictures(release: Any, kind: str) -> None:
    _, files = release
    table = pq.read_table(io.BytesIO(files[f"{kind}.parquet"]))
    assert table.num_rows == ROWS[kind]
    assert all(field.metadata[b"description"] for field in table.schema)
    assert files[f"{kind}.svg"].startswith(b"<?xml")
    assert files[f"{kind}.png"].startswith(b"\x89PNG")


def test_the_report_has_a_section_for_each_and_says_what_the_cost_bought(release: Any) -> None:
    page = release[1]["report.html"].decode()
    for kind in ASKED:
        assert f'id="{kind}-title"' in page
    assert "What the cost bought" in page
    assert "which were not paid for" in page


def test_one_threshold_is_drawn_as_one_matrix() -> None:
    asked = request(diagnostics=["confusion_matrix"])
    drawn = measure(asked, counts(), charge_id="c", noise=SecureNoise())
    manifest, files = draft(asked, drawn, key="k", rules=())
    assert manifest.results["confusion_matrix"]["thresholds"] == [0.5]
    assert b"Specificity" in files["confusion_matrix.svg"]


@pytest.mark.slow
def test_names_and_shapes_do_not_depend_on_the_rows() -> None:
    (one, files), (other, others) = published(counts()), published(EMPTY)
    assert list(files) == list(others)
    assert {kind: set(result) for kind, result in one.results.items()} == {
        kind: set(result) for kind, result in other.results.items()
    }
