"""Files and report section of results by group."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_operators.release_check import check_release
from spark_jobs.application.draft import draft
from spark_jobs.application.run import measure
from spark_jobs.contract.options import GroupedScoreCells
from spark_jobs.mechanisms.noise import SecureNoise
from spark_jobs.statistics import GroupedScoreCounts
from spark_jobs.wording.rules import rules
from tests.application.test_draw import request

KEYS = ("north", "<b>south</b>")
KINDS = ["roc_curve", {"kind": "calibration", "bins": 4}, {"kind": "confusion_matrix", "thresholds": [0.3, 0.5]}]
FIGURES = 3 + 2 * 4
RNG = np.random.default_rng(5)
LABELS = RNG.random(4000) < 0.3
SCORES = 1 / (1 + np.exp(-(RNG.normal(0, 1, 4000) + 1.3 * LABELS - 0.6)))
GROUPS = RNG.choice(np.array([*KEYS, "west", None], dtype=object), 4000)


def published(rows: int) -> Any:
    asked = request(diagnostics=[{"kind": "by_group", "group_by": "region", "groups": KEYS, "kinds": KINDS}])
    counts = GroupedScoreCounts.from_arrays(LABELS[:rows], SCORES[:rows], GROUPS[:rows], keys=KEYS)
    statistics = {GroupedScoreCells(group_by="region", groups=KEYS): counts}
    drawn = measure(asked, statistics, charge_id="c", noise=SecureNoise())
    return draft(asked, drawn, key="k", rules=rules(asked))


@pytest.fixture(scope="module", params=[4000, 0], ids=["rows", "no rows"])
def release(request: pytest.FixtureRequest) -> Any:
    return published(request.param)


def table(release: Any, name: str) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = pq.read_table(io.BytesIO(release[1][f"{name}.parquet"])).to_pydict()
    return columns


@pytest.mark.slow
def test_a_release_meets_its_contract_and_is_charged_once(release: Any) -> None:
    manifest, files = release
    check_release(manifest, files.get)
    (part,) = manifest.parts
    assert (part.kinds, str(part.cost.epsilon)) == (("by_group",), "1")
    assert [spent.label for spent in part.spendings] == ["counts of scores in each of 3 groups, which share no row"]
    (rule,) = (rule for rule in manifest.rules if "group" in rule)
    assert rule.endswith("is null or not among the 2 groups of the request counts in the group other.")


@pytest.mark.slow
def test_every_kind_has_a_data_file_with_all_groups(release: Any) -> None:
    keys = [*KEYS, "other"]
    assert table(release, "by_group")["group"] == keys * FIGURES
    assert len(table(release, "by_group_differences")["figure"]) == FIGURES
    for name, rows in {"roc_curve": None, "calibration": 4, "confusion_matrix": 2}.items():
        columns = table(release, f"by_group_{name}")
        size = len(columns["group"]) // 3
        assert columns["group"] == [key for key in keys for _ in range(size)]
        assert rows in (None, size)


@pytest.mark.slow
def test_all_rows_have_the_class_sizes_that_the_release_states(release: Any) -> None:
    manifest, _ = release
    sizes = manifest.class_sizes
    columns = table(release, "by_group_differences")
    assert set(columns) >= {"overall", "overall_lower", "overall_upper"}
    assert columns["figure"][:3] == ["positive_rate", "auc", "mean_residual"]
    assert columns["overall"][1] is None
    share = columns["overall"][0]
    if share is not None:
        assert share == pytest.approx(sizes.positives / (sizes.positives + sizes.negatives), abs=1e-6)
        assert columns["overall_lower"][0] <= share <= columns["overall_upper"][0]
        page = release[1]["report.html"].decode()
        assert "All rows" in page
        assert "Dashed: all rows." in page


@pytest.mark.slow
def test_the_report_compares_groups_and_draws_each_kind_for_each_group(release: Any) -> None:
    page = release[1]["report.html"].decode()
    assert 'id="by_group-title"' in page
    assert "<b>south</b>" not in page
    assert "&lt;b&gt;south&lt;/b&gt;" in page
    headings = re.findall(r"<h3>(.*?)</h3>", page)
    assert headings[:4] == ["Each figure by group", "ROC curve", "Calibration", "Confusion matrix and rates"]
    assert page.count('<figure class="small">') == FIGURES + 3 * 3
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_names_do_not_depend_on_the_rows() -> None:
    one, other = published(4000), published(0)
    assert list(one[1]) == list(other[1])
    for name in ("by_group", "by_group_differences", "by_group_roc_curve"):
        assert list(table(one, name)) == list(table(other, name))
