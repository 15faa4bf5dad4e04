import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.regression.lines import LATTICE, Draws, NoisyLines, centred_lines
from spark_jobs.mechanisms.regression.noisy_intercept import noisy_intercept
from spark_jobs.mechanisms.regression.sums import GroupSums
from spark_jobs.papers.regression.noisy_stats import RHO_SHARES, SHARES, noisy_stats, noisy_stats_zcdp
from tests.support.noises import Recording, Still, worst_loss
from tests.support.points import neighbours_of, sums_of, tables
from tests.support.zcdp_loss import zcdp_loss

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
EVERY_RELATION = pytest.mark.parametrize("neighbours", [ADDED, REPLACED])
STEPS = 2
EPSILON = Fraction("0.6")


def moments(table):
    """Exact ``sum (x - mean)(y - mean)`` and ``sum (x - mean)^2`` in the unit box, from the rows."""
    if not table:
        return Fraction(0), Fraction(0)
    x, y = ([Fraction(row[axis], STEPS) for row in table] for axis in (0, 1))
    middle = [sum(values) / len(values) for values in (x, y)]
    pairs = [(one - middle[0], other - middle[1]) for one, other in zip(x, y, strict=True)]
    return sum(one * other for one, other in pairs), sum(one * one for one, _ in pairs)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_a_replaced_row_moves_both_sums_by_one_less_a_part_and_both_at_once(rows):
    worst = [Fraction(0)] * 3
    for table in tables(STEPS, rows):
        for other in neighbours_of(table, STEPS, REPLACED):
            moves = [abs(one - two) for one, two in zip(moments(table), moments(other), strict=True)]
            worst = [max(pair) for pair in zip(worst, [*moves, sum(moves)], strict=True)]
    assert worst == [1 - Fraction(1, rows)] * 2 + [2 - Fraction(2, rows)]


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_a_row_more_moves_each_sum_by_less_than_one(rows):
    worst = Fraction(0)
    for table in tables(STEPS, rows):
        for other in neighbours_of(table, STEPS, ADDED):
            worst = max([worst, *(abs(a - b) for a, b in zip(moments(table), moments(other), strict=True))])
    assert worst == Fraction(rows, rows + 1)


def stats(neighbours, **options):
    def mechanism(sums, noise):
        noisy_stats(sums, epsilon=str(float(EPSILON)), neighbours=neighbours, noise=noise, **options)

    return mechanism


def intercept(neighbours):
    def mechanism(sums, noise):
        noisy_intercept(sums, epsilon=str(float(EPSILON)), neighbours=neighbours, noise=noise)

    return mechanism


def losses(mechanism, neighbours, rows):
    found = []
    for table in tables(STEPS, rows):
        for other in neighbours_of(table, STEPS, neighbours):
            pair = sums_of(table, STEPS), sums_of(other, STEPS)
            found.append(worst_loss(mechanism, *pair))
    return found


@pytest.mark.slow
@EVERY_RELATION
@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.sampled
def test_no_row_costs_more_than_epsilon_and_some_row_nearly_all_of_it(neighbours, rows):
    found = losses(stats(neighbours), neighbours, rows)
    assert max(found) <= EPSILON
    # with few rows a row more moves the sums by 2/3 or 3/4, not by 1
    assert max(found) > (Fraction("0.97") if neighbours is REPLACED else Fraction("0.7")) * EPSILON


def test_noise_for_an_added_row_is_not_enough_for_a_replaced_one():
    pair = [sums_of([row] + [(0, 0)] * 20, STEPS) for row in ((0, 0), (2, 2))]
    found = [worst_loss(stats(ADDED), *pair, source=SeededNoise(seed)) for seed in range(40)]
    assert max(found) > Fraction("1.05") * EPSILON
    assert max(worst_loss(stats(REPLACED), *pair, source=SeededNoise(seed)) for seed in range(40)) <= EPSILON


def heights(table, covariance, variance, neighbours):
    """What is asked of the noise for the height over the middle, in lattice steps."""
    still = Still()
    along, across = (np.array([number], dtype=object) for number in (covariance, variance))
    draws = Draws(total=1, shares=("1",), gaussian=False, noise=still)
    centred_lines(sums_of(table, STEPS), along, across, np.ones(1), draws, 0, neighbours)
    assert still.asked[0][1] == LATTICE
    return int(still.seen[0][0])


@pytest.mark.sampled("covariance", "neighbours")
@pytest.mark.slow
@EVERY_RELATION
@pytest.mark.parametrize(("covariance", "variance"), [(0, 1), (5, 3), (-7, 2), (10**30, 3), (-1, 10**9)])
def test_the_height_of_a_line_moves_by_one_sensitivity_and_no_more(covariance, variance, neighbours):
    # 1 + |slope| where a row is replaced, half of it where one is added, is what the lattice is made of
    moves = [
        abs(heights(table, covariance, variance, neighbours) - heights(other, covariance, variance, neighbours))
        for table in tables(STEPS, 2)
        for other in neighbours_of(table, STEPS, neighbours)
    ]
    assert max(moves) == LATTICE


