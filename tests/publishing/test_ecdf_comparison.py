"""The data file, picture and section of a distribution function that is held against an earlier release."""

from __future__ import annotations

import io
import json
import re
from html import unescape

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_operators.release_check import broken_rules
from spark_jobs.contract.options import EarlierFunction
from spark_jobs.diagnostics import ecdf
from spark_jobs.diagnostics.ecdf import Ecdf
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support import publications as made
from tests.support.earlier import AMOUNTS, released
from tests.support.pictures import drawn

KEY = "payments/march/1"


def held(found: Ecdf) -> EarlierFunction:
    return EarlierFunction.of(found.to_dict(), found.cdf.tolist(), released_by=KEY)


@pytest.fixture(scope="module")
def march() -> EarlierFunction:
    return held(released(noise=SeededNoise(1)))


@pytest.fixture(scope="module")
def april(march: EarlierFunction) -> Ecdf:
    return released(mean=44.0, seed=2, noise=SeededNoise(2), compare_with=march)


def request(march: EarlierFunction) -> object:
    return made.request(diagnostics=[{**AMOUNTS, "compare_with": march.model_dump(mode="json")}])


def test_the_data_file_holds_both_functions_and_what_is_between_them(march: EarlierFunction, april: Ecdf) -> None:
    release, files = made.publish({"ecdf": april}, facts=made.facts(request=request(march)))
    table = pq.read_table(io.BytesIO(files["ecdf.parquet"]))
    column = table["earlier_cdf"].to_numpy()
    assert april.comparison is not None
    np.testing.assert_array_equal(column, april.comparison.cdf)
    judged = april.comparison.distance
    assert np.abs(table["cdf"].to_numpy() - column).max() == pytest.approx(judged.value, abs=1e-8)
    meaning = table.schema.field("earlier_cdf").metadata[b"description"].decode()
    assert f"with p-value {judged.p_value:g}" in meaning
    told = json.loads(release.to_json())["results"]["ecdf"]["comparison"]
    assert told == {"released_by": KEY, "named": "amount", "status": "ok", "distance": judged.to_dict()}
    back = ecdf.Ecdf.from_release(
        release.results["ecdf"], {name: table[name].to_numpy() for name in table.column_names}
    )
    assert back.comparison is not None
    assert back.comparison.distance == judged


def test_both_functions_and_the_gap_are_drawn(march: EarlierFunction, april: Ecdf) -> None:
    (plot,) = made.render("ecdf", april, request(march)).plots
    figure, _ = drawn(plot, alone=True)
    (axes,) = figure.axes
    lines = {str(line.get_label()): line for line in axes.lines}
    assert {"earlier release", "released fractions"} <= set(lines)
    (gap,) = (each for each in axes.collections if each.get_label() == "largest gap")
    (segment,) = gap.get_segments()
    assert april.comparison is not None
    assert abs(segment[1][1] - segment[0][1]) == pytest.approx(april.comparison.distance.value, abs=1e-8)
    assert axes.get_xlabel() == "amount"
    assert all(len(probe.lines) == 3 and probe.lines[2].startswith("earlier ") for probe in plot.probes)
    assert "an earlier release" in plot.description


def test_the_section_says_how_far_apart_and_how_sure(march: EarlierFunction, april: Ecdf) -> None:
    section = made.render("ecdf", april, request(march)).section
    values = {measure.label: measure.value for measure in section.measures}
    assert april.comparison is not None
    assert values["Distance to the earlier release"] == f"{april.comparison.distance.value:.3f}"
    assert values["Test of a change"].startswith("p\N{NO-BREAK SPACE}")
    assert any(KEY in note for note in section.notes)
    assert section.table is not None
    assert section.table.header[-1] == "Earlier release"
    medians = [row for row in section.table.rows if row[0].startswith("50")]
    assert float(medians[0][-1]) == pytest.approx(float(april.earlier_quantile(0.5)), abs=1e-3)


def test_a_release_that_tells_nothing_has_the_same_form(march: EarlierFunction, april: Ecdf) -> None:
    empty = released(rows=0, seed=2, noise=SeededNoise(11), compare_with=march)
    ours, theirs = (made.render("ecdf", each, request(march)) for each in (april, empty))
    assert list(ours.columns) == list(theirs.columns)
    assert [m.label for m in ours.section.measures] == [m.label for m in theirs.section.measures]
    assert ours.section.table is not None
    assert theirs.section.table is not None
    assert ours.section.table.header == theirs.section.table.header
    assert {len(row) for row in theirs.section.table.rows} == {4}


def test_releases_meet_their_contract_and_broken_comparisons_do_not(april: Ecdf) -> None:
    result = json.loads(json.dumps(april.to_dict()))
    assert broken_rules("ecdf", result) == []
    distance = result["comparison"]["distance"]
    for change in ({"p_value": 1.5}, {"value": -0.1}, {"interval": [0.9, 0.95]}, {"interval": [0.0, 0.0]}):
        broken = {**result, "comparison": {**result["comparison"], "distance": {**distance, **change}}}
        assert broken_rules("ecdf", broken), change


def test_the_report_names_the_column_as_text(march: EarlierFunction) -> None:
    plain = released(noise=SeededNoise(1))
    page = made.publish({"ecdf": plain}, facts=made.facts(request=made.request(diagnostics=[AMOUNTS], title=None)))[1]
    assert '<h1 dir="auto">Distribution of amount</h1>' in page["report.html"].decode()
    hostile = held(plain).model_copy(update={"released_by": made.HOSTILE, "named": made.HOSTILE})
    found = released(noise=SeededNoise(2), compare_with=hostile)
    text = made.publish({"ecdf": found}, facts=made.facts(request=request(march)))[1]["report.html"].decode()
    assert "<script>" not in text
    assert "alert(1)" in unescape(re.sub(r"<[^>]+>", " ", text)), "it is shown, as text"
