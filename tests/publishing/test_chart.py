from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from spark_jobs.contract.figure import Ends
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import along, chart, draw_bands, draw_curve, legend_in, share_ticks
from tests.support.pictures import drawn

X = np.array([0.0, 1.0])


def painted(axes: Axes) -> None:
    share_ticks(axes, margin=0.01)
    draw_bands(axes, X, {"of all": Ends(X / 3, X), "of each": Ends(X / 2, X)}, 0.9)
    draw_curve(axes, X, X, label="released")


def plotted(paint=painted, **changes):
    texts = {"name": "n", "title": "Title", "description": "d", "lines": ("a line",), "legend": legend_in()}
    return chart(paint, **{**texts, **changes})


def test_a_chart_that_stands_alone_has_its_heading_and_a_legend_of_what_is_drawn() -> None:
    words = [text.get_text() for text in drawn(plotted(heading="Heading"), alone=True)[1]]
    assert {"Heading", "a line", "released", "90\xa0% band of all", "90\xa0% band of each"} <= {*words}
    assert "Title" not in words
    in_report = {text.get_text() for text in drawn(plotted(), alone=False)[1]}
    assert not in_report & {"Title", "a line", "released"}


def test_a_chart_without_anything_that_is_named_has_no_legend() -> None:
    figure, _ = drawn(plotted(lambda axes: figures.draw_undefined(axes, "too few rows")), alone=True)
    assert figure.axes[0].get_legend() is None


def test_an_outer_band_is_lighter_than_the_one_on_top_of_it() -> None:
    outer, inner = drawn(plotted(), alone=False)[0].axes[0].collections
    assert 0 < outer.get_alpha() < inner.get_alpha()


@pytest.mark.parametrize(("value", "place"), [(2.0, 0.0), (3.0, 0.5), (9.0, 1.0), (-1.0, 0.0)])
def test_places_on_an_axis_lie_within_it(value: float, place: float) -> None:
    assert along(value, (2.0, 4.0)) == place
