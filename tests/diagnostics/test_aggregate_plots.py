"""The pictures of a table: each cell that there is room for, at a scale that shows how strong cells differ."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.diagnostics import aggregates
from spark_jobs.diagnostics.aggregates.plots import MAX_WHISKERS, picture
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing import figures
from spark_jobs.publishing.theme import light
from spark_jobs.statistics import AggregateSums

REGIONS = [f"r{place}" for place in range(6)]
AGES = [0, 20, 40, 60, 80]
PAY = {"of": "pay", "bounds": [-50, 50]}


def released(by, rows=6000):
    random = np.random.default_rng(4)
    columns = {
        "region": random.choice(REGIONS, rows),
        "age": random.integers(0, 80, rows),
        "pay": random.normal(0, 20, rows) + 5,
    }
    sums = AggregateSums.from_arrays(columns, by=by, measures=[PAY])
    return aggregates.release(sums, epsilon=2, noise=SeededNoise(1))


def drawn(table, numbers, alone=False):
    plot = picture(table, numbers, "Pay", "aggregates", table.confidence)
    return plot, plot.draw(alone)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


BY_REGION = {"column": "region", "values": REGIONS}
BY_AGE = {"column": "age", "edges": AGES}


def test_a_table_of_two_dimensions_shows_every_cell_with_its_number():
    table = released([BY_REGION, BY_AGE])
    plot, figure = drawn(table, table.count)
    written = np.array(texts(figure)).reshape(7, 5)
    assert table.cells == written.size
    full = np.array(table.status).reshape(7, 5) == OK
    assert full[:6, :4].all()
    assert not full[6].any()
    numbers = np.array([float(text.replace(",", "")) for text in written.flat])
    assert np.abs(numbers - table.count.value).max() < 0.5
    assert f"{table.cells} cells" in plot.description


def test_shading_orders_cells_by_their_values_and_separates_signs():
    table = released([BY_REGION, BY_AGE])
    mean = table.of("mean", "pay").values
    _, figure = drawn(table, mean)
    depth = np.zeros((7, 5))
    hues = set()
    for patch in figure.axes[0].patches:
        hues.add(patch.get_facecolor()[:3])
        for corner in patch.get_path().vertices[::5]:
            depth[int(corner[1]), int(corner[0])] = patch.get_alpha()
    values = mean.value.reshape(7, 5)
    full = np.isfinite(values)
    assert (depth[~full] == 0).all()
    order = np.argsort(values[full])
    assert (np.diff(depth[full][order]) >= 0).all() or len(hues) == 2
    shifted = type(mean)(value=mean.value - 5, interval=mean.interval)
    _, both = drawn(table, shifted)
    colours = {tuple(np.round(patch.get_facecolor()[:3], 2)) for patch in both.axes[0].patches}
    assert len(colours) == 2


def test_numbers_are_left_out_where_columns_have_no_room_for_them():
    table = released([BY_REGION, {"column": "age", "edges": list(range(0, 81, 2))}])
    _, figure = drawn(table, table.count)
    assert texts(figure) == []
    assert len(figure.axes[0].get_xticklabels()) < 41


def test_one_long_dimension_is_drawn_side_by_side_and_a_short_one_in_rows():
    table = released([{"column": "age", "edges": list(range(0, 81, 2))}])
    assert table.cells > MAX_WHISKERS
    _, figure = drawn(table, table.count)
    points = sorted(float(x) for line in figure.axes[0].lines for x in line.get_xdata())
    assert points == list(range(table.cells))
    short = released([BY_REGION])
    _, figure = drawn(short, short.count)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [*REGIONS, "other"]


@pytest.mark.parametrize("by", [[BY_REGION], [{"column": "age", "edges": list(range(0, 81, 2))}]])
def test_an_interval_that_says_nothing_does_not_set_the_scale(by):
    table = released(by)
    mean = table.of("mean", "pay").values
    (weak,) = [place for place, status in enumerate(table.status) if status == WEAK]
    assert mean.ends().upper[weak] - mean.ends().lower[weak] > 40
    _, figure = drawn(table, mean)
    axes = figure.axes[0]
    ends = axes.get_xlim() if len(table.status) <= MAX_WHISKERS else axes.get_ylim()
    assert abs(ends[1] - ends[0]) < 30


def test_a_table_without_rows_is_drawn_too():
    for by in ([BY_REGION], [BY_REGION, BY_AGE], [{"column": "age", "edges": list(range(0, 81, 2))}]):
        table = released(by, rows=0)
        for numbers in (table.count, table.of("mean", "pay").values):
            plot, figure = drawn(table, numbers, alone=True)
            svg = figures.svg_bytes(figure, title=plot.title, description=plot.description)
            assert (light("curve").encode() in svg) == (OK in table.status)
