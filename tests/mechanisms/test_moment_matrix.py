"""The sensitivity of noisy sums of products, by trying every row of small lattices, and what is released of them."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.moment_matrix import GAUSSIAN, K_NORM, LAPLACE, Layout, NoisyProducts, noisy_products
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, laplace_variance

LAYOUTS = [
    Layout(numbers=1, columns=(), outcome=True, steps=4),
    Layout(numbers=2, columns=(), outcome=True, steps=3),
    Layout(numbers=4, columns=(), outcome=True, steps=1),
    Layout(numbers=3, columns=(), outcome=False, steps=2),
    Layout(numbers=1, columns=(2,), outcome=True, steps=3),
    Layout(numbers=1, columns=(1, 2), outcome=False, steps=2),
    Layout(numbers=1, columns=(1, 1), outcome=True, steps=2),
    Layout(numbers=0, columns=(1, 1, 1, 1), outcome=True, steps=1),
    Layout(numbers=1, columns=(2, 2), outcome=True, steps=1),
    Layout(numbers=0, columns=(2, 1, 2), outcome=True, steps=1),
    Layout(numbers=0, columns=(1, 1, 1), outcome=False, steps=2),
    Layout(numbers=0, columns=(3,), outcome=False, steps=2),
]
EVERY_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def every_row(layout):
    """All rows that a layout allows, and none: shape (rows, size)."""
    line = np.arange(-layout.steps, layout.steps + 1)
    levels = [
        layout.steps * np.array([[-1], [1]]) if k == 1 else [np.zeros(k, int), *(layout.steps * np.eye(k, dtype=int))]
        for k in layout.columns
    ]
    rows = [
        np.concatenate([[layout.steps], numbers, *chosen, end]).astype(int)
        for numbers in itertools.product(line, repeat=layout.numbers)
        for chosen in itertools.product(*levels)
        for end in (line[:, None] if layout.outcome else [[]])
    ]
    return np.array([np.zeros(layout.size, int), *rows])


def changes(layout, neighbours):
    """Of the measured entries: the 1-norm and the 2-norm of every change that a row can make."""
    rows = every_row(layout)
    products = (rows[:, :, None] * rows[:, None, :])[:, layout.measured]
    if neighbours is Neighbours.ADD_REMOVE:
        return np.abs(products).sum(axis=1), np.sqrt((products**2).sum(axis=1))
    apart = [products - one for one in products]
    sizes = [np.abs(each).sum(axis=1).max() for each in apart]
    return np.array(sizes), np.array([np.sqrt((each**2).sum(axis=1)).max() for each in apart])


@EVERY_LAYOUT
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_row_changes_more_than_the_sensitivity(layout, neighbours):
    first, second = changes(layout, neighbours)
    assert first.max() <= layout.l1_sensitivity(neighbours)
    assert second.max() <= layout.l2_sensitivity(neighbours) * (1 + 1e-15)


@EVERY_LAYOUT
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_row_leaves_the_box_and_some_row_reaches_its_side(layout, neighbours):
    rows, body = every_row(layout), layout.body(neighbours)
    products = (rows[:, :, None] * rows[:, None, :])[:, layout.measured]
    others = products[:1] if neighbours is Neighbours.ADD_REMOVE else products  # the first row is none
    largest = max(np.abs(products - one).max() for one in others)
    assert len(body.widths) == products.shape[1]
    assert set(body.widths) == {1}
    assert largest <= body.unit
    if neighbours is Neighbours.ADD_REMOVE or layout.numbers + layout.outcome:
        assert largest == body.unit


@EVERY_LAYOUT
def test_a_row_added_can_change_all_of_it(layout):
    first, second = changes(layout, Neighbours.ADD_REMOVE)
    assert first.max() == layout.l1_sensitivity(Neighbours.ADD_REMOVE)
    assert second.max() == pytest.approx(layout.l2_sensitivity(Neighbours.ADD_REMOVE), rel=1e-12)


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if not each.parts[1]], ids=str)
def test_a_row_replaced_can_change_nearly_all_of_it(layout):
    first, second = changes(layout, Neighbours.REPLACE_ONE)
    whole = layout.l1_sensitivity(Neighbours.REPLACE_ONE)
    assert whole <= layout.l1_sensitivity(Neighbours.ADD_REMOVE) + layout.steps**2 * max(layout.signs - 1, 0) / 2
    assert first.max() >= 0.9 * whole
    q = sum(layout.parts)
    # half of the corners flipped; an odd number has no half
    attained = q if q % 2 == 0 else np.sqrt(q**2 - 1)
    assert second.max() >= layout.steps**2 * attained * (1 - 1e-12)


def test_a_column_of_two_levels_costs_like_a_number_and_tells_twice_as_much():
    number = Layout(numbers=4, columns=(), outcome=True, steps=1)
    sign = Layout(numbers=3, columns=(1,), outcome=True, steps=1)
    for neighbours in Neighbours:
        assert sign.l1_sensitivity(neighbours) <= number.l1_sensitivity(neighbours)
        assert sign.l2_sensitivity(neighbours) <= number.l2_sensitivity(neighbours)
    three = Layout(numbers=3, columns=(2,), outcome=True, steps=1)
    assert sign.l1_sensitivity(Neighbours.REPLACE_ONE) <= 0.8 * three.l1_sensitivity(Neighbours.REPLACE_ONE)


@EVERY_LAYOUT
def test_what_is_not_measured_follows_from_what_is(layout):
    rows = every_row(layout)[1:]
    rows = rows[np.random.default_rng(1).integers(len(rows), size=40)]
    whole = rows.T @ rows
    assert layout.filled(whole[layout.measured].astype(float)).tolist() == whole.tolist()


def test_columns_of_levels_cost_like_one_number_each():
    plain = Layout(numbers=3, columns=(), outcome=True, steps=1)
    many = Layout(numbers=2, columns=(40,), outcome=True, steps=1)
    assert many.size == 44
    # but for a square
    assert many.l1_sensitivity(Neighbours.ADD_REMOVE) == plain.l1_sensitivity(Neighbours.ADD_REMOVE) - 1


def exact(layout, rows=200):
    chosen = every_row(layout)
    chosen = chosen[np.random.default_rng(2).integers(len(chosen), size=rows)]
    return chosen.T @ chosen


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("method", [K_NORM, LAPLACE, GAUSSIAN])
def test_noise_has_the_told_deviation(method, neighbours):
    layout = LAYOUTS[5]
    table = exact(layout)
    made = [
        noisy_products(
            table,
            layout=layout,
            meter=BudgetMeter("0.5", "1e-6"),
            neighbours=neighbours,
            noise=SeededNoise(seed),
            method=method,
        )
        for seed in range(400)
    ]
    errors = np.array([one.matrix - table / layout.steps**2 for one in made])[:, layout.measured]
    count = errors.size
    count = count / 3 if method == K_NORM else count  # a large radius makes all entries large
    assert errors.std() == pytest.approx(made[0].stddev, rel=5 / np.sqrt(count / 3))
    copies = made[0].copies(400, noise=SeededNoise(9))[:, layout.measured]
    assert copies.std() == pytest.approx(made[0].stddev, rel=5 / np.sqrt(count / 3))


def test_the_meter_pays_for_everything_once():
    layout = LAYOUTS[1]
    meter = BudgetMeter("0.7", "1e-6")
    noisy_products(
        exact(layout),
        layout=layout,
        meter=meter,
        neighbours=Neighbours.ADD_REMOVE,
        noise=SeededNoise(1),
        method=LAPLACE,
    )
    assert (meter.spent.epsilon, meter.spent.delta) == (meter.granted.epsilon, 0)
    meter = BudgetMeter("0.7", "1e-6")
    noisy_products(
        exact(layout),
        layout=layout,
        meter=meter,
        neighbours=Neighbours.ADD_REMOVE,
        noise=SeededNoise(1),
        method=GAUSSIAN,
    )
    assert meter.spent == meter.granted


def test_auto_draws_noise_together_where_delta_buys_nothing():
    layout = Layout(numbers=2, columns=(), outcome=True, steps=4)
    made = noisy_products(
        np.zeros((layout.size, layout.size), dtype=np.int64),
        layout=layout,
        meter=BudgetMeter("1e-6", "1e-29"),
        neighbours=Neighbours.ADD_REMOVE,
        noise=SeededNoise(1),
        method="auto",
    )
    assert made.method == K_NORM


@pytest.mark.parametrize(
    ("numbers", "columns", "delta", "wanted"),
    [
        (30, (), "1e-6", GAUSSIAN),
        (30, (), 0, K_NORM),
        (1, (), "1e-6", K_NORM),
        (7, (), "1e-6", K_NORM),
        (1, (40, 40), 0, LAPLACE),  # of many levels one at a time is not 0
    ],
)
def test_auto_takes_the_smallest_noise(numbers, columns, delta, wanted):
    layout = Layout(numbers=numbers, columns=columns, outcome=True, steps=4096)
    zeros = np.zeros((layout.size, layout.size), dtype=np.int64)
    made = {
        method: noisy_products(
            zeros,
            layout=layout,
            meter=BudgetMeter(1, delta),
            neighbours=Neighbours.ADD_REMOVE,
            noise=SeededNoise(1),
            method=method,
        )
        for method in ("auto", K_NORM, LAPLACE, *([GAUSSIAN] if delta else []))
    }
    assert made["auto"].method == wanted
    assert made["auto"].stddev == min(one.stddev for one in made.values())


def test_gaussian_noise_without_delta_is_refused():
    with pytest.raises(InvalidRequest, match="delta"):
        noisy_products(
            exact(LAYOUTS[0]),
            layout=LAYOUTS[0],
            meter=BudgetMeter(1),
            neighbours=Neighbours.ADD_REMOVE,
            noise=SeededNoise(1),
            method=GAUSSIAN,
        )


def test_a_release_survives_json_and_noise_is_secure_by_scale():
    layout = LAYOUTS[4]
    made = noisy_products(
        exact(layout),
        layout=layout,
        meter=BudgetMeter(2),
        neighbours=Neighbours.REPLACE_ONE,
        noise=SecureNoise(),
    )
    again = codec.decode(NoisyProducts, json.loads(json.dumps(codec.encode(made))))
    assert again.matrix.tolist() == made.matrix.tolist()
    assert again.layout == layout
    assert again.scale == made.scale == layout.l1_sensitivity(Neighbours.REPLACE_ONE) / 2
    assert made.stddev == pytest.approx(np.sqrt(laplace_variance(made.scale)) / layout.steps**2)
