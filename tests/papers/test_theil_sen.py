import math
from collections import Counter
from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest
from scipy.stats import theilslopes

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.continuous_noise import Density
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.selection import median_intervals
from spark_jobs.mechanisms.smooth_sensitivity import pairwise_median_bound
from spark_jobs.papers.regression.matchings import matched, random_order, rounds_of
from spark_jobs.papers.regression.theil_sen import STEPS, Median, pair_estimates, theil_sen
from tests.support.flawed.pairs import (
    circle_without_an_empty_place,
    middle_of_estimates,
    smooth_bound_without_the_last_window,
    widened_scores_from_the_middle,
)
from tests.support.points import neighbours_of, tables
from tests.support.selection_loss import exponential_probabilities, log_ratio

REPLACED = Neighbours.REPLACE_ONE
GRID = 2


def rounds(rows, count):
    """The pairs of each matching: those of as many rounds, less those of one fewer."""
    upto = [
        Counter(
            tuple(sorted(pair))
            for ends in matched(rows, made)
            for pair in zip(*(end.tolist() for end in ends), strict=True)
        )
        for made in range(count + 1)
    ]
    return [list((after - before).elements()) for before, after in pairwise(upto)]


@pytest.mark.parametrize("rows", range(10))
def test_matchings_are_edge_disjoint_and_all_of_them_are_all_pairs(rows):
    count = rounds_of(rows, None)
    assert count == (0 if rows < 2 else rows - 1 + rows % 2)
    made = rounds(rows, count)
    for pairs in made:
        assert len(pairs) == rows // 2
        assert len({end for pair in pairs for end in pair}) == 2 * len(pairs)
    assert sorted(pair for pairs in made for pair in pairs) == list(combinations(range(rows), 2))


@pytest.mark.parametrize("rows", [5, 7, 9])
def test_the_published_circle_repeats_pairs_of_an_odd_number_of_rows(rows):
    made = Counter(tuple(sorted(pair)) for pairs in circle_without_an_empty_place(rows) for pair in pairs)
    assert max(made.values()) > 1
    # of an even number it does not
    even = Counter(tuple(sorted(pair)) for pairs in circle_without_an_empty_place(rows + 1) for pair in pairs)
    assert max(even.values()) == 1
    ours = Counter(pair for pairs in rounds(rows, rows) for pair in pairs)
    assert max(ours.values()) == 1


@pytest.mark.verify
@pytest.mark.slow
def test_matchings_made_in_pieces_are_the_same():
    ends = np.sort(np.concatenate([np.stack(ends) for ends in matched(2001, 2001)], axis=1), axis=0)
    assert np.unique(ends[0] * 2001 + ends[1]).size == 2001 * 1000 == ends.shape[1]


def test_orders_are_uniform():
    noise = SeededNoise(1)
    seen = Counter(tuple(random_order(4, noise).tolist()) for _ in range(24_000))
    assert len(seen) == 24
    assert sum((count - 1000) ** 2 / 1000 for count in seen.values()) < 60  # chi-squared, 23 degrees: 3e-5
    assert random_order(0, noise).size == 0


def estimates(table, usable=None, *, order=None, count=None, at=(0.5,)):
    points = np.array(table, dtype=np.int64).reshape(-1, 2)
    kept = np.ones(len(points), bool) if usable is None else np.array(usable, bool)
    order = np.arange(len(points)) if order is None else np.array(order)
    return pair_estimates(
        points[order, 0],
        points[order, 1],
        kept[order],
        steps=GRID,
        at=at,
        rounds=rounds_of(len(points), count),
        lower=-0.5,
        upper=1.5,
    )


def changed(one, other):
    """Values to take out of one and to put in, and so how many are added, removed or replaced."""
    left, right = Counter(one.tolist()), Counter(other.tolist())
    return max(sum((left - right).values()), sum((right - left).values()))


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, None])
def test_a_replaced_row_changes_no_more_estimates_than_there_are_matchings(rows, count):
    worst = 0
    for table in list(tables(GRID, rows))[:: (rows - 1) ** 2]:
        for other in neighbours_of(table, GRID, REPLACED):
            for order in list(permutations(range(rows)))[:3]:
                one, two = (estimates(t, order=order, count=count)[0] for t in (table, other))
                worst = max(worst, changed(one, two))
    assert worst == min(rounds_of(rows, count), rows - 1)


