import json
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.group_sums import NoisyGroups, centred_sums, noisy_groups, split_epsilon
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, laplace_variance
from tests.support.flawed.binned_sums import closed_bins, uncentred_sums
from tests.support.noises import worst_loss

GRID = 8
EVERY_RELATION = pytest.mark.parametrize("neighbours", list(Neighbours))
CUTS = [np.array(cuts) for cuts in ([0, 8], [0, 1, 8], [0, 3, 4, 8], [0, 7, 8], list(range(9)))]


def table(rows):
    """Counts of (label, cell) rows, negatives first."""
    counts = np.zeros((2, GRID), dtype=np.int64)
    np.add.at(counts, tuple(np.array(rows, dtype=np.int64).reshape(-1, 2).T), 1)
    return counts


ROWS = [(label, cell) for label in (0, 1) for cell in range(GRID)]
BASE = [(0, 2), (1, 2), (1, 7)]


def neighbouring(neighbours):
    if neighbours is Neighbours.ADD_REMOVE:
        return [(table([*BASE, row]), table(BASE)) for row in ROWS]
    return [(table([*BASE, one]), table([*BASE, other])) for one, other in product(ROWS, ROWS)]


def losses(mechanism, neighbours):
    return [worst_loss(mechanism, *pair) for pair in neighbouring(neighbours)]


@EVERY_RELATION
@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_no_row_costs_more_than_epsilon_and_some_row_costs_all_of_it(cuts, neighbours):
    def mechanism(counts, noise):
        noisy_groups(counts, cuts, epsilon="0.7", neighbours=neighbours, noise=noise)

    found = losses(mechanism, neighbours)
    assert max(found) <= Fraction("0.7")
    assert max(found) > Fraction("0.699")


@pytest.mark.parametrize("cuts", [c for c in CUTS if len(c) > 2], ids=str)
def test_noise_for_an_added_row_is_not_enough_for_a_replaced_one(cuts):
    def mechanism(counts, noise):
        noisy_groups(counts, cuts, epsilon="0.7", neighbours=Neighbours.ADD_REMOVE, noise=noise)

    assert max(losses(mechanism, Neighbours.REPLACE_ONE)) > Fraction("0.7")


def test_sums_that_are_not_centred_lose_many_times_what_they_claim():
    """Chen's bin (0.99, 1]: the loss of the sum of scores alone is r / (4 (r - l)) epsilon."""
    grid, epsilon = 128, Fraction(1)
    cuts = np.array([0, 64, 127, 128])
    empty = np.zeros((2, grid), dtype=np.int64)
    row = empty.copy()
    row[0, -1] = 1

    def published(counts, noise):
        uncentred_sums(counts, cuts, epsilon=epsilon, noise=Exactly(noise))

    def ours(counts, noise):
        noisy_groups(counts, cuts, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=noise)

    assert worst_loss(published, row, empty) > 128 / 4 * epsilon
    assert worst_loss(ours, row, empty) <= epsilon


class Exactly:
    """Noise that is asked with fractions."""

    def __init__(self, source):
        self.source = source

    def laplace(self, values, *, epsilon, l1_sensitivity):
        return self.source.laplace(values, epsilon=str(float(epsilon)), l1_sensitivity=l1_sensitivity)


def test_closed_bins_count_a_score_on_an_edge_twice_and_ours_do_not():
    assert closed_bins([0.25, 0.5], [0.0, 0.5, 1.0]) == [[0], [0, 1]]
    counts = table([(1, 4)])
    groups = noisy_groups(
        counts, np.array([0, 4, 8]), epsilon="1e9", neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1)
    )
    assert groups.positives.tolist() == [0, 1]


@given(
    rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, GRID - 1)), max_size=30),
    inner=st.sets(st.integers(1, GRID - 1)),
)
@settings(deadline=None)
def test_without_noise_the_numbers_are_those_of_the_rows(rows, inner):
    cuts = np.array([0, *sorted(inner), GRID])
    groups = noisy_groups(table(rows), cuts, epsilon="1e9", neighbours=Neighbours.REPLACE_ONE, noise=SeededNoise(1))
    for group, (start, end) in enumerate(pairwise(cuts)):
        inside = [(label, (2 * cell + 1) / (2 * GRID)) for label, cell in rows if start <= cell < end]
        positives, negatives, scores = groups.values()[:, group]
        assert positives == sum(label for label, _ in inside)
        assert negatives == len(inside) - positives
        assert scores == pytest.approx(sum(score for _, score in inside))


