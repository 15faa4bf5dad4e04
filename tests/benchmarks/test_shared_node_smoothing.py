import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.competitors.shared_node_smoothing import smooth_shared_nodes
from benchmarks.competitors.shared_nodes import shared_node_prefixes
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smoothing import smooth_2norm
from tests.support.shared_nodes import node_matrix, programme

TRUTHS = st.lists(st.integers(0, 6), min_size=1, max_size=40)
EPSILONS = st.sampled_from(["0.05", "0.3", "1", "5"])


def noisy_line(counts, seed, epsilon="1"):
    asked = {"epsilon": epsilon, "neighbours": Neighbours.ADD_REMOVE, "noise": SeededNoise(seed)}
    return shared_node_prefixes(np.array(counts), **asked).prefix_counts


@given(truth=TRUTHS, seed=st.integers(0, 2**32 - 1), epsilon=EPSILONS, bounded=st.booleans())
@settings(deadline=None, max_examples=150)
def test_a_general_programme_finds_the_same_line(truth, seed, epsilon, bounded):
    noisy = noisy_line(truth, seed, epsilon)
    total = float(sum(truth)) if bounded and sum(truth) else None
    expected = programme(noisy.astype(float), 0.0, total)
    np.testing.assert_allclose(smooth_shared_nodes(noisy, total=total), expected, atol=1e-6)


def forces_and_slacks(noisy, line, total):
    """The force in each condition, counted from the loosest of them, and what is left of each."""
    nodes = node_matrix(noisy.size)
    pulls = np.linalg.solve(nodes @ nodes.T, line - noisy)
    slacks = np.concatenate([line[:1], np.diff(line), [total - line[-1]]])
    forces = np.concatenate([[0.0], -np.cumsum(pulls)])
    return forces - forces[slacks.argmax()], slacks


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_conditions_of_optimality_hold_at_a_thousand_points(seed):
    generator = np.random.default_rng(seed)
    points = int(generator.integers(700, 1025))
    counts = generator.poisson(generator.choice([0.03, 0.3, 3]), points)
    noisy, total = noisy_line(counts, seed, "0.5").astype(float), float(counts.sum())
    line = smooth_shared_nodes(noisy, total=total)
    forces, slacks = forces_and_slacks(noisy, line, total)
    size = 1 + np.abs(forces).max()
    assert (slacks >= 0).all()
    assert (forces >= -1e-7 * size).all()
    assert (np.abs(forces[slacks > 1e-7]) <= 1e-7 * size).all()


@given(truth=TRUTHS, seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_lines_rise_within_their_range_and_stay_where_they_do_already(truth, seed):
    total = float(sum(truth))
    line = smooth_shared_nodes(noisy_line(truth, seed), total=total)
    assert (np.diff(line) >= 0).all()
    assert 0 <= line[0] <= line[-1] <= total
    np.testing.assert_allclose(smooth_shared_nodes(line, total=total), line, atol=1e-9)
    np.testing.assert_array_equal(smooth_shared_nodes(np.cumsum(truth)), np.cumsum(truth))


@given(truth=TRUTHS, seed=st.integers(0, 2**32 - 1), shift=st.integers(-1000, 1000))
@settings(deadline=None)
def test_shares_and_shifted_counts_are_smoothed_alike(truth, seed, shift):
    noisy, total = noisy_line(truth, seed).astype(float), float(sum(truth)) + 1
    line = smooth_shared_nodes(noisy, total=total)
    np.testing.assert_allclose(smooth_shared_nodes(noisy / total, total=1.0) * total, line, atol=1e-8)
    moved = smooth_shared_nodes(noisy + shift, lower=shift, total=total + shift)
    np.testing.assert_allclose(moved - shift, line, atol=1e-8)


def test_with_a_total_it_is_better_than_the_plain_projection_on_average_and_not_always():
    ratios = []
    for seed in range(300):
        truth = np.random.default_rng(seed).poisson(1, 32)
        noisy, exact = noisy_line(truth, seed), np.cumsum(truth)
        smoothed = [smooth(noisy, total=exact[-1]) for smooth in (smooth_shared_nodes, smooth_2norm)]
        ratios.append([((line - exact) ** 2).sum() / ((noisy - exact) ** 2).sum() for line in smoothed])
    likeliest, plain = np.array(ratios).T
    assert likeliest.mean() < 0.8 * plain.mean()
    assert plain.max() <= 1 + 1e-9


def test_without_a_total_its_error_may_grow():
    truth = np.random.default_rng(0).poisson(0.03, 1024)
    noisy, exact = noisy_line(truth, 1, "0.1"), np.cumsum(truth)
    before, after = (((line - exact) ** 2).sum() for line in (noisy, smooth_shared_nodes(noisy)))
    assert after > before
    assert ((smooth_2norm(noisy) - exact) ** 2).sum() <= before


def test_ends_that_meet_leave_one_line():
    np.testing.assert_array_equal(smooth_shared_nodes(np.array([3.0, -1.0]), lower=2.0, total=2.0), [2.0, 2.0])
    assert smooth_shared_nodes(np.array([])).shape == (0,)
    np.testing.assert_array_equal(smooth_shared_nodes(np.array([-4.0])), [0.0])
    np.testing.assert_array_equal(smooth_shared_nodes(np.array([9.0]), total=4.0), [4.0])