def test_a_row_that_becomes_unusable_keeps_its_place():
    rng = np.random.default_rng(3)
    for rows, count in product((5, 6), (1, 2, 4)):
        for _ in range(50):
            table = rng.integers(0, GRID + 1, (rows, 2))
            kept = rng.random(rows) < 0.8
            other = kept.copy()
            other[rng.integers(rows)] ^= True
            order = rng.permutation(rows)
            one, two = (estimates(table, use, order=order, count=count)[0] for use in (kept, other))
            assert changed(one, two) <= count


def test_rows_sorted_and_paired_in_a_fixed_order_move_many_estimates():
    """Counted cells, expanded in the order of the cells: a row that moves to the front shifts all after it."""
    table = [(at % 3, (at * 2) % 3) for at in range(12)]
    other = sorted([*sorted(table)[:-1], (0, 0)])
    assert changed(estimates(sorted(table), count=1)[0], estimates(other, count=1)[0]) > 1


def law(table, method, epsilon, *, sensitivity, widen=0):
    """The exact law of ``Median.EXPONENTIAL`` or ``WIDE`` over all pairs, on stretches between all tables' values."""
    values = estimates(table)[0]
    scores, lengths = median_intervals(values, steps=STEPS, widen=widen if method is Median.WIDE else 0)
    options = {"epsilon": epsilon, "sensitivity": sensitivity, "monotone": False}
    chances = exponential_probabilities(scores, lengths, **options)
    ends = np.cumsum(lengths)
    return {int(end): chance / int(size) for end, chance, size in zip(ends, chances, lengths, strict=True) if size}


def densities(one, other):
    """Two laws on common stretches: the chance of one point in each."""
    cuts = sorted({*one, *other})

    def at(law_, cut):
        return law_[min(end for end in law_ if end >= cut)]

    return [at(one, cut) for cut in cuts], [at(other, cut) for cut in cuts]


def worst_law(method, sensitivity, *, widen=5000, rows=3):
    worst = 0.0
    for table in tables(GRID, rows):
        for other in neighbours_of(table, GRID, REPLACED):
            laws = [law(t, method, 1.0, sensitivity=sensitivity, widen=widen) for t in (table, other)]
            worst = max(worst, log_ratio(*densities(*laws)))
    return worst


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("method", [Median.EXPONENTIAL, Median.WIDE])
def test_the_exact_loss_over_all_small_neighbours_stays_within_epsilon(method):
    # 2 values of 3 may change, the score by 2 for each; N varies, as pairs of one x give none
    assert 0.3 < worst_law(method, 4) <= 1.0 + 1e-9


@pytest.mark.parametrize("method", [Median.EXPONENTIAL, Median.WIDE])
def test_weights_for_added_estimates_lose_twice_as_much(method):
    """Estimates that are replaced move the score by 2: at ``epsilon / k`` instead of ``epsilon / (2 k)``."""
    far = [(0, 0)] * 3 + [(2, 2)] * 3, [(0, 0)] * 3 + [(2, 2)] * 2 + [(2, 0)]
    ours, halved = ([law(t, method, 1.0, sensitivity=s) for t in far] for s in (10, 5))
    assert log_ratio(*densities(*ours)) <= 1
    assert log_ratio(*densities(*halved)) > 1.5 * log_ratio(*densities(*ours))


def test_widened_scores_counted_from_the_middle_move_twice_as_far():
    one, other = [5], []
    flawed = [widened_scores_from_the_middle(values) for values in (one, other)]
    # beyond the value's reach, where nothing but N has changed
    assert abs(flawed[0][0] - flawed[1][0]) == 2
    ours = [median_intervals(values, steps=20, widen=2)[0] for values in (one, other)]
    assert abs(int(ours[0][0]) - int(ours[1][0])) == 1


