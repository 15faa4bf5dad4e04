"""Rows that do not count are counted by cause, beside the statistics, in the one pass over the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.application.draft import draft
from spark_jobs.application.run import measure
from spark_jobs.contract.left_out import CAUSES, LEFT_OUT
from spark_jobs.contract.options import ScoreCells
from spark_jobs.mechanisms.noise import SeededNoise
from tests.application.test_draw import request

HEADER = "person,visited,score,region,age\n"
COLUMNS = {"person": "string", "visited": "string", "score": "double", "region": "string", "age": "int"}
ROWS = [
    "a,yes,0.5,n,30",  # counts
    "a,no,0.5,n,30",  # counts
    "a,YES,0.5,n,30",  # another label
    "b,yes,half,n,30",  # no number
    "b,yes,,n,30",  # no score
    "b,,half,n,30",  # no label either: the text comes first
    "c,maybe,0.5,n,30",  # another label
    "c,yes,NaN,n,30",  # no score
    ",yes,0.5,n,30",  # nobody's
    ",maybe,half,n,30",  # nobody's
    "d,yes,0.5,s,30",  # the filter is false
    "e,yes,0.5,,30",  # the filter is unknown
    "f,yes,0.5,n,x",  # the filter's number is none
    "f,yes,0.5,n,5",  # the filter is false
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake") / "v1"
    folder.mkdir()
    (folder / "a.csv").write_text(HEADER + "\n".join(ROWS) + "\n")
    return folder.parent


def asked(table: Path, **changes: Any) -> Any:
    source = {"format": "csv", "path": str(table), "columns": COLUMNS, "snapshot": {"path_version": "v1"}}
    label = {"column": "visited", "positive": "yes", "negative": "no"}
    fields = {"table": source, "label": label, "where": "region = 'n' AND age > 10", "diagnostics": ["roc_curve"]}
    return request(**{**fields, **changes})


def counted(spark: Any, asked: Any) -> tuple[int, dict[str, int]]:
    counts = count(prepare(spark, asked), asked)
    scores = counts[ScoreCells()]
    return int(scores.positives.sum() + scores.negatives.sum()), dict(
        zip(CAUSES, counts[LEFT_OUT].tolist(), strict=True)
    )


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0123456789abcdef" * 2)


@pytest.mark.spark
def test_each_row_that_counts_in_nothing_has_its_first_cause(spark: Any, table: Path) -> None:
    of_rows = {"no_unit": 0, "not_parsed": 4, "null": 3, "outside": 2}
    assert counted(spark, asked(table)) == (3, of_rows)
    assert counted(spark, asked(table, where=None)) == (7, {**of_rows, "not_parsed": 3, "null": 2})


@pytest.mark.spark
@pytest.mark.parametrize("row_id", [None, "age"])
def test_a_units_places_go_to_its_rows_that_count_first(spark: Any, table: Path, row_id: str | None) -> None:
    one = asked(table, unit={"column": "person", "max_rows": 1}, row_id=row_id)
    rows, causes = counted(spark, one)
    # of a, whose place a good row takes, nothing is seen; of b, c, e and f one row each
    assert (rows, causes["no_unit"], sum(causes.values())) == (1, 2, 6)
    assert causes["not_parsed"] in (1, 2)
    three = asked(table, unit={"column": "person", "max_rows": 3}, row_id=row_id)
    assert counted(spark, three) == (2, {"no_unit": 2, "not_parsed": 3, "null": 3, "outside": 2})


@pytest.mark.spark
def test_causes_are_in_manifest_and_report_beside_statistics_that_stay_as_they_were(spark: Any, table: Path) -> None:
    # noise this small leaves a curve all its thresholds, and their bands take half a minute
    matrix = {"kind": "confusion_matrix", "thresholds": [0.5]}
    wanted = asked(table, budget={"epsilon": "1000"}, diagnostics=[matrix])
    counts = count(prepare(spark, wanted), wanted)
    drawn = measure(wanted, counts, charge_id=None, noise=SeededNoise(1))
    assert drawn.left_out == {"counts": {"no_unit": 0, "not_parsed": 4, "null": 3, "outside": 2}, "epsilon": "1000"}
    without = measure(wanted, {ScoreCells(): counts[ScoreCells()]}, charge_id=None, noise=SeededNoise(1))
    assert (without.measurements, without.cost, without.events) == (drawn.measurements, drawn.cost, drawn.events)
    release, files = draft(wanted, drawn, key=None, rules=())
    assert release.left_out is not None
    assert release.left_out.no_unit is None
    assert release.left_out.outside.value == 2
    assert "about 4 rows (4 to 4 at 90%) have a text that is no value of its column" in files["report.html"].decode()
    assert type(release).from_json(release.to_bytes()) == release


@pytest.mark.spark
def test_an_empty_table_has_a_release_of_the_same_form(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "a.csv").write_text(HEADER)
    wanted = asked(tmp_path)
    counts = count(prepare(spark, wanted), wanted)
    assert counts[LEFT_OUT].tolist() == [0, 0, 0, 0]
    drawn = measure(wanted, counts, charge_id=None, noise=SeededNoise(1))
    assert set(drawn.left_out["counts"]) == set(CAUSES)
    assert not np.any([count < 0 for count in (draft(wanted, drawn, key=None, rules=())[0].left_out.null.value,)])
