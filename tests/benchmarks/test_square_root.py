import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from benchmarks.competitors.square_root import (
    MAX_COUNT,
    column_sensitivity,
    series_inverse,
    square_root_column,
    square_root_prefixes,
    square_root_sensitivity,
    whole_convolution,
)
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support.noises import Still

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOTH = pytest.mark.parametrize("neighbours", list(Neighbours))
HALF = {each: {"rho": "0.5", "public_total": each is REPLACED} for each in Neighbours}


def lower(column):
    return np.tril(toeplitz(column))


@pytest.mark.parametrize("cells", [1, 2, 3, 17, 200])
def test_the_matrix_is_the_square_root_of_summation(cells):
    matrix = lower(square_root_column(cells) / 65536)
    np.testing.assert_allclose(matrix @ matrix, np.tril(np.ones((cells, cells))), atol=3e-4)


@BOTH
@pytest.mark.parametrize("cells", [1, 2, 3, 9, 40])
def test_brute_force_finds_the_sensitivity(cells, neighbours):
    columns = lower(square_root_column(cells)).T
    if neighbours is ADDED:
        changes = list(columns)
    else:  # moved, or replaced by a row that is not counted
        changes = [one - other for one, other in itertools.permutations(columns, 2)] + list(columns)
    exact = max(np.linalg.norm(change) for change in changes)
    claimed = square_root_sensitivity(cells, neighbours)
    assert exact <= claimed <= max(exact, 1) * (1 + 1e-6)


@given(column=st.lists(st.floats(0.01, 10), min_size=2, max_size=20))
def test_the_sensitivity_of_any_column_is_the_longest_difference(column):
    columns = lower(np.array(column)).T
    for neighbours, changes in (
        (ADDED, columns),
        (REPLACED, [one - other for one, other in itertools.combinations(columns, 2)]),
    ):
        exact = max(np.linalg.norm(change) for change in changes)
        claimed = column_sensitivity(np.array(column), neighbours)
        assert exact <= claimed
        assert claimed**2 <= exact**2 + 2e-8 * sum(value**2 for value in column)


@given(
    counts=st.lists(st.one_of(st.integers(0, 20), st.integers(0, MAX_COUNT)), min_size=1, max_size=60),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None)
def test_convolutions_of_whole_numbers_are_exact(counts, seed):
    column = np.random.default_rng(seed).integers(0, 1 << 16, len(counts), endpoint=True)
    expected = np.convolve(np.array(counts, dtype=object), column.astype(object))[: len(counts)]
    np.testing.assert_array_equal(whole_convolution(np.array(counts), column), expected.astype(np.int64))


def test_convolutions_of_long_lines_of_the_largest_counts_are_exact():
    counts, column = np.full(30_000, MAX_COUNT), square_root_column(30_000)
    np.testing.assert_array_equal(whole_convolution(counts, column), MAX_COUNT * np.cumsum(column))


@pytest.mark.parametrize("cells", [1, 2, 7, 100])
def test_series_inverses_are_inverses_of_matrices(cells):
    column = square_root_column(cells) / 65536
    np.testing.assert_allclose(lower(series_inverse(column)), np.linalg.inv(lower(column)), atol=1e-12)


@BOTH
@pytest.mark.parametrize("cells", [1, 2, 33, 500])
def test_without_noise_the_prefix_counts_come_back(cells, neighbours):
    counts = np.random.default_rng(cells).integers(0, 1000, cells)
    made = square_root_prefixes(counts, rho=1, neighbours=neighbours, noise=Still())
    np.testing.assert_allclose(made.prefix_counts(), np.cumsum(counts), atol=1e-6)


@BOTH
@pytest.mark.parametrize("cells", [1, 2, 30])
def test_variances_are_those_of_the_matrices(cells, neighbours):
    counts = np.zeros(cells, dtype=np.int64)
    made = square_root_prefixes(counts, neighbours=neighbours, noise=SeededNoise(1), **HALF[neighbours])
    decode = np.tril(np.ones((cells, cells))) @ np.linalg.inv(lower(square_root_column(cells)))
    covariance = decode @ decode.T * made.stddev**2
    if neighbours is REPLACED:
        covariance = covariance - np.outer(covariance[-1], covariance[-1]) / covariance[-1, -1]
    np.testing.assert_allclose(made.variances(), np.diag(covariance), rtol=1e-9, atol=1e-9)


@pytest.mark.sampled
@pytest.mark.slow
@BOTH
def test_estimates_are_unbiased_with_the_stated_variances(neighbours):
    counts, copies, noise = np.arange(20), 4000, SeededNoise(6)
    made = [square_root_prefixes(counts, neighbours=neighbours, noise=noise, **HALF[neighbours]) for _ in range(copies)]
    errors, variances = np.stack([each.prefix_counts() for each in made]) - np.cumsum(counts), made[0].variances()
    assert (np.abs(errors.mean(axis=0)) <= 6 * np.sqrt(variances / copies) + 1e-9).all()
    large = variances > 1e-6
    assert (np.abs((errors**2).mean(axis=0)[large] / variances[large] - 1) < 6 * math.sqrt(2 / copies)).all()
    if neighbours is REPLACED:
        assert made[0].prefix_counts()[-1] == pytest.approx(counts.sum())


def test_the_mean_variance_is_that_of_the_literature():
    # rho 1/2, 1,024 cells: 9.7, against 13.6 of a consistent binary tree
    made = square_root_prefixes(np.zeros(1024, dtype=np.int64), rho="0.5", neighbours=ADDED, noise=SeededNoise(1))
    assert made.variances().mean() == pytest.approx(9.67, abs=0.01)


def test_a_row_replaced_by_one_that_is_not_counted_shows_in_no_exact_total():
    for counts in ([1, 1, 1], [1, 1, 2]):
        made = square_root_prefixes(np.array(counts), rho=1, neighbours=REPLACED, noise=SeededNoise(1))
        assert made.total is None
        assert made.variances()[-1] > 0


def test_a_public_total_is_that_of_all_rows():
    one, other = np.array([MAX_COUNT + 1, 0]), np.array([MAX_COUNT, 1])
    totals = [
        square_root_prefixes(each, rho=1, neighbours=REPLACED, noise=Still(), public_total=True).total
        for each in (one, other)
    ]
    assert totals == [MAX_COUNT + 1] * 2
    with pytest.raises(ValueError, match="public_total"):
        square_root_prefixes(one, rho=1, neighbours=ADDED, noise=Still(), public_total=True)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ValueError, match="counts"):
        square_root_prefixes(np.zeros((2, 2), dtype=np.int64), rho=1, neighbours=ADDED, noise=Still())
    with pytest.raises(InvalidRequest, match="rho"):
        square_root_prefixes(np.zeros(4, dtype=np.int64), rho=0, neighbours=ADDED, noise=SeededNoise(1))


def test_counts_beyond_all_bounds_are_counted_as_the_bound():
    huge = np.array([MAX_COUNT + 5, -3, 1])
    made = square_root_prefixes(huge, rho=1, neighbours=ADDED, noise=Still())
    np.testing.assert_allclose(made.prefix_counts(), [MAX_COUNT, MAX_COUNT, MAX_COUNT + 1], rtol=1e-9)
