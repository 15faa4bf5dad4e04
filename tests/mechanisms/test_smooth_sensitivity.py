from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.continuous_noise import polynomial_noise
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import (
    auc_bound,
    auc_fraction,
    average_precision,
    average_precision_bound,
    average_precision_local,
    lower_median,
    median_bound,
    pairwise_median_bound,
    release_auc,
    release_average_precision,
    release_median,
)

BOTH = list(Neighbours)


def row_bound(values, lower, upper, smoothness, changes=1, inclusive=True):
    """The formula on rows, term by term."""
    z = sorted(values)
    m = (len(z) + 1) // 2

    def at(i):
        return lower if i < 1 else upper if i > len(z) else z[i - 1]

    best = 0.0
    for step in range(len(z) + 2):
        width = (step + 1) * changes
        stop = width + (1 if inclusive or step == 0 else 0)
        spread = max(at(m + t) - at(m + t - width) for t in range(stop))
        best = max(best, math.exp(-step * smoothness) * spread)
    return best


def tables(cells, size):
    for held in range(size + 1):
        for chosen in itertools.combinations_with_replacement(range(cells), held):
            yield np.bincount(np.array(chosen, dtype=int), minlength=cells)


def neighbours_of(table, relation):
    unit = np.eye(table.size, dtype=int)
    if relation is Neighbours.ADD_REMOVE:
        yield from (table + row for row in unit)
    else:
        for gone in np.flatnonzero(table):
            yield from (table - unit[gone] + row for at, row in enumerate(unit) if at != gone)


def test_median_bound_from_counts_equals_the_formula_on_rows() -> None:
    rng = np.random.default_rng(4)
    for _ in range(400):
        counts = rng.integers(0, 4, size=rng.integers(2, 12)) * rng.integers(0, 2)
        values = np.repeat(np.arange(counts.size), counts)
        smoothness = float(rng.choice([0.05, 0.3, 1.0, 2.0]))
        expected = row_bound(values, 0, counts.size - 1, smoothness)
        assert median_bound(counts, smoothness=smoothness) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("smoothness", [0.2, 1.0])
def test_median_bound_is_valid_and_smooth_under_both_relations(relation, smoothness) -> None:
    pairs = 0
    for table in tables(5, 5):
        bound = median_bound(table, smoothness=smoothness)
        for other in neighbours_of(table, relation):
            bounds = bound, median_bound(other, smoothness=smoothness)
            assert abs(lower_median(table) - lower_median(other)) <= min(bounds)
            assert max(bounds) <= math.exp(smoothness) * min(bounds) * (1 + 1e-12)
            pairs += 1
    assert pairs > 500


def test_averaging_the_two_middle_values_breaks_the_bound() -> None:
    one, other = [0.35] * 4 + [1, 1], [0.35] * 3 + [1] * 3
    bound = row_bound(one, 0, 1, 1.0)
    assert bound == pytest.approx(0.239, abs=1e-3)
    assert abs(np.median(one) - np.median(other)) == pytest.approx(0.325)
    assert bound < 0.325