@pytest.mark.sampled
@pytest.mark.slow
@EVERY_RELATION
def test_gaussian_noise_costs_rho_and_half_of_it_is_told(neighbours):
    def mechanism(sums, noise):
        noisy_stats_zcdp(sums, rho="0.2", neighbours=neighbours, noise=noise)

    pairs = [(table, other) for table in tables(STEPS, 2) for other in neighbours_of(table, STEPS, neighbours)]
    found = [zcdp_loss(mechanism, *(sums_of(one, STEPS) for one in pair)) for pair in pairs]
    assert max(found) <= 0.2
    assert max(found) > (0.19 if neighbours is REPLACED else 0.08)
    halved = [zcdp_loss(mechanism, *(sums_of(one, STEPS) for one in pair), rho_factor=4) for pair in pairs]
    assert max(halved) > 0.3


@pytest.mark.sampled
@pytest.mark.slow
@EVERY_RELATION
def test_an_intercept_costs_epsilon(neighbours):
    found = losses(intercept(neighbours), neighbours, 2)
    assert max(found) == EPSILON if neighbours is REPLACED else Fraction("0.99") * EPSILON < max(found) <= EPSILON
    assert max(losses(intercept(ADDED), REPLACED, 2)) > EPSILON


@EVERY_RELATION
def test_groups_cost_together_what_one_does(neighbours):
    tables_of = {"one": [(0, 0), (2, 2), (1, 0)], "other": [(0, 0), (2, 2), (1, 2)]}
    if neighbours is ADDED:
        tables_of["other"] = [(0, 0), (2, 2), (1, 0), (2, 2)]

    def together(name):
        own, rest = tables_of[name], [(1, 1), (2, 0)]
        x, y = np.array([*own, *rest]).T
        group = [1] * len(own) + [0, 2]
        return GroupSums.from_cells(group, x, y, np.ones(len(group), int), groups=4, steps=STEPS)

    assert worst_loss(stats(neighbours), together("one"), together("other")) <= EPSILON


POINTS = st.lists(st.tuples(st.integers(0, 64), st.integers(0, 64)), min_size=2, max_size=40)


@EVERY_RELATION
@given(points=POINTS)
@settings(deadline=None, max_examples=40)
def test_without_noise_a_line_is_that_of_least_squares(neighbours, points):
    noise = SeededNoise(1)
    x, y = np.array(points).T / 64
    spread = ((x - x.mean()) ** 2).sum()
    ours = [noisy_stats(sums_of(points, 64), epsilon="1e12", neighbours=neighbours, noise=noise)]
    ours.append(noisy_stats_zcdp(sums_of(points, 64), rho="1e16", neighbours=neighbours, noise=noise))
    for line in ours:
        if spread > 0.01:
            slope, intercept_ = np.polyfit(x, y, 1)
            assert line.slope[0] == pytest.approx(slope, abs=1e-3)
            assert line.predict([0.25, 0.75])[0] == pytest.approx(
                np.clip(intercept_ + slope * np.array([0.25, 0.75]), 0, 1), abs=1e-3
            )
    flat = noisy_intercept(sums_of(points, 64), epsilon="1e12", neighbours=neighbours, noise=noise)
    assert flat.predict([0.1, 0.9])[0] == pytest.approx([y.mean()] * 2, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [("0.34", "0.33", "0.33"), SHARES[REPLACED]])
