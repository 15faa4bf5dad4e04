from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.text import Text

from spark_jobs.contract.figure import Ends
from spark_jobs.diagnostics.roc_curve import page
from spark_jobs.publishing import figures
from tests.support import publications as made
from tests.support.pictures import drawn


def rendering(curve=None):
    return page.render(curve or made.curve(), made.request())


@pytest.mark.slow
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("curve", [made.curve(), made.undefined_curve()], ids=["ok", "undefined"])
def test_every_text_lies_within_the_picture(curve, alone):
    (plot,) = rendering(curve).plots
    assert len(drawn(plot, alone=alone)[1]) > 12


def test_probes_lie_on_the_curve_and_within_the_axes():
    curve = made.curve()
    (plot,) = rendering(curve).plots
    assert len(plot.probes) == 51
    with figures.fixed_settings():
        figure = plot.draw(False)
        (axes,) = figure.axes
        (line,) = (line for line in axes.lines if line.get_label() == "released curve")
        drawn = axes.transAxes.inverted().transform(axes.transData.transform(np.column_stack(line.get_data())))
        np.testing.assert_allclose(axes.get_position().bounds, plot.axes)
    for probe in plot.probes:
        assert np.abs(drawn - [probe.x, probe.y]).sum(axis=1).min() < 1e-9
        assert 0 <= probe.low <= probe.y <= probe.high <= 1


@pytest.mark.parametrize("fpr", page.READ_AT)
def test_table_reads_the_best_released_point_within_the_bound(fpr):
    curve = made.curve()
    table = rendering(curve).section.table
    row = table.rows[page.READ_AT.index(fpr)]
    best = curve.tpr.value[curve.fpr <= fpr].max()
    assert row[2].startswith(f"{100 * best:.1f}")


@pytest.mark.parametrize(("width", "printed"), [(0.05, "0.688"), (0.002, "0.6875")])
def test_area_is_printed_to_what_its_interval_can_tell(width, printed):
    headline = rendering(made.curve(width=width)).section.headline
    assert headline.value == printed
    assert all(len(end) == len(printed) for end in headline.interval.split("interval ")[1].split(" to "))


def test_vertical_steps_are_read_at_their_top():
    curve = made.curve(points=5)
    steps = replace(
        curve,
        fpr=np.array([0.0, 0.0, 0.2, 0.2, 1.0]),
        tpr=replace(curve.tpr, value=np.array([0.0, 0.3, 0.3, 0.7, 1.0])),
    )
    rows = {row[0]: row for row in rendering(steps).section.table.rows}
    assert rows["at most 1 %"][2].startswith("30.0")
    assert rows["at most 20 %"][2].startswith("70.0")


@pytest.mark.parametrize("curve", [made.undefined_curve(), made.broken_curve()], ids=["undefined", "broken"])
def test_undefined_curve_says_so_and_invents_nothing(curve):
    section = rendering(curve).section
    assert section.notice
    assert section.headline.value == "undefined"
    assert section.headline.marks is None
    assert {cell for row in section.table.rows for cell in row[1:]} == {"–"}
    assert [len(row) for row in section.table.rows] == [len(row) for row in rendering().section.table.rows]


def test_noisy_sizes_are_never_negative():
    positives, _ = (measure.value for measure in rendering(made.broken_curve()).section.measures)
    assert positives == "≈\N{NO-BREAK SPACE}0"


def test_texts_are_set_in_the_font_that_comes_with_the_library():
    (plot,) = rendering().plots
    with figures.fixed_settings():
        figure = plot.draw(True)
        figures.svg_bytes(figure, title="", description="")
    fonts = {text.get_fontproperties().get_file() for text in figure.findobj(Text) if text.get_text()}
    assert {Path(font).name for font in fonts} == {"DejaVuSans.ttf", "DejaVuSans-Bold.ttf"}
    assert all(Path(font).is_relative_to(mpl.get_data_path()) for font in fonts)


def test_a_curve_of_many_points_is_drawn_from_few_and_kept_whole():
    many = made.curve(points=65537)
    whole = rendering(many)
    assert all(len(column.values) == 65537 for column in whole.columns.values())
    (plot,) = whole.plots
    with figures.fixed_settings():
        (line,) = (line for line in plot.draw(True).axes[0].lines if line.get_label() == "released curve")
    fpr, tpr = line.get_data()
    assert len(fpr) < 2000
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert np.abs(np.interp(many.fpr, fpr, tpr) - many.tpr.value).max() < 1e-5


def test_a_step_keeps_its_corners():
    fpr = np.concatenate([np.zeros(3000), np.linspace(0, 1, 3000)])
    tpr = np.concatenate([np.linspace(0, 1, 3000), np.ones(3000)])
    curve = made.curve(points=6000)
    step = replace(curve, fpr=fpr, tpr=replace(curve.tpr, value=tpr, interval=Ends(tpr, tpr)))
    (plot,) = rendering(step).plots
    with figures.fixed_settings():
        (line,) = (line for line in plot.draw(True).axes[0].lines if line.get_label() == "released curve")
    assert np.abs(np.column_stack(line.get_data()) - [0, 1]).sum(axis=1).min() < 2 / 1500