@pytest.mark.slow
@pytest.mark.parametrize("changes", [1, 2])
def test_pairwise_bound_is_the_formula_and_smooth(changes) -> None:
    smoothness, cells = 0.4, 4
    for values in itertools.combinations_with_replacement(range(cells), 4):
        options = {"lower": 0, "upper": cells - 1, "changes": changes, "smoothness": smoothness}
        bound = pairwise_median_bound(values, **options)
        assert bound == pytest.approx(row_bound(values, 0, cells - 1, smoothness, changes), rel=1e-12)
        for new in itertools.product(range(cells), repeat=changes):
            for kept in itertools.combinations(values, 4 - changes):
                # replaced, or removed alone: an estimate may have ceased to exist
                for other in ((*kept, *new), kept):
                    again = pairwise_median_bound(other, **options)
                    move = abs(sorted(values)[1] - (sorted(other)[(len(other) + 1) // 2 - 1]))
                    assert move <= min(bound, again)
                    assert max(bound, again) <= math.exp(smoothness) * min(bound, again) * (1 + 1e-12)


def test_leaving_out_the_last_window_breaks_smoothness() -> None:
    smoothness, worst = 0.4, 0.0
    for values in itertools.combinations_with_replacement((0, 1, 8), 5):
        for at, new in itertools.product(range(5), (0, 1, 8)):
            other = [*values[:at], new, *values[at + 1 :]]
            pair = [row_bound(v, 0, 8, smoothness, inclusive=False) for v in (values, other)]
            if min(pair) > 0:
                worst = max(worst, math.log(max(pair) / min(pair)))
    assert worst > 1.5 * smoothness


def rows_auc(negative, positive):
    wins = sum(
        Fraction(int(p) * int(n)) * (1 if i > j else Fraction(1, 2) if i == j else 0)
        for i, p in enumerate(positive)
        for j, n in enumerate(negative)
    )
    pairs = int(np.sum(negative)) * int(np.sum(positive))
    return wins / pairs if pairs else Fraction(1, 2)


def rows_ap(negative, positive):
    found = seen = 0
    total = Fraction(0)
    for n, p in zip(negative[::-1], positive[::-1], strict=True):
        seen += int(n)
        for _ in range(p):
            found, seen = found + 1, seen + 1
            total += Fraction(found, seen)
    return total / found if found else Fraction(0)


def split(table):
    return table[: table.size // 2], table[table.size // 2 :]


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("relation", BOTH)
def test_bounds_of_auc_and_average_precision_are_valid_and_smooth(relation) -> None:
    smoothness, pairs = 0.3, 0
    for table in tables(6, 4):
        negative, positive = split(table)
        assert auc_fraction(negative, positive) == rows_auc(negative, positive)
        assert average_precision(negative, positive) == pytest.approx(float(rows_ap(negative, positive)), abs=1e-14)
        for other in neighbours_of(table, relation):
            for statistic, bound in ((rows_auc, auc_of), (rows_ap, ap_of)):
                bounds = bound(table, relation, smoothness), bound(other, relation, smoothness)
                assert abs(statistic(*split(table)) - statistic(*split(other))) <= min(bounds)
                assert max(bounds) <= math.exp(smoothness) * min(bounds) * (1 + 1e-12)
            pairs += 1
    assert pairs > 300


def auc_of(table, relation, smoothness):
    sizes = [int(part.sum()) for part in split(table)]
    return auc_bound(*sizes, neighbours=relation, smoothness=smoothness)


def ap_of(table, relation, smoothness):
    return average_precision_bound(int(split(table)[1].sum()), neighbours=relation, smoothness=smoothness)


def test_local_sensitivity_of_average_precision_has_the_exact_values() -> None:
    local = average_precision_local([0, 1, 2, 3, 4, 5, 10], neighbours=Neighbours.REPLACE_ONE)
    assert local == pytest.approx([1, 1, 0.5833, 0.4222, 0.3611, 0.3208, 0.2143], abs=5e-5)
    added = average_precision_local([1, 2, 3], neighbours=Neighbours.ADD_REMOVE)
    assert added == pytest.approx([1, 0.5, (1 / 2 + 1 / 3 + 1 / 4) / 3])
    # what n = 2 can reach: the bottom positive moves to the top, past many negatives
    far = [rows_ap((0, 2000, 0), (1, 0, 1)), rows_ap((0, 2000, 0), (0, 0, 2))]
    assert 0.49 < far[1] - far[0] <= local[2]


def test_bounds_equal_the_scan_over_tables_farther_and_farther_away() -> None:
    for smoothness in (0.02, 0.5, 1.0):
        assert auc_bound(1, 9, neighbours=Neighbours.REPLACE_ONE, smoothness=smoothness) == 1
        for m in range(1, 60):
            scan = max(1 / i * math.exp(-smoothness * (m - i)) for i in range(1, m + 1))
            assert auc_bound(m, 99, neighbours=Neighbours.REPLACE_ONE, smoothness=smoothness) == pytest.approx(scan)
            for relation in BOTH:
                local = average_precision_local(np.arange(m + 40), neighbours=relation)
                scan = (local * np.exp(-smoothness * np.abs(m - np.arange(m + 40)))).max()
                got = average_precision_bound(m, neighbours=relation, smoothness=smoothness)
                assert got == pytest.approx(scan, abs=1e-11)


def test_average_precision_of_many_rows_has_no_cancellation() -> None:
    negative, positive = np.array([0, 10**6, 0, 70]), np.array([3, 0, 1000, 0])
    exact = sum(Fraction(i, i + 70) for i in range(1, 1001)) + sum(Fraction(1000 + i, 1001070 + i) for i in (1, 2, 3))
    assert average_precision(negative, positive) == pytest.approx(float(exact / 1003), abs=1e-13)


@pytest.mark.parametrize("counts", [([0, 0], [0, 0]), ([5, 0], [0, 0]), ([40, 10], [10, 40])])
def test_releases_have_one_schema_whatever_the_data(counts) -> None:
    shape = polynomial_noise(1)
    for relation in BOTH:
        for release in (release_auc, release_average_precision):
            value = release(*counts, shape=shape, neighbours=relation, noise=SecureNoise())
            assert isinstance(value, float)
            assert 0 <= value <= 1
    assert 0 <= release_median(counts[0], shape=shape, noise=SecureNoise()) <= 1


def test_released_auc_reaches_the_error_it_promises() -> None:
    negative, positive = np.array([700, 300]), np.array([300, 700])
    shape, noise = polynomial_noise(1), SeededNoise(8)
    exact = float(auc_fraction(negative, positive))
    errors = [
        abs(release_auc(negative, positive, shape=shape, neighbours=Neighbours.REPLACE_ONE, noise=noise) - exact)
        for _ in range(1500)
    ]
    # 0.00127 expected
    assert 0.0011 < np.mean(errors) < 0.0014
    assert Decimal(shape.epsilon) == 1