def test_noise_has_the_stated_scales_and_not_one_over_epsilon(shares):
    """Published text says "standard deviation approximately 1 / epsilon"; with a third each it is 4.24 times that."""
    rows, copies = 10, 20_000
    table = sums_of([(0, 0), (2, 2)] * (rows // 2), STEPS, copies=copies)
    lines = noisy_stats(table, epsilon=1, neighbours=REPLACED, noise=SecureNoise(), shares=shares)
    part = 1 - 1 / rows
    assert lines.covariance_scale[0] == pytest.approx(part / float(shares[0]), rel=1e-6)
    assert np.std(lines.covariance) == pytest.approx(np.sqrt(2) * part / float(shares[0]), rel=0.03)
    assert np.std(lines.variance) == pytest.approx(np.sqrt(2) * part / float(shares[1]), rel=0.03)
    if shares[0] == "0.34":
        assert np.std(lines.covariance) > 3.5
    error = (lines.centre - 0.5) * rows / lines.centre_scale
    assert np.std(error) == pytest.approx(np.sqrt(2), rel=0.03)


@pytest.mark.slow
def test_gaussian_noise_has_the_stated_scales():
    table = sums_of([(0, 0), (2, 2)] * 5, STEPS, copies=20_000)
    lines = noisy_stats_zcdp(table, rho="0.5", neighbours=ADDED, noise=SecureNoise())
    assert lines.gaussian
    for noisy, scale in (("covariance", "covariance_scale"), ("variance", "variance_scale"), ("rows", "rows_scale")):
        assert np.std(getattr(lines, noisy)) == pytest.approx(getattr(lines, scale)[0], rel=0.03)
    share = float(RHO_SHARES[ADDED][0])
    assert lines.covariance_scale[0] == pytest.approx(np.sqrt(2 / (2 * 0.5 * share)), rel=1e-6)


DEGENERATE = {
    "nobody": [],
    "one row": [(1, 2)],
    "one x": [(1, 0), (1, 2), (1, 1)],
    "one place": [(2, 2)] * 5,
}


@EVERY_RELATION
@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("epsilon", ["1e-6", "1", "1e9"])
def test_any_table_gives_finite_lines_of_one_shape(name, neighbours, epsilon):
    table = sums_of(DEGENERATE[name], STEPS, copies=50)
    for release in (noisy_stats, noisy_intercept):
        lines = release(table, epsilon=epsilon, neighbours=neighbours, noise=SecureNoise())
        found = lines.predict([0.25, 0.75])
        assert found.shape == (50, 2)
        assert np.isfinite(found).all()
        assert ((found >= 0) & (found <= 1)).all()
        again = codec.decode(NoisyLines, json.loads(json.dumps(codec.encode(lines))))
        assert np.array_equal(again.predict([0.25, 0.75]), found)
        assert codec.encode(again) == codec.encode(lines)


def test_no_slope_is_told_where_the_noisy_variance_is_not_above_zero():
    table = sums_of([(1, 2)] * 4, STEPS, copies=2000)
    lines = noisy_stats(table, epsilon=8, neighbours=REPLACED, noise=SecureNoise())
    assert 0.4 < lines.failed.mean() < 0.6
    assert np.array_equal(lines.failed, lines.variance <= 0)
    assert (lines.slope[lines.failed] == 0).all()
    # the last part of the budget then tells the mean of y, which is 1
    assert np.median(lines.centre[lines.failed]) == pytest.approx(1, abs=0.05)


def test_one_call_of_noise_serves_groups_of_all_sizes_each_at_its_own_scale():
    sizes = np.array([1, 2, 3, 30, 10**6])
    nothing = GroupSums(steps=2, rows=sizes, x=0 * sizes, y=0 * sizes, xx=0 * sizes, xy=0 * sizes)
    recording = Recording()
    lines = noisy_stats(nothing, epsilon=1, neighbours=REPLACED, noise=recording)
    assert len(recording.asked) == 3
    assert lines.covariance_scale[1:] == pytest.approx((1 - 1 / sizes[1:]) / float(SHARES[REPLACED][0]), rel=1e-6)


def test_sums_of_many_rows_do_not_overflow():
    steps, rows = 1 << 20, 2**40
    sums = GroupSums.from_cells([0, 0], [0, steps], [0, steps], [rows, rows], groups=1, steps=steps)
    assert sums.variation[0] == (2 * rows) * rows * steps**2 - (rows * steps) ** 2
    lines = noisy_stats(sums, epsilon=1, neighbours=ADDED, noise=SecureNoise())
    assert np.isfinite(lines.predict([0.25])).all()


@pytest.mark.parametrize(
    ("fields", "match"),
    [({"steps": 3}, "steps"), ({"x": [1, 2]}, "x: got shape"), ({"steps": 1 << 21}, "steps")],
)
def test_sums_that_do_not_fit_are_told(fields, match):
    whole = {name: [1] for name in ("rows", "x", "y", "xx", "xy")}
    with pytest.raises(ValueError, match=match):
        GroupSums(**({"steps": 2} | whole | fields))
    with pytest.raises(TypeError, match="whole numbers"):
        GroupSums(**({"steps": 2} | whole | {"xy": [0.5]}))


def test_costs_and_shares_that_do_not_fit_are_told():
    table = sums_of([(0, 0)], STEPS)
    with pytest.raises(InvalidRequest, match="epsilon"):
        noisy_stats(table, epsilon=0, neighbours=ADDED, noise=SeededNoise(1))
    with pytest.raises(InvalidRequest, match="rho"):
        noisy_stats_zcdp(table, rho=-1, neighbours=ADDED, noise=SeededNoise(1))
    for shares in (("0.5", "0.5"), ("0.5", "0.4", "0.05", "0.06"), ("1", "0", "0", "0")):
        with pytest.raises(ValueError, match="shares"):
            noisy_stats(table, epsilon=1, neighbours=ADDED, noise=SeededNoise(1), shares=shares)
