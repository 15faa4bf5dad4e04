import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.regression.moments import (
    _SPREAD,
    _TOGETHER,
    SUMS,
    NoisyMoments,
    body_of,
    noisy_moments,
    noisy_moments_zcdp,
)
from spark_jobs.papers.regression.gradient_descent import LATTICE, gradient_descent, gradient_descent_zcdp
from spark_jobs.papers.regression.noisy_stats import noisy_stats
from tests.support.noises import ApartNoise, Still, distance, worst_loss
from tests.support.points import neighbours_of, sums_of, tables
from tests.support.zcdp_loss import zcdp_loss

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
EVERY_RELATION = pytest.mark.parametrize("neighbours", [ADDED, REPLACED])
STEPS = 4


def pure(neighbours):
    def mechanism(sums, noise):
        noisy_moments(sums, epsilon="0.6", neighbours=neighbours, noise=noise)

    return mechanism


def gaussian(neighbours):
    def mechanism(sums, noise):
        noisy_moments_zcdp(sums, rho="0.2", neighbours=neighbours, noise=noise)

    return mechanism


def pairs(neighbours):
    for table in tables(STEPS, 1 if neighbours is REPLACED else 0):
        for other in neighbours_of(table, STEPS, neighbours):
            yield sums_of(table, STEPS), sums_of(other, STEPS)


@pytest.mark.slow
@EVERY_RELATION
def test_no_row_costs_more_than_epsilon_or_rho_and_some_row_all_of_it(neighbours):
    # sums are linear: what a row does to none it does to all
    for source in (SeededNoise(1), ApartNoise(1)):
        found = [worst_loss(pure(neighbours), *pair, source=source) for pair in pairs(neighbours)]
        assert float(max(found)) == pytest.approx(0.6, rel=1e-12)
        assert max(found) <= 0.6 * (1 + 1e-15)
    found = [zcdp_loss(gaussian(neighbours), *pair) for pair in pairs(neighbours)]
    assert 0.2 * (1 - 1e-9) < max(found) <= 0.2
    assert max(zcdp_loss(gaussian(neighbours), *pair, rho_factor=4) for pair in pairs(neighbours)) > 0.79


@pytest.mark.slow
def test_noise_for_an_added_row_is_not_enough_for_a_replaced_one():
    assert max(worst_loss(pure(ADDED), *pair) for pair in pairs(REPLACED)) > 1.19
    assert max(worst_loss(pure(ADDED), *pair, source=ApartNoise(1)) for pair in pairs(REPLACED)) > 0.65
    assert max(zcdp_loss(gaussian(ADDED), *pair) for pair in pairs(REPLACED)) > 0.35


def test_sums_about_the_corner_need_four_times_the_unit_and_those_about_the_middle_five_quarters():
    # of sum x x, in units of x: what a third of a budget buys against one release about the middle
    rows = np.array([(x, y, x * x, x * y) for x, y in product(np.linspace(0, 1, 9), repeat=2)])
    apart = np.abs(rows[:, None] - rows[None])
    assert apart.sum(axis=-1).max() == 4
    assert (apart**2).sum(axis=-1).max() == 4
    middle = noisy_moments(sums_of([(0, 0)], STEPS), epsilon=1, neighbours=REPLACED, noise=ApartNoise(1))
    assert middle.scale / 4 == pytest.approx(1.25, rel=1e-6)
    gaussian_ = noisy_moments_zcdp(sums_of([(0, 0)], STEPS), rho="0.5", neighbours=REPLACED, noise=SeededNoise(1))
    assert gaussian_.scale / 4 == pytest.approx(2**0.5 / 2, rel=1e-6)


@EVERY_RELATION
@given(points=st.lists(st.tuples(st.integers(0, 64), st.integers(0, 64)), min_size=2, max_size=40))
@settings(deadline=None, max_examples=30)
def test_without_noise_lines_are_those_of_noisy_stats(neighbours, points):
    sums, options = sums_of(points, 64), {"epsilon": "1e15", "neighbours": neighbours}
    other = noisy_stats(sums, **options, noise=SeededNoise(2))
    for noise, error in ((ApartNoise(2), 1e-6), (SeededNoise(2), 1e-5)):  # joint noise has a few steps at any epsilon
        ours = noisy_moments(sums, **options, noise=noise).lines()
        for name in ("covariance", "variance", "rows"):
            assert getattr(ours, name) == pytest.approx(getattr(other, name), rel=1e-5, abs=error)
        if other.variance[0] > 1e-2:
            for name in ("slope", "centre"):
                assert getattr(ours, name) == pytest.approx(getattr(other, name), rel=1e-4, abs=10 * error)