def lower_median(values, empty):
    ordered = sorted(values)
    return ordered[(len(ordered) + 1) // 2 - 1] if ordered else empty


@pytest.mark.sampled("count")
@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, 3, 4])
@pytest.mark.parametrize("count", [1, None])
def test_the_smooth_bound_is_valid_and_smooth_over_all_small_neighbours(rows, count):
    smoothness, changes = 0.4, min(rounds_of(rows, count), rows - 1)
    options = {"lower": 0, "upper": STEPS - 1, "changes": changes, "smoothness": smoothness}
    known = {}

    def place(table):
        values = tuple(sorted(estimates(table, count=count)[0].tolist()))
        if values not in known:
            known[values] = lower_median(values, (STEPS - 1) / 2), pairwise_median_bound(values, **options)
        return known[values]

    sizes = set()
    for table in list(tables(GRID, rows))[:: 1 if rows < 4 else 3]:
        sizes.add(estimates(table, count=count)[0].size)
        for other in neighbours_of(table, GRID, REPLACED):
            (one, bound), (two, again) = place(table), place(other)
            assert abs(one - two) <= min(bound, again)
            assert max(bound, again) <= math.exp(smoothness) * min(bound, again) * (1 + 1e-12)
    assert min(sizes) == 0 < max(sizes)


def test_without_the_last_window_the_bound_moves_by_twice_the_rate():
    smoothness, flawed, ours = 0.3, 0.0, 0.0
    options = {"lower": 0, "upper": 64, "changes": 1, "smoothness": smoothness}
    for values in product((0, 1, 64), repeat=5):
        for new in (0, 1, 64):
            pair = values, (*values[:4], new)
            for at, bound in enumerate((smooth_bound_without_the_last_window, pairwise_median_bound)):
                bounds = [bound(each, **options) for each in pair]
                moved = abs(math.log(bounds[0] / bounds[1])) if min(bounds) > 0 else 0.0
                flawed, ours = (max(flawed, moved), ours) if at == 0 else (flawed, max(ours, moved))
    assert ours <= smoothness * (1 + 1e-12)
    assert flawed > 1.9 * smoothness


def test_the_mean_of_the_two_middle_estimates_moves_beyond_the_bound():
    one, other = [35] * 4 + [100] * 2, [35] * 3 + [100] * 3
    bound = min(pairwise_median_bound(z, lower=0, upper=100, changes=1, smoothness=1.0) for z in (one, other))
    assert abs(np.median(one) - np.median(other)) > bound
    assert abs(lower_median(one, 50) - lower_median(other, 50)) <= bound


EMPTY = {"nobody": [], "one row": [(1, 1)], "one x": [(1, 0), (1, 2), (1, 1), (1, 1)]}


@pytest.mark.slow
@pytest.mark.parametrize("name", EMPTY)
def test_where_published_code_fails_ours_answers_with_noise_alone(name):
    with pytest.raises(ZeroDivisionError):
        middle_of_estimates(EMPTY[name])
    x, y = np.array(EMPTY[name], dtype=np.int64).reshape(-1, 2).T
    options = {"steps": GRID, "epsilon": 1, "neighbours": REPLACED, "at": (0.5,)}
    for method in Median:
        noise = SeededNoise(5)
        found = np.array([theil_sen(x, y, method=method, noise=noise, **options)[0] for _ in range(600)])
        assert found.min() >= -0.5
        assert found.max() <= 1.5
        assert abs(found.mean() - 0.5) < 0.15
        if method is not Median.SMOOTH:
            # uniform on the range
            assert np.histogram(found, bins=4, range=(-0.5, 1.5))[0].min() > 100


def rows_of(count, seed=1, steps=1000):
    rng = np.random.default_rng(seed)
    x = rng.random(count)
    y = np.clip(0.2 + 0.5 * x + 0.1 * rng.normal(size=count), 0, 1)
    return np.rint(x * steps).astype(int), np.rint(y * steps).astype(int)


