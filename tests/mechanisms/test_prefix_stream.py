import itertools
import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise, gaussian_stddev
from spark_jobs.mechanisms.prefix_stream import MAX_TOTAL, StreamShape, StreamState, release_step
from spark_jobs.mechanisms.square_root import column_sensitivity, square_root_column
from tests.support.noises import Still

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOTH = pytest.mark.parametrize("neighbours", list(Neighbours))
LATTICE = 2.0**24


def run(counts, shape, noise, rho="0.5"):
    state, released = StreamState.start(shape), []
    for count in counts:
        state, value = release_step(state, int(count), shape=shape, rho=rho, noise=noise)
        released.append(value)
    return np.array(released)


def measured(counts, shape):
    noise = Still()
    run(counts, shape, noise)
    return np.concatenate(noise.seen)


@BOTH
@pytest.mark.parametrize("steps", [1, 2, 5, 64])
def test_measured_points_are_those_of_the_explicit_matrices(steps, neighbours):
    shape = StreamShape(steps=steps, neighbours=neighbours)
    counts = np.random.default_rng(steps).integers(0, 50, steps)
    matrix = np.tril(toeplitz(shape.column()))
    expected = np.linalg.solve(matrix, np.cumsum(counts)) * LATTICE
    assert np.abs(measured(counts, shape) - expected).max() <= 0.51 + 1e-3 * steps


@BOTH
@pytest.mark.parametrize("steps", [1, 2, 5, 24])
def test_brute_force_on_the_lattice_finds_no_more_than_the_sensitivity(steps, neighbours):
    shape = StreamShape(steps=steps, neighbours=neighbours)
    base = np.random.default_rng(steps).integers(0, 50, steps) + 1
    rows = np.eye(steps, dtype=int)
    # a replaced row may move to another step, or be one that no step counts
    moved = [] if neighbours is ADDED else [new - old for old, new in itertools.permutations(rows, 2)]
    exact = [np.linalg.norm(measured(base + change, shape) - measured(base, shape)) for change in [*rows, *moved]]
    assert max(exact) <= shape.l2_sensitivity <= max(exact) * (1 + 1e-5)


@BOTH
def test_a_stream_of_one_step_has_noise_of_a_row_at_least(neighbours):
    shape = StreamShape(steps=1, neighbours=neighbours)
    stddev = gaussian_stddev("0.5", shape.l2_sensitivity) / LATTICE
    assert stddev >= 1
    assert run([1000], shape, SeededNoise(9))[0] != pytest.approx(1000, abs=1e-3)


def test_without_noise_the_running_counts_come_back():
    counts = np.random.default_rng(1).integers(0, 10_000, 700)
    released = run(counts, StreamShape(steps=1000, neighbours=ADDED), Still())
    np.testing.assert_allclose(released, np.cumsum(counts), atol=1e-5)


@pytest.mark.slow
@BOTH
@pytest.mark.verify
def test_releases_are_unbiased_with_the_stated_variances(neighbours):
    shape, copies, noise = StreamShape(steps=12, neighbours=neighbours, exponentials=4), 2500, SeededNoise(8)
    counts = np.arange(12)
    errors = np.stack([run(counts, shape, noise) for _ in range(copies)]) - np.cumsum(counts)
    variances = shape.variances("0.5")
    assert (np.abs(errors.mean(axis=0)) <= 6 * np.sqrt(variances / copies)).all()
    assert (np.abs((errors**2).mean(axis=0) / variances - 1) < 6 * math.sqrt(2 / copies)).all()


@pytest.mark.parametrize(("steps", "within"), [(16, 1e-4), (1024, 1e-4), (32768, 1e-3)])
def test_eight_exponentials_are_nearly_as_good_as_the_square_root(steps, within):
    column = square_root_column(steps) / 65536
    best = column_sensitivity(column, ADDED) ** 2 * np.cumsum(column**2).mean()
    ours = StreamShape(steps=steps, neighbours=ADDED).variances("0.5").mean()
    assert ours <= best * (1 + within)


def test_the_state_does_not_grow():
    shape = StreamShape(steps=400, neighbours=ADDED)
    state, sizes = StreamState.start(shape), set()
    for _ in range(400):
        state, _value = release_step(state, 3, shape=shape, rho=1, noise=SeededNoise(1))
        sizes.add((len(state.sums), len(state.noisy_sums), max(kept.bit_length() for kept in state.sums) < 128))
    assert sizes == {(8, 8, True)}


def test_noise_has_the_scale_of_the_sensitivity():
    shape = StreamShape(steps=10, neighbours=REPLACED)
    noise = Still()
    run([1], shape, noise, rho="0.25")
    assert noise.asked == [("0.25", shape.l2_sensitivity)]
    column = shape.column()
    stddev = gaussian_stddev("0.25", shape.l2_sensitivity) / LATTICE
    assert shape.variances("0.25")[-1] == pytest.approx((column**2).sum() * stddev**2)


def test_a_stream_is_over_after_its_last_step():
    shape = StreamShape(steps=2, neighbours=ADDED)
    with pytest.raises(ValueError, match="step 2 of 2"):
        run([1, 1, 1], shape, Still())
    with pytest.raises(ValueError, match="state"):
        release_step(
            StreamState.start(StreamShape(steps=2, neighbours=ADDED, exponentials=3)),
            1,
            shape=shape,
            rho=1,
            noise=Still(),
        )


def test_what_is_no_stream_is_refused():
    with pytest.raises(ValueError, match="steps"):
        StreamShape(steps=0, neighbours=ADDED)
    with pytest.raises(ValueError, match="exponentials"):
        StreamShape(steps=5, neighbours=ADDED, exponentials=0)
    with pytest.raises(InvalidRequest, match="rho"):
        run([1], StreamShape(steps=5, neighbours=ADDED), SeededNoise(1), rho=-1)


def test_counts_beyond_all_bounds_are_counted_as_the_bound():
    shape = StreamShape(steps=4, neighbours=ADDED)
    released = run([MAX_TOTAL, -5, 1], shape, Still())
    np.testing.assert_allclose(released, [MAX_TOTAL / 4, MAX_TOTAL / 4, MAX_TOTAL / 4 + 1], rtol=1e-9)