@pytest.mark.sampled("law")
@pytest.mark.slow
@EVERY_RELATION
@pytest.mark.parametrize("law", ["joint", "apart", "gaussian"])
def test_noise_has_the_stated_covariances_and_so_have_its_copies(law, neighbours):
    release, cost = (noisy_moments_zcdp, {"rho": "0.5"}) if law == "gaussian" else (noisy_moments, {"epsilon": "0.5"})
    table, source = [(0, 4), (1, 3), (4, 4)] * 3, ApartNoise(5) if law == "apart" else SecureNoise()
    noisy = release(sums_of(table, STEPS, copies=20_000), **cost, neighbours=neighbours, noise=source)
    assert noisy.joint == (law == "joint")
    stated = noisy.covariance
    first = 0 if neighbours is ADDED else 1
    assert (stated[0, 0] > 0) == (first == 0)
    sizes = np.sqrt(np.diag(stated)[first:])
    for drawn in (np.stack([getattr(noisy, name) for name in SUMS]), noisy.copies(20_000, noise=ApartNoise(6))):
        found = np.cov(drawn)
        assert np.sqrt(np.diag(found)[first:]) == pytest.approx(sizes, rel=0.03)
        assert found[first:, first:] / np.outer(sizes, sizes) == pytest.approx(
            stated[first:, first:] / np.outer(sizes, sizes), abs=0.04
        )
        assert first == 0 or not drawn[0].std()


@EVERY_RELATION
def test_noise_drawn_together_is_smaller_as_the_module_says(neighbours):
    sums = sums_of([(0, 0)], STEPS)
    joint, apart = (
        np.sqrt(np.diag(noisy_moments(sums, epsilon="0.5", neighbours=neighbours, noise=noise(1)).covariance))
        for noise in (SeededNoise, ApartNoise)
    )
    wanted = [0.48, 0.54, 0.42, 0.48] if neighbours is ADDED else [0.75, 0.84, 0.40, 0.75]
    assert joint[1:] / apart[1:] == pytest.approx(wanted, abs=0.006)


@EVERY_RELATION
def test_the_stated_variances_are_those_of_uniform_points_of_the_body(neighbours):
    body, random = body_of(64, neighbours), np.random.default_rng(3)
    reach, size = body.widths[0], len(body.widths)
    points = random.uniform(-reach, reach, (400_000, size))
    inside = np.all(np.abs(points @ np.array(body.forms).T) <= body.bounds, axis=1)
    found = np.cov(points[inside].T) / reach**2
    stated = np.diag(_SPREAD[neighbours][5 - size :])
    if neighbours is ADDED:
        stated[0, 3] = stated[3, 0] = _TOGETHER
    assert found == pytest.approx(stated, abs=0.003)


@EVERY_RELATION
@given(rows=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=2))
def test_no_row_leaves_the_body_and_corners_reach_its_surface(neighbours, rows):
    body = body_of(20, neighbours)
    finer, lattice = body.unit // 400, 400

    def features(x, y):
        a, b = 2 * x - 20, 2 * y - 20
        return finer * np.array([lattice, 20 * a, 20 * b, 2 * a * a - lattice, a * b], dtype=object)

    first, second = (features(*row) for row in rows)
    changes = [first] if neighbours is ADDED else [(first - second)[1:], (features(20, 20) - first)[1:]]
    assert all(distance(body, change) <= 1 for change in changes)
    corner = features(20, 20) if neighbours is ADDED else (features(20, 20) - features(20, 0))[1:]
    assert distance(body, corner) == 1


@EVERY_RELATION
def test_first_order_scales_describe_the_noise_of_lines_where_rows_are_many(neighbours):
    table = [(0, 0), (1, 1), (4, 3), (3, 3), (2, 0)] * 100
    lines = noisy_moments_zcdp(
        sums_of(table, STEPS, copies=2000), rho="0.5", neighbours=neighbours, noise=SecureNoise()
    ).lines()
    assert np.std(lines.variance) == pytest.approx(np.median(lines.variance_scale), rel=0.08)
    assert np.std(lines.covariance) == pytest.approx(np.median(lines.covariance_scale), rel=0.05)
    # for a slope that is known: that of all copies
    fixed = 500 * (lines.centre - np.mean(lines.centre))
    assert np.std(fixed) < 3 * np.median(lines.centre_scale)


@EVERY_RELATION
@pytest.mark.parametrize("table", [[], [(1, 2)], [(1, 0), (1, 4)], [(2, 2)] * 5])
def test_any_table_gives_finite_lines_of_one_shape(table, neighbours):
    noisy = noisy_moments(sums_of(table, STEPS, copies=200), epsilon=1, neighbours=neighbours, noise=SecureNoise())
    found = noisy.lines().predict([0.25, 0.75])
    assert found.shape == (200, 2)
    assert np.isfinite(found).all()
    again = codec.decode(NoisyMoments, json.loads(json.dumps(codec.encode(noisy))))
    assert np.array_equal(again.lines().predict([0.25, 0.75]), found)
    assert again.scale == noisy.scale


