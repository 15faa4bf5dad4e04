"""Values as people have them, by the command line with a real Spark: rows at a threshold count, steps are exact, and
scores of rare events have their AUC.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score

from dp_operators import cli
from dp_operators.budget.cli import run
from spark_jobs.contract import Release
from tests.releasing.test_real_application import open_account, write_table
from tests.support.release_lab import Lab, make_request

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verify, pytest.mark.usefixtures("shared_java")]

ROWS = 12_000
THRESHOLDS = (0.3, 0.5, 0.7)


def rows() -> pd.DataFrame:
    random = np.random.default_rng(12)
    visit = random.random(ROWS) < 0.3
    score = 1 / (1 + np.exp(-random.normal(visit * 1.2 - 0.8, 1)))
    return pd.DataFrame(
        {
            "visit": visit.astype(int),
            "score": np.round(score, 1),
            "rare": score * 1e-5,
            "percent": score * 100,
            "region": random.choice(["north", "south"], ROWS),
            "age": random.integers(18, 90, ROWS),
            "amount": random.integers(0, 1001, ROWS).astype(float),
        }
    )


@pytest.fixture
def table(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> str:
    written = write_table(Path(lab.output).parent / "visits", rows())
    open_account(lab, written)
    monkeypatch.setenv("DP_LEDGER_URL", lab.url)
    return written


def released(lab: Lab, table: str, *diagnostics: Any, **changes: Any) -> Release:
    """What the command line releases of the table."""
    at = {"path": table, "snapshot": {"path_version": "v1"}}
    made = make_request(
        lab.output, account="visits", table=at, diagnostics=list(diagnostics), budget={"epsilon": "20"}, **changes
    )
    file = lab.folder / "request.json"
    file.write_text(json.dumps(made.to_dict()))
    before = set(Path(lab.output).glob("*/release.json"))
    words = ["run", str(file), "--master", "local[2]", "--private-dir", str(Path(lab.output).parent / "private")]
    assert run(cli.app, words) == 0
    [manifest] = set(Path(lab.output).glob("*/release.json")) - before
    return Release.from_json(manifest.read_bytes())


def test_rows_at_a_threshold_count_and_steps_are_exact(lab: Lab, table: str) -> None:
    known = rows()
    matrices = {"kind": "confusion_matrix", "thresholds": THRESHOLDS}
    release = released(
        lab,
        table,
        matrices,
        "ranking_figures",
        {"kind": "by_group", "group_by": "region", "groups": ["north", "south"], "kinds": [matrices]},
        {"kind": "quantile", "column": "age", "bounds": [0, 120], "step": 1},
        {"kind": "cdf_points", "column": "amount", "bounds": [0, 1000], "step": 1, "thresholds": [50, 200.5, 500]},
    )
    assert release.rounding == "2"
    found, by_group = release.results["confusion_matrix"], release.results["by_group"]
    assert found["requested"] == list(THRESHOLDS)
    for place, threshold in enumerate(THRESHOLDS):
        assert threshold - 1 / 65536 < found["thresholds"][place] <= threshold
        tn, fp, fn, tp = confusion_matrix(known["visit"], known["score"] >= threshold).ravel()
        released_counts = [found[f"{name}s"][place] for name in ("true_negative", "false_positive")]
        assert released_counts == pytest.approx([tn, fp], abs=40)
        assert found["recall"][place] == pytest.approx(tp / (tp + fn), abs=0.02)
        one = known[known["region"] == "north"]
        recall = one.loc[one["visit"] == 1, "score"].ge(threshold).mean()
        assert by_group["results"][0]["confusion_matrix"]["recall"][place] == pytest.approx(recall, abs=0.03)
    # whole ages: the interval ends at ages
    low, high = release.results["quantile"]["interval"]
    assert low <= np.median(known["age"]) <= high
    assert [low, high] == [round(low), round(high)]
    points = release.results["cdf_points"]
    assert points["thresholds"] == [50, 200, 500]
    for threshold, low, high in zip(points["thresholds"], points["lower"], points["upper"], strict=True):
        assert low - 0.002 <= known["amount"].le(threshold).mean() <= high + 0.002


def test_scores_of_a_rare_event_have_their_area(lab: Lab, table: str) -> None:
    known = rows()
    model = {"kind": "columns", "score": "rare", "basis": "public"}
    release = released(lab, table, "roc_curve", "auc", model=model)
    exact = roc_auc_score(known["visit"], known["rare"])
    assert release.results["roc_curve"]["auc"] == pytest.approx(exact, abs=0.02)
    assert release.results["auc"]["value"] == pytest.approx(exact, abs=0.02)
    assert release.results["auc"]["status"] == "ok"
    # in percent nearly all scores are beyond the range
    percent = released(lab, table, "roc_curve", "auc", model={**model, "score": "percent"})
    for result, interval in ((percent.results["roc_curve"], "auc_interval"), (percent.results["auc"], "interval")):
        assert result["status"] == "coarse"
        assert result["at_ends"] > 0.9
        low, high = result[interval]
        assert low <= exact <= high


@pytest.mark.parametrize(
    ("diagnostic", "line"),
    [
        (
            {"kind": "quantile", "column": "age", "bounds": [0, 100], "step": 0.3},
            "step: got 0.3; must divide the range",
        ),
        ({"kind": "quantile", "column": "age", "step": 1}, "step: got 1"),
        ({"kind": "cdf_points", "column": "age", "bounds": [0, 9], "thresholds": [10]}, "thresholds: got 10"),
    ],
    ids=["step", "without bounds", "outside"],
)
def test_what_makes_no_grid_is_refused_in_a_line(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str], diagnostic: Any, line: str
) -> None:
    fields = make_request(lab.output, account="visits", table={"path": table, "snapshot": {"path_version": "v1"}})
    file = lab.folder / "request.json"
    file.write_text(json.dumps({**fields.to_dict(), "diagnostics": [diagnostic]}))
    assert run(cli.app, ["run", str(file)]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert len(said.strip().splitlines()) == 1
    assert lab.ledger().history("visits") == ()
