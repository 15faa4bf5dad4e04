"""Private fits as files and pictures: one form whatever was released, nothing that runs out, a contract that holds."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_operators.release_check import broken_rules
from spark_jobs.diagnostics import linear_fit, logistic_fit
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import CrossProducts, LabelledRows
from tests.support import publications as made
from tests.support.pictures import assert_no_ticks_collide, drawn
from tests.support.undefined import is_undefined

LONG = "CASE WHEN pay < 0 THEN 0 ELSE LN(1 + pay) END"
HOSTILE = f"x {made.HOSTILE}"[:200].replace("\x00", "")
FEATURES = {"age": [18, 80], LONG: [0, 12]}
LEVELS = {"region": ["north", "south", "west"], "member": [False, True]}
KINDS = ("linear_fit", "logistic_fit")


def asked(kind, *, features=FEATURES, levels=LEVELS):
    options = {"kind": kind, "features": features, "categorical": levels}
    if kind == "linear_fit":
        options |= {"outcome": "hours", "outcome_bounds": [0, 60]}
    return made.request(diagnostics=[options], model=None)


def released(kind, *, epsilon=1, rows=5000, features=FEATURES, levels=LEVELS):
    random = np.random.default_rng(3)
    columns = {name: random.uniform(*bounds, rows) for name, bounds in features.items()}
    columns |= {name: random.choice(np.array(known, dtype=object), rows) for name, known in levels.items()}
    [design] = asked(kind, features=features, levels=levels).statistics
    outcome = random.uniform(0, 60, rows) if kind == "linear_fit" else random.integers(0, 2, rows)
    module = {"linear_fit": linear_fit, "logistic_fit": logistic_fit}[kind]
    rows = CrossProducts if kind == "linear_fit" else LabelledRows
    statistic = rows.from_arrays(columns, outcome, design=design)
    return module.release(statistic, epsilon=epsilon, noise=SeededNoise(2))


FORTY = {f"feature_{place:02d}": [0, 1] for place in range(60)}
RELEASED = {
    "plain": {"epsilon": 5},
    "shrunk": {"epsilon": 0.05},
    "undefined": {"rows": 0},
    "one feature": {"features": {"age": [18, 80]}, "levels": {}},
    "levels alone": {"features": {}},
    "sixty features": {"features": FORTY, "levels": {}},
    "an exact fit": {"epsilon": 10**9},
    "tiny units": {"features": {"age": [0, 1e-12]}, "levels": {}},
    "huge units": {"features": {"age": [-1e12, 1e12]}, "levels": {}},
}


def options_of(name):
    return {key: value for key, value in RELEASED[name].items() if key in ("features", "levels")}


CASES = [
    pytest.param((kind, name), id=f"{kind}-{name}", marks=[pytest.mark.verify] if name == "sixty features" else [])
    for kind in KINDS
    for name in RELEASED
]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    kind, name = request.param
    found = released(kind, **RELEASED[name])
    return kind, name, found, made.render(kind, found, asked(kind, **options_of(name)))


@pytest.mark.sampled
@pytest.mark.halved
@pytest.mark.slow
@pytest.mark.parametrize("alone", [False, True])
def test_every_text_lies_within_the_picture_and_no_ticks_collide(case, alone):
    for plot in case[3].plots:
        assert_no_ticks_collide(drawn(plot, alone=alone)[0])


@pytest.mark.slow
@pytest.mark.verify
def test_probes_lie_on_the_coefficients(case):
    kind, _, found, rendering = case
    [plot] = rendering.plots
    figure, _ = drawn(plot, alone=False)
    axes = figure.axes[0]
    np.testing.assert_allclose(axes.get_position().bounds, plot.axes)
    lines = [line for line in axes.lines if line.get_marker() == "o"]
    assert len(lines) == (found.status != "undefined")
    for line in lines:
        points = axes.transAxes.inverted().transform(axes.transData.transform(np.column_stack(line.get_data())))
        for probe in plot.probes:
            assert np.hypot(points[:, 0] - probe.x, points[:, 1] - probe.y).min() < 2e-3, kind


@pytest.mark.sampled
@pytest.mark.slow
def test_the_contract_holds_and_the_data_file_has_a_row_for_each_term(case):
    kind, name, found, _ = case
    fields = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert is_undefined(kind, found) or broken_rules(kind, fields) == []
    assert found.status == {"shrunk": "shrunk", "undefined": "undefined"}.get(name, found.status)
    _, files = made.publish({kind: found}, facts=made.facts(request=asked(kind, **options_of(name))))
    table = pq.read_table(io.BytesIO(files[f"{kind}.parquet"]))
    assert table["term"].to_pylist() == list(found.terms)
    np.testing.assert_array_equal(table["coefficient"].to_numpy(), found.coefficients.value)
    assert table["coefficient"].null_count == (len(found.terms) if found.status == "undefined" else 0)
    assert {f"{kind}.svg", f"{kind}.png", "report.html"} <= set(files)


@pytest.mark.parametrize("kind", KINDS)
def test_forms_are_the_same_whatever_was_released(kind):
    told = [
        (
            [measure.label for measure in rendering.section.measures],
            rendering.section.table.header,
            [row[0] for row in rendering.section.table.rows],
            list(rendering.columns),
        )
        for rendering in (
            made.render(kind, released(kind, **RELEASED[name]), asked(kind))
            for name in ("plain", "shrunk", "undefined")
        )
    ]
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("kind", KINDS)
def test_notices_say_what_to_make_of_it(kind):
    said = {
        name: made.render(kind, released(kind, **RELEASED[name]), asked(kind)).section.notice
        for name in ("an exact fit", "shrunk", "undefined")
    }
    assert said["an exact fit"] is None
    assert "shrunk towards 0" in said["shrunk"]
    assert "there are no coefficients" in said["undefined"]


BROKEN = {
    "coefficient outside its interval": lambda result: result["lower"].__setitem__(1, result["upper"][1] + 1),
    "an interval outside the wider one": lambda result: result["lower_population"].__setitem__(1, result["upper"][1]),
    "infinite": lambda result: result["coefficients"].__setitem__(1, float("inf")),
    "a span of nothing": lambda result: result["spans"].__setitem__(1, 0.0),
    "negative rows": lambda result: result.__setitem__("rows", -1.0),
    "an unknown status": lambda result: result.__setitem__("status", "fine"),
    "a term without a name": lambda result: result["terms"].pop(),
    "another model": lambda result: result["model"]["coefficients"].__setitem__("age", 7.0),
    "a public model": lambda result: result["model"].__setitem__("basis", "public"),
    "no model": lambda result: result.__setitem__("model", {"kind": "columns"}),
}


@pytest.mark.sampled("fault")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_result_does_not_meet_the_contract(kind, fault):
    result = released(kind).to_dict()
    assert broken_rules(kind, result) == []
    BROKEN[fault](result)
    assert broken_rules(kind, result) != []


def test_names_of_a_hostile_request_are_shown_as_text():
    found = released("linear_fit", features={"age": [18, 80]}, levels={})
    found = replace(found, terms=("intercept", HOSTILE))
    _, files = made.publish({"linear_fit": found}, facts=made.facts(request=asked("linear_fit")))
    page = files["report.html"].decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