def test_a_group_of_one_cell_has_no_sum_and_pays_for_none():
    counts = table([(0, 3)] * 5 + [(1, 3)])
    cuts = np.array([0, 3, 4, 8])
    groups = noisy_groups(counts, cuts, epsilon="0.01", neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(2))
    assert groups.centred[1] == 0
    assert groups.scales()[1, 1] == 0
    assert groups.epsilons[0][1] == Decimal("0.01")


@pytest.mark.parametrize("epsilon", ["1", "0.1", "0.3333333333", "1e9", "123456789.0123456789", "1e-12"])
@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_splits_add_up_exactly(epsilon, cuts):
    counts, sums = split_epsilon(Decimal(epsilon), cuts, GRID)
    for one, other in zip(counts, sums, strict=True):
        assert Fraction(one) + Fraction(other) == Fraction(epsilon)
        assert one > 0
        assert other >= 0


def test_the_split_makes_the_noise_of_the_residual_least():
    cuts, grid = np.array([0, 100, 3000, 65536]), 65536
    counts, sums = split_epsilon(Decimal(1), cuts, grid)
    middle, half = (cuts[:-1] + cuts[1:]) / (2 * grid), (np.diff(cuts) - 1) / (2 * grid)

    def noise(share):
        return ((1 - middle) ** 2 + middle**2) / (1 - share) ** 2 + half**2 / share**2

    chosen = noise(np.array([float(part) for part in sums]))
    assert (chosen <= np.min([noise(share) for share in np.linspace(0.002, 0.9, 450)], axis=0) * 1.001).all()
    assert min(counts) > Decimal("0.5")


@EVERY_RELATION
def test_simulated_errors_have_the_stated_scales(neighbours):
    cuts = np.array([0, 3, 4, 8])
    groups = noisy_groups(table([]), cuts, epsilon="0.5", neighbours=neighbours, noise=SeededNoise(3))
    errors = groups.errors(40_000, SeededNoise(4))
    assert errors.shape == (40_000, 3, 3)
    for group in range(3):
        of_counts, of_sum = groups.scales()[:, group]
        assert errors[:, 0, group].var() == pytest.approx(laplace_variance(of_counts), rel=0.06)
        about_middle = errors[:, 2, group] - groups.middles[group] * (errors[:, 0, group] + errors[:, 1, group])
        expected = laplace_variance(of_sum) / (2 * GRID) ** 2 if of_sum else 0
        assert about_middle.var() == pytest.approx(expected, rel=0.06, abs=1e-12)


def test_a_draw_survives_its_file():
    groups = noisy_groups(
        table(BASE), np.array([0, 3, 8]), epsilon="0.5", neighbours=Neighbours.ADD_REMOVE, noise=SecureNoise()
    )
    again = codec.decode(NoisyGroups, json.loads(json.dumps(codec.encode(groups))))
    assert np.array_equal(again.values(), groups.values())
    assert np.array_equal(again.scales(), groups.scales())
    assert codec.encode(again) == codec.encode(groups)


def test_centred_sums_do_not_overflow_or_round():
    counts = np.zeros(65536, dtype=np.int64)
    counts[-1] = 2**40
    assert centred_sums(counts, np.array([0, 65536]))[0] == 2**40 * 65535


def test_cuts_and_counts_that_do_not_fit_are_told():
    common = {"epsilon": 1, "neighbours": Neighbours.ADD_REMOVE, "noise": SeededNoise(1)}
    for cuts in ([0, 4], [1, 8], [0, 4, 4, 8]):
        with pytest.raises(ValueError, match="cuts"):
            noisy_groups(table([]), np.array(cuts), **common)
    with pytest.raises(ValueError, match="counts"):
        noisy_groups(table([])[0], np.array([0, 8]), **common)