def test_a_large_budget_gives_the_median_over_all_pairs_and_the_line_of_theil_sen():
    x, y = rows_of(201)
    at = (0.25, 0.75)
    wanted = []
    for place in at:
        pairs = [(i, j) for i, j in combinations(range(x.size), 2) if x[i] != x[j]]
        z = [y[i] + (y[j] - y[i]) / (x[j] - x[i]) * (place * 1000 - x[i]) for i, j in pairs]
        wanted.append(np.median(z) / 1000)
    for method, tolerance in ((Median.EXPONENTIAL, 2e-4), (Median.WIDE, 0.011), (Median.SMOOTH, 0.01)):
        options = {"steps": 1000, "epsilon": "1e9", "neighbours": REPLACED, "noise": SecureNoise()}
        found = theil_sen(x, y, method=method, matchings=None, at=at, **options)
        assert found == pytest.approx(wanted, abs=tolerance)
    slope = theilslopes(y, x).slope
    assert (wanted[1] - wanted[0]) * 2 == pytest.approx(slope, abs=0.02)


@pytest.mark.parametrize("method", list(Median))
def test_more_budget_means_less_error(method):
    x, y = rows_of(400)
    errors = []
    for epsilon in ("0.1", "1", "8"):
        noise = SeededNoise(7)
        options = {"steps": 1000, "epsilon": epsilon, "neighbours": REPLACED, "noise": noise, "method": method}
        found = np.array([theil_sen(x, y, widen=0.001, **options) for _ in range(40)])
        errors.append(np.abs(found - [0.325, 0.575]).mean())
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("density", [Density.POLYNOMIAL, Density.CAUCHY, Density.STUDENT_T])
def test_every_density_releases_points_of_the_public_grid(density):
    x, y = rows_of(60)
    found = theil_sen(
        x,
        y,
        steps=1000,
        epsilon=2,
        neighbours=REPLACED,
        noise=SecureNoise(),
        method="smooth",
        density=density,
        lower=0.0,
        upper=1.0,
        at=(0.0, 0.5, 1.0),
    )
    assert found.shape == (3,)
    assert np.array_equal(found * 2**30, np.rint(found * 2**30))


def test_the_order_of_rows_is_drawn_from_secret_bits_and_changes():
    x, y = rows_of(30)
    options = {"steps": 1000, "epsilon": "1e9", "neighbours": REPLACED, "at": (0.5,), "matchings": 1}
    found = {theil_sen(x, y, noise=SecureNoise(), **options)[0] for _ in range(20)}
    assert len(found) > 10


def test_values_outside_the_box_are_clipped_to_it():
    x, y = rows_of(30)
    far = x.copy(), y.copy()
    far[0][3], far[1][3] = 10**9, -(10**9)
    near = x.copy(), y.copy()
    near[0][3], near[1][3] = 1000, 0
    options = {"steps": 1000, "epsilon": 1, "neighbours": REPLACED}
    assert np.array_equal(*(theil_sen(*rows, noise=SeededNoise(2), **options) for rows in (far, near)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"neighbours": Neighbours.ADD_REMOVE}, "replace_one"),
        ({"matchings": 0}, "matchings"),
        ({"lower": 1.0, "upper": 1.0}, "lower, upper"),
        ({"upper": math.inf}, "lower, upper"),
        ({"widen": -0.1}, "widen"),
        ({"widen": math.nan}, "widen"),
        ({"at": (0.5, 1.5)}, "at"),
        ({"at": ()}, "at"),
        ({"method": "mean"}, "method"),
        ({"epsilon": 0}, "epsilon"),
        ({"method": "smooth", "epsilon": "1e-6"}, "epsilon"),
    ],
)
def test_bad_requests_are_refused_in_one_line(options, match):
    given = {"steps": 10, "epsilon": 1, "neighbours": REPLACED, "noise": SeededNoise(1)} | options
    with pytest.raises(InvalidRequest, match=match) as refusal:
        theil_sen([1, 2], [3, 4], **given)
    assert "\n" not in str(refusal.value)


def test_rows_that_do_not_fit_are_told():
    options = {"steps": 10, "epsilon": 1, "neighbours": REPLACED, "noise": SeededNoise(1)}
    with pytest.raises(ValueError, match="rows"):
        theil_sen([1, 2], [3], **options)
    with pytest.raises(ValueError, match="rows"):
        theil_sen([0.5, 2], [3, 4], **options)
