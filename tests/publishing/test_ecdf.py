"""The picture, table and section of a distribution function, from real releases of small tables."""

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_operators.release_check import broken_rules
from spark_jobs.contract.options import ReferenceDistribution
from spark_jobs.diagnostics import ecdf
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing.value_axis import ValueAxis, number
from spark_jobs.statistics import ScoreCounts, ValueCounts
from tests.support import publications as made
from tests.support.pictures import assert_no_ticks_collide, drawn

NORMAL = ReferenceDistribution(distribution="normal", parameters=(40.0, 12.0))


def released(kind="values", rows=4000, *, epsilon="1", **options):
    random = np.random.default_rng(3)
    noise = SeededNoise(1)
    match kind:
        case "values":
            statistic = ValueCounts.from_arrays(random.normal(40, 12, rows), lower=0, upper=120, cells=1024)
        case "log":
            values = np.where(random.random(rows) < 0.2, 0.0, random.lognormal(6, 2, rows))
            statistic = ValueCounts.from_arrays(values, lower=0, upper=1e6, cells=1024, scale="log")
        case "found":
            wide = {"lower": -(2.0**44), "upper": 2.0**44, "scale": "log", "unit": 2.0**-20, "cells": 2**17}
            statistic = ValueCounts.from_arrays(random.lognormal(6, 2, rows), **wide)
            options["find_bounds"] = "log"
        case "scores":
            statistic = ScoreCounts.from_arrays(random.integers(0, 2, rows), random.beta(1, 5, rows), cells=1024)
    named = None if kind == "scores" else "amount"
    return ecdf.release(statistic, epsilon=epsilon, noise=noise, named=named, points=128, **options)


KINDS = ("values", "log", "found", "scores")


def test_flat_parts_are_not_said_to_be_empty():
    """Through the noise, a curve is flat where there are rows."""
    statistic = ValueCounts.from_arrays(np.repeat([20.0, 60.0, 100.0], [2000, 20, 2000]), lower=0, upper=120, cells=64)
    found = ecdf.release(statistic, epsilon="0.1", noise=SeededNoise(3), named="amount", points=128)
    assert found.evaluate(58.0) == found.evaluate(62.5)
    page = " ".join(rendering(found).section.reading)
    assert "where it is flat there are none" not in page
    assert "where it is flat there are few or none: the noise hides which" in page


EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
REQUEST = made.request(diagnostics=[{"kind": "ecdf"}])


def rendering(found, request=REQUEST):
    return made.render("ecdf", found, request)


@pytest.mark.sampled
@pytest.mark.halved
@pytest.mark.slow
@EVERY_KIND
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("rows", [4000, 150, 0], ids=["ok", "few", "undefined"])
def test_every_text_lies_within_the_picture_and_no_ticks_collide(kind, rows, alone):
    (plot,) = rendering(released(kind, rows)).plots
    figure, texts = drawn(plot, alone=alone)
    assert len(texts) > 8
    assert len([tick for tick in figure.axes[0].get_xticklabels() if tick.get_text()]) >= 2
    assert_no_ticks_collide(figure)


@EVERY_KIND
def test_probes_lie_on_the_line(kind):
    found = released(kind)
    (plot,) = rendering(found).plots
    figure, _ = drawn(plot, alone=False)
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.get_position().bounds, plot.axes)
    line = next(line for line in axes.lines if line.get_label() == "released fractions")
    places = axes.transAxes.inverted().transform(axes.transData.transform(np.column_stack(line.get_data())))
    for probe in plot.probes:
        assert np.abs(places[:, 1] - probe.y).min() < 2e-3
        assert 0 <= probe.low <= probe.y <= probe.high <= 1
    assert [probe.x for probe in plot.probes] == sorted(probe.x for probe in plot.probes)


@EVERY_KIND
@pytest.mark.parametrize("rows", [4000, 0])
def test_data_files_tables_and_texts_have_one_form(kind, rows):
    found = rendering(released(kind, rows))
    reference = rendering(released(kind, 700))
    assert list(found.columns) == ["value", "cdf", "lower", "upper", "lower_everywhere", "upper_everywhere"]
    assert {len(column.values) for column in found.columns.values()} == {len(reference.columns["cdf"].values)}
    assert len(found.section.table.rows) == len(reference.section.table.rows) == 7
    assert [measure.label for measure in found.section.measures] == [m.label for m in reference.section.measures]


