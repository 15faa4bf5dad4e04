"""Two servers count the hidden values below points of their choice; each key alone looks random."""

import dataclasses

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.federation.comparison import PaidComparisons, comparison_keys, evaluate
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise


def counted(keys, points):
    return (evaluate(keys[0], points) + evaluate(keys[1], points)).tolist()


@pytest.mark.parametrize("bits", [1, 3, 4])
def test_every_value_is_compared_with_every_point(bits):
    for value in range(1 << bits):
        points = np.arange((1 << bits) + 1)
        keys = comparison_keys(np.array([value]), bits=bits, noise=SecureNoise())
        assert counted(keys, points) == (value < points).astype(int).tolist()


def test_sums_over_many_values_are_those_of_numpy():
    values = np.random.default_rng(4).integers(0, 1 << 20, 10_000)
    points = np.concatenate([[0, 1, (1 << 20) - 1, 1 << 20], values[:5], values[:5] + 1])
    keys = comparison_keys(values, bits=20, noise=SeededNoise(1))
    assert counted(keys, points) == [int((values < point).sum()) for point in points]


def test_values_outside_count_at_the_nearer_end():
    keys = comparison_keys(np.array([-5, 99]), bits=3, noise=SecureNoise())
    assert counted(keys, np.array([0, 1, 7, 8])) == [0, 1, 1, 2]


def test_one_servers_sums_are_no_counts():
    keys = comparison_keys(np.arange(64), bits=6, noise=SeededNoise(2))
    for key in keys:
        shares = evaluate(key, np.arange(65))
        assert shares.min() > 2**40  # of 65 residues modulo 2^64


@pytest.mark.parametrize("server", [0, 1])
def test_a_key_has_the_same_seeds_and_form_whatever_it_hides(server):
    one, other = (comparison_keys(np.full(2000, x), bits=8, noise=SeededNoise(7))[server] for x in (3, 250))
    np.testing.assert_array_equal(one.seeds, other.seeds)
    for field in dataclasses.fields(one)[2:]:
        ours, theirs = (getattr(key, field.name) for key in (one, other))
        assert ours.shape == theirs.shape
        if ours.dtype == np.bool_:
            assert np.abs(ours.mean(axis=-1) - 0.5).max() < 0.07
        else:  # corrections look uniform at every level, for either value
            for array in (ours, theirs):
                words = array.reshape(array.shape[0], -1)
                low_bits = np.array([np.unpackbits(row.view(np.uint8)).mean() for row in words])
                assert np.abs(low_bits - 0.5).max() < 0.02
    assert repr(one) == f"ComparisonKeys(server={server}, size=2000, levels=9)"


def test_a_key_has_the_papers_size():
    key = comparison_keys(np.arange(10), bits=16, noise=SecureNoise())[0]
    words = key.seeds.size + key.seed_corrections.size + key.value_corrections.size
    assert 64 * words + key.bit_corrections.size == 10 * (128 + 17 * (128 + 64 + 2) + 64)


@pytest.mark.parametrize("bits", [0, 41])
def test_bits_out_of_range_are_refused(bits):
    with pytest.raises(InvalidRequest, match=f"bits: got {bits}; must be from 1 to 40"):
        comparison_keys(np.arange(2), bits=bits, noise=SecureNoise())


@pytest.mark.parametrize("point", [-1, 9])
def test_points_out_of_range_are_refused(point):
    keys = comparison_keys(np.arange(2), bits=3, noise=SecureNoise())
    with pytest.raises(InvalidRequest, match="points: must be from 0 to 8"):
        evaluate(keys[0], np.array([point]))


AGES = np.array([3, 17, 17, 42, 80, 80, 81, 101])


def paid(**given):
    keys = comparison_keys(AGES, bits=7, noise=SecureNoise())
    return PaidComparisons(keys, **{"epsilon": 10**6, "evaluations": 20, **given})


def test_points_are_answered_as_long_as_they_are_paid_for():
    comparisons = paid(evaluations=2)
    assert [comparisons.below(18), comparisons.below(128), comparisons.below(18)] == [3, 8, 3]
    assert comparisons.left == 0
    with pytest.raises(
        InvalidRequest,
        match="evaluations: got 0; must be at least 1, the number of evaluations that this call needs; pay for more",
    ):
        comparisons.below(19)


@pytest.mark.parametrize("share", [0, 0.01, 0.125, 0.3, 0.5, 0.75, 1])
def test_quantiles_are_found_in_a_fixed_number_of_evaluations(share):
    comparisons = paid()
    assert comparisons.quantile(share) == (0 if share == 0 else np.quantile(AGES, share, method="inverted_cdf"))
    assert comparisons.left == 20 - 7
    with pytest.raises(InvalidRequest, match="evaluations: got 6; must be at least 7"):
        paid(evaluations=6).quantile(share)


def test_a_point_that_is_asked_for_again_has_the_same_noise():
    comparisons = paid(epsilon="0.01", noise=SeededNoise(1))
    assert comparisons.below(50) == comparisons.below(50)


@pytest.mark.parametrize(("wrong", "message"), [({"evaluations": 0}, "evaluations: got 0"), ({"epsilon": 0}, "eps")])
def test_what_cannot_be_paid_for_is_refused(wrong, message):
    with pytest.raises(InvalidRequest, match=message):
        paid(**wrong)
    with pytest.raises(InvalidRequest, match="share: got 2; must be from 0 to 1"):
        paid().quantile(2)
