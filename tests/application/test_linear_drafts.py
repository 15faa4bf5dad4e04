"""Drafts of residual plots and of private lines, from exact statistics to files: every attempt makes the same ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dp_operators.release_check import broken_rules
from spark_jobs.application.draft import draft
from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.application.run import measure
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import PointCounts, ResidualCounts
from spark_jobs.wording.rules import rules
from tests.application.test_draw import request

RESIDUALS = {"kind": "residual_plot", "outcome": "wage", "unit": 0.125}
LINE = {"kind": "linear_regression", "x": "parent", "y": "child", "x_bounds": [0, 1], "y_bounds": [0, 1]}
GROUPS = [f"{place:03d}" for place in range(40)]
GROUPED = {**LINE, "group_by": "tract", "groups": GROUPS}


def asked(*diagnostics: Any, **changes: Any) -> ReleaseRequest:
    return request(**{"label": None, "diagnostics": list(diagnostics), **changes})


def exact(made: ReleaseRequest, rows: int) -> dict[Any, Any]:
    """The exact statistics of as many rows."""
    generator = np.random.default_rng(5)
    x = generator.random(rows)
    y = 0.2 + 0.5 * x + generator.normal(0, 0.1, rows)
    found: dict[Any, Any] = {}
    for options in made.diagnostics:
        statistic: Any = options.statistic
        if statistic.kind == "residuals":
            found[statistic] = ResidualCounts.from_arrays(4 * x, generator.normal(0, 1, rows), unit=statistic.unit)
        else:
            keys = statistic.groups
            groups = None if keys is None else generator.choice(np.array([*keys, "of no list"]), rows)
            found[statistic] = PointCounts.from_arrays(x, y, groups=groups, keys=keys)
    return found


def drafted(made: ReleaseRequest, drawn: ReleaseDraw) -> Any:
    return draft(made, drawn, key=None, rules=rules(made))


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.halved
@pytest.mark.parametrize("unit", [{}, {"column": "person", "max_rows": 3}], ids=["row", "person"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("diagnostics", [[RESIDUALS, GROUPED], [RESIDUALS], [LINE]], ids=["both", "plot", "line"])
def test_a_draw_makes_the_same_draft_again_and_again(diagnostics: Any, neighbours: str, unit: Any) -> None:
    public = [{**each, "public_sizes": True} if not unit and "x" in each else each for each in diagnostics]
    made = asked(*public, neighbours=neighbours, unit=unit)
    drawn = measure(made, exact(made, 3000), charge_id=None, noise=SecureNoise())
    assert (0.999 if neighbours == "add_remove" else 0.949) < drawn.cost.epsilon <= 1
    again = ReleaseDraw.from_json(drawn.to_json(), charge_id=None, request_sha256=made.sha256)
    first, second = drafted(made, drawn), drafted(made, again)
    assert first == second
    release, files = first
    for kind, result in json.loads(release.to_bytes())["results"].items():
        assert broken_rules(kind, result) == []
        assert f"{kind}.parquet" in files
    assert not any("score" in rule for rule in release.rules)


def form(value: Any) -> Any:
    """What must not depend on rows: names and lengths; a number may be absent where its noise says so."""
    if isinstance(value, dict):
        return {name: form(inner) for name, inner in value.items()}
    return len(value) if isinstance(value, list) else "one"


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.parametrize("method", ["auto", "noisy_stats", "noisy_intercept", "noisy_moments", "dp_grad_descent"])
def test_lines_of_no_row_and_of_many_have_the_same_form(method: str) -> None:
    made = asked({**GROUPED, "method": method}, model=None)
    forms = []
    for rows in (0, 1, 3000):
        release, files = drafted(made, measure(made, exact(made, rows), charge_id=None, noise=SeededNoise(2)))
        forms.append((sorted(files), form(release.results), release.rules, release.statement))
    assert forms[0] == forms[1] == forms[2]


@pytest.mark.slow
@pytest.mark.verify
def test_ten_thousand_groups_with_a_row_each_make_a_page_that_can_be_read() -> None:
    keys = [f"{place:05d}" for place in range(10_000)]
    made = asked({**GROUPED, "groups": keys}, model=None)
    (statistic,) = made.statistics
    places = np.linspace(0, 1, len(keys))
    points = PointCounts.from_arrays(places, places, groups=np.array(keys), keys=keys)
    drawn = measure(made, {statistic: points}, charge_id=None, noise=SeededNoise(3))
    release, files = drafted(made, drawn)
    assert len(release.results["linear_regression"]["slope"]) == len(keys)
    assert release.request["diagnostics"][0]["groups"] == keys
    page = files["report.html"].decode()
    assert "... and 9,900 more" in page
    assert keys[0] in page
    assert len(page) < 2_000_000


def test_a_private_line_costs_no_more_for_many_groups() -> None:
    costs = []
    for diagnostic in (LINE, GROUPED):
        made = asked(diagnostic, model=None)
        costs.append(measure(made, exact(made, 100), charge_id=None, noise=SeededNoise(4)).cost.epsilon)
    assert costs[0] == costs[1] == 1


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("diagnostic", "changes"),
    [
        ({"method": "noisy_stats_zcdp"}, {"budget": {"epsilon": 1, "delta": "1e-6"}}),
        ({"method": "noisy_moments_zcdp"}, {"budget": {"epsilon": 1, "delta": "1e-6"}}),
        ({"method": "dp_grad_descent_zcdp"}, {"budget": {"epsilon": 1, "delta": "1e-6"}}),
        ({"method": "dp_exp_theil_sen", "public_sizes": True}, {"neighbours": "replace_one"}),
        ({"method": "dp_wide_theil_sen", "public_sizes": True}, {"neighbours": "replace_one"}),
        ({"method": "dp_ss_theil_sen", "matchings": 5, "public_sizes": True}, {"neighbours": "replace_one"}),
    ],
)
def test_every_method_can_be_asked_for(diagnostic: dict[str, Any], changes: dict[str, Any]) -> None:
    made = asked({**GROUPED, **diagnostic}, model=None, **changes)
    drawn = measure(made, exact(made, 2000), charge_id=None, noise=SeededNoise(6))
    assert drawn.cost.epsilon <= 1
    assert (drawn.cost.delta > 0) == ("budget" in changes)
    release, _ = drafted(made, drawn)
    assert broken_rules("linear_regression", json.loads(release.to_bytes())["results"]["linear_regression"]) == []


def test_lines_of_much_budget_are_those_of_least_squares() -> None:
    made = asked(LINE, model=None, budget={"epsilon": 10**9})
    known = exact(made, 4000)
    (points,) = known.values()
    release, _ = drafted(made, measure(made, known, charge_id=None, noise=SeededNoise(7)))
    x, y = ((place / 2048) for place in points.points())
    slope, intercept = np.polyfit(x, y, 1)
    found = json.loads(release.to_bytes())["results"]["linear_regression"]
    assert found["slope"] == pytest.approx([slope], abs=1e-3)
    assert found["intercept"] == pytest.approx([intercept], abs=1e-3)