def test_undefined_results_say_so_and_invent_nothing():
    section = rendering(released("values", 0)).section
    assert section.notice
    assert section.headline.value == "undefined"
    assert section.headline.marks is None
    assert {cell for row in section.table.rows for cell in row[1:]} == {"–"}


@pytest.mark.slow
@EVERY_KIND
def test_releases_meet_their_contract_and_broken_ones_do_not(kind):
    for rows in (0, 4000):
        result = json.loads(json.dumps(released(kind, rows, reference=NORMAL).to_dict()))
        assert broken_rules("ecdf", result) == []
        assert broken_rules("ecdf", result | {"status": "undefined"}) == (
            [] if rows == 0 else ["ecdf: every figure of an undefined result is null"]
        )
    changes = {
        "cdf": result["cdf"][::-1],
        "values": result["values"][::-1],
        "lower": [1.0] * len(result["lower"]),
        "quantiles": [{"level": 0.5, "value": 3.0, "interval": [4.0, 5.0]}],
        "rows": float("inf"),
        "distance": {"value": 0.2, "interval": [0.1, 0.3], "p_value": 1.4, "confidence": 0.9},
    }
    for name, value in changes.items():
        assert broken_rules("ecdf", result | {name: value}), name


@pytest.mark.slow
def test_a_published_data_file_is_read_back():
    found = released("found")
    release, files = made.publish({"ecdf": found}, facts=made.facts(request=REQUEST))
    assert {"ecdf.parquet", "ecdf.svg", "ecdf.png", "report.html"} <= {file.name for file in release.files}
    table = pq.read_table(io.BytesIO(files["ecdf.parquet"]))
    again = ecdf.Ecdf.from_release(
        release.results["ecdf"], {name: table[name].to_numpy() for name in table.column_names}
    )
    assert ecdf.distance_between(found, again).value == 0
    assert files == made.publish({"ecdf": found}, facts=made.facts(request=REQUEST))[1]


def test_a_reference_is_drawn_and_judged():
    request = made.request(diagnostics=[{"kind": "ecdf", "reference": NORMAL.model_dump(mode="json")}])
    found = rendering(released(reference=NORMAL), request)
    figure, _ = drawn(found.plots[0], alone=True)
    (line,) = (line for line in figure.axes[0].lines if line.get_label() == "reference (normal)")
    heights = line.get_ydata()
    assert heights[0] < 0.02
    assert heights[-1] > 0.98
    labels = {measure.label: measure.value for measure in found.section.measures}
    assert labels["Kolmogorov-Smirnov test"].startswith("p\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def test_a_column_is_named_as_text_and_not_as_markup():
    found = replace(released(), named=made.HOSTILE)
    page = made.publish({"ecdf": found}, facts=made.facts(request=REQUEST))[1]["report.html"].decode()
    assert "<script>" not in page
    assert "<img src=x" not in page


def test_axes_show_where_the_rows_are():
    edges = np.linspace(0, 1000, 1001)
    cdf = np.clip((edges[1:] - 100) / 50, 0, 1)
    axis = ValueAxis.around(edges, cdf, logarithmic=False)
    assert 80 < axis.first < 100
    assert 150 < axis.last < 170
    assert ValueAxis.around(edges, cdf, logarithmic=False, shown=[20.0, 700.0]).last > 700
    places, texts = axis.ticks()
    assert len(places) == len(texts) >= 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (12, "12"), (1234.5, "1,234.5"), (-0.25, "-0.25"), (1_000_000, "1,000,000"),
        (1e7, "10⁷"), (-1e7, "-10⁷"), (2.5e9, "2.5×10⁹"), (0.0001, "0.0001"), (0.00002, "2×10⁻⁵"),
        (100, "100"), (20000, "20,000"), (123456.7, "123,457"), (float("nan"), "–"), (float("inf"), "–"),
    ],
)  # fmt: skip
def test_numbers_are_printed_short(value, text):
    assert number(value) == text
