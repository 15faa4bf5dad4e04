"""Residual plots and lines as files and pictures: one form whatever was released, and nothing that runs out."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_operators.release_check import broken_rules
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.options import LinearRegressionOptions, ResidualPlotOptions
from spark_jobs.publishing import figures
from spark_jobs.publishing.heat_map import draw_heat_map, in_few_cells, shown_part
from tests.support import linear_results
from tests.support import publications as made
from tests.support.pictures import assert_no_ticks_collide, drawn

LINES = {"x": "parents", "y": "children", "x_bounds": [0, 100_000], "y_bounds": [0, 60_000]}
TRACTS = {"group_by": "tract", "groups": ["a", "b"]}
MODEL = {"kind": "linear", "basis": "differentially_private", "coefficients": {"age": 1.0}}


def request(kind, **fields):
    if kind == "residual_plot":
        options = ResidualPlotOptions(kind=kind, outcome="wage")
        return made.request(diagnostics=[options], label=None, model=MODEL)
    return made.request(diagnostics=[LinearRegressionOptions(kind=kind, **LINES, **fields)], label=None, model=None)


WIDE = Ends(-1_234_567.0, -1_234_567.0)
RELEASED = {
    "a plot": linear_results.residual_plot(),
    "a plot of large effects": replace(
        linear_results.residual_plot(),
        slope=Figure(value=WIDE.lower, interval=WIDE),
        bow=Figure(value=WIDE.lower, interval=WIDE),
        spread_ratio=Figure(value=0.00123, interval=Ends(0.000123, 0.0123)),
    ),
    "a coarse plot": linear_results.residual_plot(bins=4, rows=300),
    "a fine plot": linear_results.residual_plot(bins=256),
    "a plot with all faults": replace(
        linear_results.residual_plot(),
        findings=("line", "curvature", "variance", "shift"),
        verdict="All is wrong. " * 20,
    ),
    "a plot without fault": replace(linear_results.residual_plot(), findings=(), verdict="Nothing was found. " * 20),
    "no plot": linear_results.undefined_residual_plot(),
    "a line": linear_results.linear_fit(),
    "groups": linear_results.linear_fit(40),
    "two groups": linear_results.without_intervals(linear_results.linear_fit(2)),
    "many groups": linear_results.linear_fit(3000),
}


def kind_of(name):
    return "residual_plot" if "plot" in name else "linear_regression"


def rendering(name, found=None):
    kind = kind_of(name)
    return made.render(kind, RELEASED[name] if found is None else found, request(kind))


@pytest.mark.sampled
@pytest.mark.halved
@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASED)
@pytest.mark.parametrize("alone", [False, True])
def test_every_text_lies_within_the_picture_and_no_ticks_collide(name, alone):
    for plot in rendering(name).plots:
        figure, texts = drawn(plot, alone=alone)
        assert len(texts) > 6
        assert_no_ticks_collide(figure)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "label"),
    [("a plot", "mean residual, with band"), ("a plot", "released quantiles"), ("a line", None)],
)
def test_probes_lie_on_what_was_released(name, label):
    plots = rendering(name).plots
    found = False
    for plot in plots:
        figure, _ = drawn(plot, alone=False)
        axes = figure.axes[0]
        np.testing.assert_allclose(axes.get_position().bounds, plot.axes)
        for line in axes.lines:
            if label is not None and line.get_label() != label:
                continue
            if label is None and line.get_marker() != "o":
                continue
            found = True
            points = np.column_stack(line.get_data())
            places = axes.transAxes.inverted().transform(axes.transData.transform(points))
            assert plot.probes
            for probe in plot.probes:
                apart = np.hypot(places[:, 0] - probe.x, np.clip(places[:, 1], 0, 1) - probe.y)
                assert apart.min() < 2e-3
                assert 0 <= probe.low <= probe.y <= probe.high <= 1
    assert found


def test_data_file_of_a_plot_has_a_row_for_each_cell():
    found = RELEASED["a plot"]
    columns = {name: column.values for name, column in rendering("a plot").columns.items()}
    assert {len(values) for values in columns.values()} == {32 * 32}
    at = 32 * 7 + 11
    assert columns["count"][at] == found.counts[7, 11]
    assert (columns["fitted_lower"][at], columns["residual_lower"][at]) == (
        found.fitted_edges[7],
        found.residual_edges[11],
    )
    assert columns["trend"][at] == found.trend.value[7]
    assert (columns["rows_above"][at], columns["rows_right"][at]) == (found.counts_above[8], found.counts_right[11])
    assert list(columns) == list(rendering("no plot").columns)


@pytest.mark.slow
@pytest.mark.verify
def test_data_file_of_lines_has_a_row_for_each_group_and_is_read_back():
    found = RELEASED["groups"]
    _, files = made.publish(
        {"linear_regression": found}, facts=made.facts(request=request("linear_regression", **TRACTS))
    )
    table = pq.read_table(io.BytesIO(files["linear_regression.parquet"]))
    assert table["group"].to_pylist() == list(found.keys)
    np.testing.assert_array_equal(table["prediction_0.75"].to_numpy(), found.predictions.value[:, 1])
    np.testing.assert_array_equal(table["slope_lower"].to_numpy(), found.slope.lower)
    assert {"linear_regression.svg", "linear_regression_groups.png"} <= set(files)
    assert list(rendering("a line").columns) == table.column_names


def test_forms_are_the_same_whatever_was_released():
    assert [m.label for m in rendering("a plot").section.measures] == [
        m.label for m in rendering("no plot").section.measures
    ]
    assert len(rendering("groups").section.table.rows) == len(rendering("many groups").section.table.rows) == 24
    undefined = rendering("no plot").section
    assert [m.label for m in undefined.headline.others] == ["Slope", "Bow", "Shift"]
    assert {m.value for m in undefined.headline.others} == {"–"}
    assert undefined.notice
    assert undefined.headline.value == "undefined"
    assert {cell for row in undefined.table.rows for cell in row[1:]} == {"–"}


def test_report_and_pictures_of_a_residual_plot_say_effect_sizes_before_tests():
    found = RELEASED["a plot"]
    facts = made.facts(request=request("residual_plot"))
    files = made.publish({"residual_plot": found}, facts=facts)[1]
    page = files["report.html"].decode()
    told = ("2.5\N{MULTIPLICATION SIGN}", "2.2 to 2.9", "2.5 times as wide at the top fifth", "Slope", "-0.01 to 0.05")
    told += ("Bow", "2.8 to 3.4", "Shift", "-0.1 to 0.3", "<p>The mean residual is curved", "p\xa0=\xa0")
    places = [page.index(text, page.index('class="headline"')) for text in told]
    assert places == sorted(places)
    _, texts = drawn(rendering("a plot").plots[0], alone=True)
    sizes = [
        "2.5 times as wide at the top as at the bottom (2.2 to 2.9)",
        "Slope of the mean residual: 0.02 (-0.01 to 0.05)",
        "Bow of the mean residual: 3.1 (2.8 to 3.4)",
        "Found: curvature and unequal variance (at most 5 in 100 by chance)",
    ]
    lines = [text for text in sorted(texts, key=lambda text: -text.get_position()[1]) if text.get_text() in sizes]
    assert [text.get_text() for text in lines] == sizes


@pytest.mark.parametrize(
    ("ratio", "interval", "value", "words"),
    [
        (0.4, (0.25, 0.5), "0.4", "2.5 times as wide at the bottom as at the top (2 to 4)"),
        (1.02, (0.9, 1.2), "1", "As wide at the top as at the bottom (0.9 to 1.2 times)"),
        (123.4, (56.0, 210.0), "123", "123 times as wide at the top as at the bottom (56 to 210)"),
        (None, None, "undefined", "Spread at the top, against the bottom: undefined"),
    ],
)
def test_spread_ratio_is_said_in_words_whatever_its_size(ratio, interval, value, words):
    found = replace(RELEASED["a plot"], spread_ratio=Figure(value=ratio, interval=interval and Ends(*interval)))
    page = rendering("a plot", found)
    assert page.section.headline.value.rstrip("\N{MULTIPLICATION SIGN}") == value
    assert (page.section.headline.marks is None) == (ratio is None)
    assert words in page.plots[0].description


def test_headline_of_a_single_line_is_its_slope_with_its_interval():
    slope = Figure(value=np.array([0.4]), interval=Ends(np.array([0.3]), np.array([0.5])))
    found = linear_results.linear_fit(slope=slope)
    headline = rendering("a line", found).section.headline
    assert (headline.label, headline.value, headline.interval) == ("Slope", "0.4", "90\xa0% interval 0.3 to 0.5")
    assert headline.scale == ("-0.6", "0.6")
    np.testing.assert_allclose(headline.marks, (0.75, 0.5 + 1 / 3, 0.5 + 5 / 12))
    (plot,) = rendering("a line", found).plots
    assert "Slope: 0.4 (90\xa0% interval 0.3 to 0.5)" in [text.get_text() for text in drawn(plot, alone=True)[1]]
    silent = rendering("a line", linear_results.without_intervals(found)).section.headline
    assert (silent.value, silent.interval, silent.marks) == ("0.4", None, (headline.marks[1],) * 3)
    undefined = rendering("a line", linear_results.linear_fit(slope=slope.withheld(), status=("undefined",)))
    headline = undefined.section.headline
    assert (headline.value, headline.interval, headline.marks) == ("undefined", None, None)
    assert "Slope: undefined" in undefined.plots[0].description


def test_line_without_intervals_says_why():
    assert any("no interval" in note for note in rendering("two groups").section.notes)
    assert not any("no interval" in note for note in rendering("groups").section.notes)


@pytest.mark.parametrize("name", RELEASED)
def test_releases_meet_their_contract(name):
    result = json.loads(json.dumps(RELEASED[name].to_dict(), allow_nan=False))
    assert broken_rules(kind_of(name), result) == []


BROKEN = {
    "a plot": {
        "p_value": 1.5,
        "counts": [[-1] * 32] * 32,
        "trend": [1e6] * 32,
        "spread_lower": [-1.0] * 32,
        "qq_residual": list(range(25, 0, -1)),
        "bins": 16,
        "fitted_edges": [1.0] * 33,
        "rows": -3.0,
        "overflow": float("inf"),
        "counts_above": [2] * 3,
        "findings": ["gossip"],
    },
    "groups": {
        "predictions": [[1e9, 1e9]] * 40,
        "slope": [float("nan")] * 40,
        "slope_lower": [100.0] * 40,
        "status": ["good"] * 40,
        "rows": [-1.0] * 40,
        "total_rows": float("nan"),
        "keys": ["one"],
    },
}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, fields in BROKEN.items() for field in fields])
def test_broken_results_do_not_meet_it(name, field):
    result = RELEASED[name].to_dict() | {field: BROKEN[name][field]}
    assert broken_rules(kind_of(name), result)


def test_rows_of_the_report_are_the_total_and_not_the_sum_of_sizes_of_at_least_0():
    found = replace(RELEASED["groups"], total_rows=77.0)
    section = made.render("linear_regression", found, request("linear_regression", **TRACTS)).section
    assert {each.label: each.value for each in section.measures}["Rows"].endswith("77")
    assert found.rows.sum() > 1_000


def test_text_of_a_user_is_text_and_not_markup():
    keys = tuple(f"{made.HOSTILE}{number}" for number in range(3))
    found = replace(linear_results.linear_fit(3), keys=keys)
    asked = request("linear_regression", **TRACTS)
    files = made.publish({"linear_regression": found}, facts=made.facts(request=asked))[1]
    page = files["report.html"].decode()
    assert "<script>" not in page
    assert "<img src=x" not in page
    assert "\x00" not in files["linear_regression_groups.svg"].decode()


def test_note_on_private_models_is_read_where_the_model_is_private():
    found = made.render("residual_plot", RELEASED["a plot"], request("residual_plot"))
    assert any("itself fitted with noise" in note for note in found.section.notes)


@pytest.mark.slow
def test_published_bytes_are_the_same_each_time():
    facts = made.facts(request=request("residual_plot"))
    first, second = (made.publish({"residual_plot": RELEASED["a plot"]}, facts=facts)[1] for _ in range(2))
    assert first == second
    assert {"residual_plot.png", "residual_quantiles.svg", "residual_plot.parquet"} <= set(first)
    assert len(first["residual_plot.svg"]) < 200_000


def test_heat_map_is_darkest_where_most_rows_are_and_leaves_empty_cells():
    counts = np.zeros((128, 2), dtype=np.int64)
    counts[10, 0], counts[100, 1] = 900, 9
    figure, _ = figures.new_axes((4, 4), (0.1, 0.1, 0.8, 0.8), x_label="", y_label="")
    axes = figure.axes[0]
    framed, x_edges, y_edges = in_few_cells(np.pad(counts, 1), np.linspace(0, 128, 129), np.linspace(0, 2, 3))
    assert (framed.shape, x_edges[:3].tolist(), y_edges.tolist()) == ((66, 4), [-2, 0, 2], [-1, 0, 1, 2, 3])
    draw_heat_map(axes, framed, x_edges, y_edges, label="rows")
    light, dark = sorted(axes.patches, key=lambda patch: patch.get_alpha())
    assert light.get_alpha() < dark.get_alpha() / 3
    assert dark.get_path().get_extents().bounds == (10, 0, 2, 1)
    assert light.get_path().get_extents().bounds == (100, 1, 2, 1)


def test_rows_beyond_the_box_are_drawn_around_it_and_told_by_side():
    found = RELEASED["a coarse plot"]
    figure, _ = drawn(rendering("a coarse plot").plots[0], alone=False)
    axes = figure.axes[0]
    cells = [patch.get_path().get_extents() for patch in axes.patches]
    width = found.fitted_edges[1] - found.fitted_edges[0]
    assert max(extents.y1 for extents in cells) == found.residual_bound + np.diff(found.residual_edges)[0]
    assert max(extents.x1 for extents in cells) == found.fitted_upper + width
    assert axes.get_ylim()[1] > found.residual_bound
    measures = {each.label: each for each in rendering("a coarse plot").section.measures}
    assert measures["Outside the box"].value.endswith("15")
    assert measures["Outside the box"].note == "rows: 0.0\xa0% left, 0.7\xa0% right, 0.3\xa0% below, 4.0\xa0% above"


def test_empty_margins_of_the_box_are_not_shown():
    edges = np.linspace(-8, 8, 17)
    counts = np.zeros(16, dtype=np.int64)
    counts[6:10] = 100
    assert shown_part(counts, edges, kept=0.001) == (-3, 3)
    assert shown_part(np.zeros(16, dtype=np.int64), edges, kept=0.001) == (-8, 8)
