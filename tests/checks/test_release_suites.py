"""Suites that people write for releases: a checkpoint over the published files, and its data docs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_operators.budget import PrivacyLedger
from spark_jobs.checks.release_suites import check_suites
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.release import Release
from spark_jobs.diagnostics import aggregates, by_group
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums, GroupedScoreCounts
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


BY = {"column": "region", "values": ["north", "south"]}
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
    [line] = check_suites(release, BAD)
    area = Release.from_json((Path(release) / "release.json").read_bytes()).results["roc_curve"]["auc"]
    assert line == f"release.json: {BETWEEN}(column='roc_curve.auc', min_value=0.99): the value is {area:.6g}"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a published table of aggregates and of results by group."""
    folder = tmp_path_factory.mktemp("tables")
    ledger = PrivacyLedger(f"sqlite:///{folder}/ledger.db")
    ledger.migrate()
    open_bound(ledger, "visits", epsilon="10", table="/lake/visits", output=folder / "out")
    random = np.random.default_rng(1)
    region, spend = random.choice(["north", "south", "x"], 9000), random.gamma(2, 10, 9000)
    spend = np.where(region == "south", spend + 20, spend)
    sums = AggregateSums.from_arrays(
        {"region": region, "spend": spend}, by=[BY], measures=[{"of": "spend", "bounds": [0, 100]}]
    )
    scores = random.random(9000)
    counts = GroupedScoreCounts.from_arrays(random.random(9000) < scores, scores, region, keys=("north", "south"))
    results = {
        "aggregates": aggregates.release(sums, epsilon=5, marginals=[[]], noise=SeededNoise(1)),
        "by_group": by_group.release(counts, epsilon=5, kinds=("auc",), noise=SeededNoise(1)),
    }
    uri = publish(
        ledger, folder / "out", results,
        diagnostics=[
            {"kind": "aggregates", "by": [BY], "measures": [{"of": "spend", "bounds": [0, 100]}], "marginals": [[]]},
            {"kind": "by_group", "group_by": "region", "groups": ["north", "south"], "kinds": ["auc"]},
        ],
    )  # fmt: skip
    ledger.close()
    return uri


def test_cells_and_groups_are_rows_that_a_suite_reads(tables: str) -> None:
    results = Release.from_json((Path(tables) / "release.json").read_bytes()).results
    means = next(one for one in results["aggregates"]["measures"] if one["name"] == "mean")["values"]
    suites = {
        "aggregates.parquet": suite(
            ("expect_column_values_to_be_in_set", {"column": "by_region", "value_set": ["north", "south", "other"]}),
            (BETWEEN, {"column": "mean_spend", "min_value": 30}),
            (BETWEEN, {"column": "mean_spend_upper", "max_value": 1000}),
            ("expect_table_row_count_to_equal", {"value": 4}),
            ("expect_column_to_exist", {"column": "mean_age"}),
        ),
        "aggregates_marginal_0.parquet": suite((BETWEEN, {"column": "count_lower", "min_value": 8000})),
        "by_group.parquet": suite((BETWEEN, {"column": "lower", "min_value": 0.9, "row_condition": 'figure=="auc"',
                                             "condition_parser": "pandas"})),
        "release.json": suite((BETWEEN, {"column": "aggregates.south.mean.spend.lower", "min_value": 50})),
    }  # fmt: skip
    lines = check_suites(tables, suites)
    kinds = ("'mean_spend'", "row_count", "to_exist", "by_group", "release.json")
    assert len(lines) == len(kinds)
    between, rows, column, groups, manifest = (line for kind in kinds for line in lines if kind in line)
    assert between.endswith(
        f"the value is mean_spend {means[0]:.6g}, by_region north; mean_spend {means[2]:.6g}, by_region other"
    )
    assert rows.endswith("the value is 3")
    assert column == "aggregates.parquet: expect_column_to_exist(column='mean_age')"
    assert "row_condition='figure==\"auc\"'" in groups
    assert "figure auc, threshold null, group north; lower" in groups
    lower = next(one for one in results["aggregates"]["measures"] if one["name"] == "mean")["lower"][1]
    assert manifest.endswith(f"the value is {lower:.6g}")


PAIR = "expect_column_pair_values_a_to_be_greater_than_b"
CONDITION = {"row_condition": "by_age == 3", "condition_parser": "pandas"}


@pytest.mark.parametrize(
    ("file", "expectation", "line"),
    [
        ("aggregates.parquet", (BETWEEN, {"column": "mean_spent", "min_value": 0}), "did you mean 'mean_spend'?"),
        (
            "aggregates.parquet",
            (PAIR, {"column_A": "count", "column_B": "n"}),
            f"parquet.{PAIR}.column_B: got 'n'; must",
        ),
        (
            "aggregates.parquet",
            ("expect_compound_columns_to_be_unique", {"column_list": ["by_region", "by_age"]}),
            "got 'by_age'; must be a column of the file, which has by_region, status, count, count_lower",
        ),
        ("release.json", (BETWEEN, {"column": "aggregates.west.count", "min_value": 0}), "got 'aggregates.west.count'"),
        (
            "aggregates.parquet",
            (BETWEEN, {"column": "count", "min_value": 0, **CONDITION}),
            f"suites.aggregates.parquet: got '{BETWEEN}'; must be an expectation that Great Expectations can evaluate",
        ),
    ],
)
def test_a_column_that_is_not_there_is_an_error_of_the_suite(
    tables: str, file: str, expectation: tuple[str, dict[str, Any]], line: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_suites(tables, {file: suite(expectation)})
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


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