def descent(points, release=gradient_descent, *, noise, neighbours=REPLACED, copies=1, steps=STEPS, **options):
    x, y = np.tile(np.array(points, dtype=np.int64).reshape(-1, 2), (copies, 1)).T
    group = np.repeat(np.arange(copies), x.size // copies)
    counts = np.ones(x.size, dtype=np.int64)
    return release(group, x, y, counts, groups=copies, steps=steps, neighbours=neighbours, noise=noise, **options)


@pytest.mark.sampled("neighbours")
@pytest.mark.slow
@EVERY_RELATION
@pytest.mark.parametrize("iterations", [1, 3])
def test_no_path_of_gradients_costs_more_than_epsilon_or_rho(neighbours, iterations):
    def by_laplace(table, noise):
        descent(table, noise=noise, neighbours=neighbours, iterations=iterations, epsilon="0.6", clip=0.25)

    def by_gauss(table, noise):
        options = {"neighbours": neighbours, "iterations": iterations, "rho": "0.2", "clip": 0.25}
        descent(table, gradient_descent_zcdp, noise=noise, **options)

    steps = STEPS
    near = [(table, other) for table in tables(steps, 1) for other in neighbours_of(table, steps, neighbours)]
    found = max(worst_loss(by_laplace, *pair) for pair in near)
    assert 0.95 * 0.6 < found <= 0.6 * (1 + 1e-12)
    assert 0.9 * 0.2 < max(zcdp_loss(by_gauss, *pair) for pair in near) <= 0.2
    if neighbours is ADDED:
        replaced = [(table, other) for table in tables(steps, 1) for other in neighbours_of(table, steps, REPLACED)]
        assert max(worst_loss(by_laplace, *pair) for pair in replaced) > 0.9 * 1.2


def test_a_gradient_is_that_of_the_sum_of_squares():
    still, points = Still(), [(0, 4), (1, 0), (3, 2), (2, 4)]
    descent(points, noise=still, epsilon=1, iterations=1, clip=100.0)
    x, y = np.array(points).T / STEPS

    def loss(p, q):
        return ((2 * p * (0.75 - x) + 2 * q * (x - 0.25) - y) ** 2).sum()

    step = 1e-6
    numeric = [
        (loss(0.5 + step, 0.5) - loss(0.5 - step, 0.5)) / (2 * step),
        (loss(0.5, 0.5 + step) - loss(0.5, 0.5 - step)) / (2 * step),
    ]
    assert still.seen[0][:, 0] * 100 / LATTICE == pytest.approx(numeric, abs=1e-3)


def test_descent_finds_the_line_and_one_release_of_moments_beats_eighty_gradients():
    rng, rows, copies = np.random.default_rng(4), 300, 100
    x = rng.uniform(0.2, 0.8, rows)
    y = np.clip(0.1 + 0.2 * x + 0.1 * rng.normal(size=rows), 0, 1)
    points = np.rint(np.stack([x, y]).T * 1000).astype(int)
    options = {"copies": copies, "steps": 1000, "noise": SeededNoise(5)}
    own = options | {"copies": 1}
    exact = descent(points, epsilon="1e9", iterations=400, clip=1.0, **own).predict([0.25, 0.75])
    sums = sums_of(points, 1000, copies=copies)
    slope, height = np.polyfit(points[:, 0] / 1000, points[:, 1] / 1000, 1)
    wanted = height + slope * np.array([0.25, 0.75])
    assert exact[0] == pytest.approx(wanted, abs=0.02)

    def error(lines):
        return np.mean(np.abs(lines.predict([0.25, 0.75]) - wanted))

    moments = noisy_moments(sums, epsilon=1, neighbours=REPLACED, noise=SeededNoise(6)).lines()
    paths = {count: error(descent(points, epsilon=1, iterations=count, **options)) for count in (20, 80)}
    # a gradient has a T-th of the budget: more of them are worse; eighty are what is published
    assert paths[80] > 1.3 * paths[20]
    assert error(moments) < 0.6 * paths[80]


def test_groups_descend_side_by_side():
    points = {0: [(0, 0), (4, 4)], 2: [(0, 4), (4, 0), (2, 2)]}
    flat = [(group, *point) for group in points for point in points[group]]
    group, x, y = np.array(flat[::-1]).T
    counts = np.ones(len(flat), dtype=np.int64)
    options = {"groups": 3, "steps": STEPS, "epsilon": "1e9", "neighbours": ADDED, "iterations": 300}
    together = gradient_descent(group, x, y, counts, noise=SeededNoise(1), **options).predict([0.25, 0.75])
    assert together[0] == pytest.approx([0.25, 0.75], abs=0.02)
    assert together[2] == pytest.approx([0.75, 0.25], abs=0.02)
    assert np.isfinite(together[1]).all()


def test_parameters_that_do_not_fit_are_told():
    for options, match in (({"iterations": 0}, "iterations"), ({"clip": 0.0}, "clip")):
        with pytest.raises(ValueError, match=match):
            descent([(0, 0)], noise=SeededNoise(1), epsilon=1, **options)
