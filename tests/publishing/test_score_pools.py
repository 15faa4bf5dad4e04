"""The pictures, tables and sections of binned residuals and calibration, from real releases of small tables."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dp_operators.release_check import broken_rules
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.diagnostics import binned_residuals, calibration
from spark_jobs.diagnostics._score_groups.page import score_range
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing.formats import percent
from spark_jobs.statistics import ScoreCounts
from tests.support import publications as made
from tests.support.pictures import drawn

DIAGNOSTICS = {"binned_residuals": binned_residuals, "calibration": calibration}
EVERY_KIND = pytest.mark.parametrize("kind", DIAGNOSTICS)
BINS = 12


def released(kind, rows=4000, *, bend=1.4, epsilon="1"):
    random = np.random.default_rng(3)
    scores = random.beta(1.5, 3, rows)
    labels = (random.random(rows) < scores**bend).astype(int)
    statistic = ScoreCounts.from_arrays(labels, scores)
    return DIAGNOSTICS[kind].release(statistic, epsilon=epsilon, bins=BINS, noise=SeededNoise(1))


def rendering(kind, found=None):
    return made.render(kind, found or released(kind), made.request())


@pytest.mark.sampled("kind", "rows")
@pytest.mark.slow
@EVERY_KIND
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("rows", [4000, 0], ids=["ok", "undefined"])
def test_every_text_lies_within_the_picture(kind, rows, alone):
    (plot,) = rendering(kind, released(kind, rows)).plots
    assert len(drawn(plot, alone=alone)[1]) > 9


@EVERY_KIND
def test_probes_lie_on_the_points(kind):
    found = released(kind)
    (plot,) = rendering(kind, found).plots
    figure, _ = drawn(plot, alone=False)
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.get_position().bounds, plot.axes)
    points = np.concatenate([np.column_stack(line.get_data()) for line in axes.lines if line.get_marker() in "oD"])
    places = axes.transAxes.inverted().transform(axes.transData.transform(points))
    assert len(plot.probes) == found.pool[-1] + 1 == len(places)
    for probe in plot.probes:
        assert np.abs(places - [probe.x, probe.y]).sum(axis=1).min() < 1e-9
        assert 0 <= probe.low <= probe.y <= probe.high <= 1
    assert [probe.x for probe in plot.probes] == sorted(probe.x for probe in plot.probes)


@EVERY_KIND
def test_points_beyond_the_zone_have_a_mark_of_their_own(kind):
    found = released(kind, bend=2.5)
    (plot,) = rendering(kind, found).plots
    figure, _ = drawn(plot, alone=True)
    marks = {line.get_marker(): len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() in "oD"}
    assert marks["D"] > 0
    assert sum(marks.values()) == found.pool[-1] + 1


@EVERY_KIND
@pytest.mark.parametrize("rows", [4000, 50, 0])
def test_tables_and_columns_have_a_row_for_every_bin(kind, rows):
    found = rendering(kind, released(kind, rows))
    assert len(found.section.table.rows) == BINS
    assert {len(row) for row in found.section.table.rows} == {len(found.section.table.header)}
    assert {len(column.values) for column in found.columns.values()} == {BINS}


@EVERY_KIND
def test_undefined_results_say_so_and_invent_nothing(kind):
    section = rendering(kind, released(kind, 0)).section
    assert section.notice
    assert section.headline.value == "undefined"
    assert section.headline.marks is None
    assert {cell for row in section.table.rows for cell in row[1:]} == {"–"}


@EVERY_KIND
def test_the_report_states_what_the_noise_makes_of_the_interval_for_the_population(kind):
    field = {"binned_residuals": "residual", "calibration": "observed"}[kind]
    shown = []
    for epsilon in ("0.3", "3"):
        found = released(kind, epsilon=epsilon)
        [told] = (item for item in rendering(kind, found).section.measures if item.label == "Share of the noise")
        shares = found.published()[f"{field}_privacy_share"][np.unique(found.pool, return_index=True)[1]]
        assert told.value == percent(float(np.median(shares)))
        shown.append(float(np.median(shares)))
    assert 1 > shown[0] > 2 * shown[1]


@EVERY_KIND
def test_pooled_bins_have_a_star(kind):
    found = released(kind, 300)
    assert found.pool[-1] + 1 < BINS
    stars = [row[0].endswith("*") for row in rendering(kind, found).section.table.rows]
    assert stars == (np.bincount(found.pool)[found.pool] > 1).tolist()


@EVERY_KIND
def test_releases_meet_their_contract_and_broken_ones_do_not(kind):
    for rows in (0, 4000):
        result = json.loads(json.dumps(released(kind, rows).to_dict()))
        assert broken_rules(kind, result) == []
        assert (broken_rules(kind, result | {"status": "undefined"}) == []) == (rows == 0)
    field = "residual" if kind == "binned_residuals" else "observed"
    changes = {
        f"{field}_privacy_share": [1.5] * BINS,
        "lower": [0.1, *result["lower"][1:]],
        "pool": [0, 5, *result["pool"][2:]],
        "p_value": 1.5,
        "rows": [-1.0, *result["rows"][1:]],
        f"{field}_upper": [-0.5] * BINS,
    }
    for name, value in changes.items():
        assert broken_rules(kind, result | {name: value}), name


def test_both_are_published_in_one_report():
    results = {kind: released(kind) for kind in DIAGNOSTICS}
    request = made.request(diagnostics=list(DIAGNOSTICS), title=None)
    release, files = made.publish(results, facts=made.facts(request=request))
    names = {file.name for file in release.files}
    assert {"binned_residuals.png", "binned_residuals.svg", "calibration.parquet", "report.html"} <= names
    page = files["report.html"].decode()
    assert "Binned residuals and calibration" in page


def test_the_worst_values_are_drawn_without_failing():
    found = released("calibration")
    nothing = np.zeros(BINS)
    flat = replace(
        found, predicted=nothing, observed=replace(found.observed, value=nothing, interval=Ends(nothing, nothing)),
        zone_lower=nothing, zone_upper=nothing, ece=Figure(value=1.0, interval=Ends(1.0, 1.0)), p_value=0.0001,
    )  # fmt: skip
    (plot,) = rendering("calibration", flat).plots
    figure, _ = drawn(plot, alone=True)
    assert figure.axes[0].get_xlim()[1] > figure.axes[0].get_xlim()[0]


def test_numbers_are_printed_to_what_they_tell():
    assert score_range(0.1, 0.2, whole=True) == "0.10 to 0.20"
    assert score_range(0.00012, 0.00034, whole=True) == "0.0001 to 0.0003"
    assert score_range(0.1, 0.2, whole=False).endswith("*")


@pytest.mark.parametrize(("bend", "calibrated"), [(1.0, True), (1.4, False)])
def test_binned_residuals_lead_with_their_distance_and_that_of_a_calibrated_model(bend, calibrated):
    result = released("binned_residuals", 20000, bend=bend)
    headline = rendering("binned_residuals", result).section.headline
    assert headline.value == f"{100 * result.mean_distance.value:.1f} points"
    low, high = result.mean_distance.interval
    assert headline.interval.endswith(f"interval {100 * low:.1f} to {100 * high:.1f} points")
    end = float(headline.scale[1].removesuffix(" points")) / 100
    assert headline.marks == pytest.approx((low / end, result.mean_distance.value / end, high / end))
    assert headline.reference[1] == pytest.approx(result.mean_distance_calibrated / end)
    assert (headline.marks[0] < headline.reference[1]) is calibrated
