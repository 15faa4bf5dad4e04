"""The joint loss of a Newton pass, by trying every row of small lattices at many coefficients."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pytest
from scipy.special import expit

from spark_jobs.contract.options.fits import COEFFICIENT_STEPS, ROUNDING
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.k_norm import COARSEST
from spark_jobs.mechanisms.moment_matrix import GAUSSIAN, K_NORM, LAPLACE, Layout, box
from spark_jobs.mechanisms.newton_pass import MAX_COEFFICIENT, NewtonPass, noisy_pass, on_grid
from spark_jobs.mechanisms.noise import SeededNoise
from tests.mechanisms.test_moment_matrix import every_row
from tests.support.noises import Recording

LAYOUTS = [
    Layout(numbers=2, columns=(), outcome=False, steps=2),
    Layout(numbers=1, columns=(2,), outcome=False, steps=2),
    Layout(numbers=1, columns=(1, 3), outcome=False, steps=2),
    Layout(numbers=0, columns=(1, 1, 1), outcome=False, steps=4),
]
EVERY_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS, ids=str)
COST = Decimal("0.7")


@dataclass
class Sums:
    gradient: np.ndarray
    hessian: np.ndarray


def shares(layout, position):
    """What every possible row adds, for both labels: gradients and measured entries of the Hessian."""
    rows = every_row(layout)[1:]
    p = expit(rows @ position / (layout.steps * COEFFICIENT_STEPS))
    gradients, hessians = [], []
    for label in (0, 1):
        gradients.append(np.floor((label - p)[:, None] * rows * ROUNDING + 0.5))
        weighted = np.floor((p * (1 - p))[:, None] * rows * ROUNDING + 0.5)
        hessians.append((weighted[:, :, None] * rows[:, None, :])[:, layout.measured])
    return np.concatenate(gradients), np.concatenate(hessians)


def taken(layout, position, method, ratio, neighbours=Neighbours.ADD_REMOVE, noise=None):
    size = layout.size
    return noisy_pass(
        Sums(np.zeros(size, dtype=np.int64), np.zeros((size, size), dtype=np.int64)),
        position,
        layout=layout,
        cost=COST,
        method=method,
        hessian_ratio=ratio,
        neighbours=neighbours,
        noise=noise or SeededNoise(1),
    )


def loss(made, gradient, hessian):
    if made.method == K_NORM:
        shares = (
            np.abs(each).max(-1) / scale
            for each, scale in ((gradient, made.gradient_scale), (hessian, made.hessian_scale))
        )
        return sum(shares)
    if made.method == LAPLACE:
        return np.abs(gradient).sum(-1) / made.gradient_scale + np.abs(hessian).sum(-1) / made.hessian_scale
    first, second = (gradient**2).sum(-1) / made.gradient_scale**2, (hessian**2).sum(-1) / made.hessian_scale**2
    return (first + second) / 2


def positions(layout):
    random = np.random.default_rng(4)
    yield np.zeros(layout.size, dtype=np.int64)
    for size in (0.3, 2.0, 30.0):
        yield on_grid(size * random.normal(size=layout.size))


@EVERY_LAYOUT
@pytest.mark.parametrize("method", [K_NORM, LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("ratio", [0.25, 1.0, 3.0])
def test_no_row_loses_more_than_the_cost(layout, method, ratio):
    for position in positions(layout):
        gradients, hessians = shares(layout, position)
        made = taken(layout, position, method, ratio)
        assert loss(made, gradients, hessians).max() <= float(COST)
        twice = taken(layout, position, method, ratio, Neighbours.REPLACE_ONE)
        for place in range(0, len(gradients), max(len(gradients) // 5, 1)):
            apart = loss(twice, gradients - gradients[place], hessians - hessians[place])
            assert apart.max() <= float(COST)


@pytest.mark.parametrize("method", [K_NORM, LAPLACE, GAUSSIAN])
def test_a_row_can_lose_nearly_all_of_it(method):
    """On a lattice so fine that rounding does not matter, at the corners."""
    layout = Layout(numbers=2, columns=(), outcome=False, steps=4096)
    corners = np.array(list(itertools.product([4096], [-4096, 4096], [-4096, 4096])))
    for at in ([0.0, 0, 0], [0.0, 3, 3], [0.2, 0.4, 0.3]):
        position = on_grid(np.array(at))
        made = taken(layout, position, method, 1.0)
        p = expit(corners @ position / (4096 * COEFFICIENT_STEPS))
        worst = 0.0
        for label in (0, 1):
            gradient = (label - p)[:, None] * corners * ROUNDING
            hessian = ((p * (1 - p))[:, None, None] * ROUNDING * corners[:, :, None] * corners[:, None, :])[
                :, layout.measured
            ]
            worst = max(worst, loss(made, gradient, hessian).max())
        assert 0.75 * float(COST) < worst <= float(COST)


@pytest.mark.parametrize("cost", ["1e-10", "1e-8", "1"])
def test_radii_that_are_rounded_to_longer_steps_are_paid_for(cost):
    """The loss of rows at corners and inside, in whole steps of the radii that were drawn."""
    layout, recording = Layout(numbers=2, columns=(), outcome=False, steps=4096), Recording()
    position = on_grid(np.array([0.2, 0.4, 0.3]))
    noisy_pass(
        Sums(np.zeros(3, dtype=np.int64), np.zeros((3, 3), dtype=np.int64)),
        position,
        layout=layout,
        cost=Decimal(cost),
        method=K_NORM,
        hessian_ratio=1.0,
        neighbours=Neighbours.ADD_REMOVE,
        noise=recording,
    )
    bodies = []
    for asked in recording.asked:
        longer, factor = asked.body.within(Decimal(asked.epsilon.numerator) / asked.epsilon.denominator)
        bodies.append((factor, asked.epsilon / longer.unit))
    assert (bodies[1][0] > 1) == (cost != "1")
    worst = 0.0
    for first, second, label in itertools.product((-4096, -1111, 0, 4096), (-4096, 777, 4096), (0, 1)):
        row = np.array([4096, first, second])
        p = expit(row @ position / (4096 * COEFFICIENT_STEPS))
        gradient = np.floor((label - p) * row * ROUNDING + 0.5)
        hessian = np.floor(p * (1 - p) * row * ROUNDING + 0.5)[:, None] * row
        worst = max(
            worst,
            sum(
                math.ceil(int(np.abs(change).max()) / factor) * of_step
                for change, (factor, of_step) in zip((gradient, hessian), bodies, strict=True)
            ),
        )
    assert 0.9 * float(cost) < worst <= float(cost)


@pytest.mark.parametrize(("cost", "method"), [("1e-13", LAPLACE), ("1e-12", LAPLACE), ("1e-10", K_NORM), ("1", K_NORM)])
def test_a_pass_is_never_refused_for_its_cost(cost, method):
    """Noise was drawn before: where a part is too small for joint noise, the pass takes Laplace noise."""
    layout, recording = Layout(numbers=2, columns=(), outcome=False, steps=4096), Recording()
    made = noisy_pass(
        Sums(np.zeros(3, dtype=np.int64), np.zeros((3, 3), dtype=np.int64)),
        on_grid(np.array([0.2, 0.4, 0.3])),
        layout=layout,
        cost=Decimal(cost),
        method=K_NORM,
        hessian_ratio=1.0,
        neighbours=Neighbours.ADD_REMOVE,
        noise=recording,
    )
    assert made.method == method
    assert [asked.body is None for asked in recording.asked] == [method == LAPLACE] * 2
    smallest = box(4096 * ROUNDING, 3).smallest_epsilon
    assert any(asked.epsilon < smallest for asked in recording.asked) == (method == LAPLACE)


def test_steps_of_radii_are_paid_for_only_where_they_are_long():
    """At a usual cost radii have the steps of entries, and the whole of it goes into noise."""
    layout = Layout(numbers=2, columns=(), outcome=False, steps=4096)
    position = on_grid(np.array([0.2, 0.4, 0.3]))
    usual, long = (
        noisy_pass(
            Sums(np.zeros(3, dtype=np.int64), np.zeros((3, 3), dtype=np.int64)),
            position,
            layout=layout,
            cost=Decimal(cost),
            method=K_NORM,
            hessian_ratio=1.0,
            neighbours=Neighbours.ADD_REMOVE,
            noise=Recording(),
        )
        for cost in ("1", "1e-8")
    )
    ratio = long.gradient_scale * 1e-8 / usual.gradient_scale
    assert 1 + 1 / COARSEST < ratio < 1 + 3 / COARSEST


def test_noise_for_an_added_row_is_too_little_for_a_replaced_one():
    layout = Layout(numbers=1, columns=(), outcome=False, steps=4096)
    # a row whose label is changed, where either is as likely
    level = on_grid(np.array([0.0, 0.0]))
    for neighbours, within in ((Neighbours.ADD_REMOVE, False), (Neighbours.REPLACE_ONE, True)):
        made = taken(layout, level, LAPLACE, 0.01, neighbours)
        changed = 4096 * ROUNDING * np.array([1.0, 1.0])
        assert (loss(made, changed, np.zeros(2)) <= float(COST)) == within


def test_a_small_hessian_costs_nothing_where_a_row_can_be_surely_wrong():
    layout = LAYOUTS[0]
    far = on_grid(np.array([0.0, 30.0, 30.0]))
    alone, with_it = taken(layout, far, LAPLACE, 1e-9), taken(layout, far, LAPLACE, 0.2)
    assert with_it.gradient_scale == pytest.approx(alone.gradient_scale, rel=0.02)
    assert taken(layout, far, LAPLACE, 1.0).gradient_scale > 1.3 * alone.gradient_scale


def test_at_0_the_gradient_has_half_the_noise():
    layout = Layout(numbers=2, columns=(), outcome=False, steps=4096)
    start, far = np.zeros(3, dtype=np.int64), on_grid(np.array([0.0, 30.0, 30.0]))
    half, whole = (taken(layout, at, LAPLACE, 1e-9).gradient_scale for at in (start, far))
    assert half == pytest.approx(whole / 2, rel=1e-3)


@pytest.mark.parametrize("method", [K_NORM, LAPLACE, GAUSSIAN])
def test_noise_has_the_told_deviations(method):
    layout = LAYOUTS[1]
    made = [taken(layout, on_grid(np.ones(4)), method, 1.0, noise=SeededNoise(seed)) for seed in range(300)]
    told = made[0].stddevs(layout)
    gradients = np.array([each.slope(layout) for each in made])
    hessians = np.array([each.curvature(layout)[layout.measured] for each in made])
    copied = made[0].copies(300, layout, noise=SeededNoise(9))
    for found, copy, stddev in (
        (gradients, copied[0], told[0]),
        (hessians, copied[1][:, layout.measured], told[1]),
    ):
        assert found.std() == pytest.approx(stddev, rel=6 / np.sqrt(found.size / 3))
        assert copy.std() == pytest.approx(stddev, rel=6 / np.sqrt(found.size / 3))


def test_a_pass_survives_json_and_coefficients_are_bounded():
    made = taken(LAYOUTS[1], on_grid(np.array([1e9, -1e9, 0.3, np.inf])), LAPLACE, 1.0)
    assert np.abs(made.coefficients).max() == MAX_COEFFICIENT
    again = codec.decode(NewtonPass, json.loads(json.dumps(codec.encode(made))))
    assert codec.encode(again) == codec.encode(made)
