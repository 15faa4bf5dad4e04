from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.mechanisms.histograms import methods, release_histogram
from spark_jobs.mechanisms.histograms.release import AUTO
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.support.neighbouring import neighbouring
from tests.support.noises import worst_loss

LINE = np.array([3, 0, 0, 40, 1, 0, 2, 7, 90, 4, 0, 0])
GRID = LINE.reshape(3, 4)
CASES = [
    pytest.param(name, counts, id=f"{name}-{counts.ndim}d")
    for name, entry in methods().items()
    for counts in (LINE, GRID)
    if counts.ndim in entry.dimensions
]
BOTH = pytest.mark.parametrize("neighbours", list(Neighbours))


@pytest.mark.parametrize(("name", "counts"), CASES)
@BOTH
def test_a_method_spends_its_budget_and_keeps_the_shape(name, counts, neighbours):
    made = release_histogram(counts, epsilon="0.7", neighbours=neighbours, noise=SeededNoise(1), method=name)
    assert made.cells.shape == counts.shape
    assert made.cells.dtype == np.float64
    assert np.isfinite(made.cells).all()
    assert made.method == name
    assert sum(event.epsilon for event in made.spendings) == made.epsilon == Decimal("0.7")
    assert (made.neighbours, made.guarantee) == (neighbours, NOT_PRIVATE)


SELECTING = {"dawa", "mwem"}
"""Methods that use more than the vectors they ask noise for; their loss is tested with them."""


@pytest.mark.parametrize(("name", "counts"), [case for case in CASES if case.values[0] not in SELECTING])
@BOTH
def test_no_neighbour_costs_more_than_epsilon(name, counts, neighbours):
    """Every vector a method asks noise for, on neighbours that play back each other's answers: brute force."""

    def mechanism(table, noise):
        release_histogram(table, epsilon=1, neighbours=neighbours, noise=noise, method=name)

    losses = [worst_loss(mechanism, counts, other) for other in neighbouring(counts, neighbours)]
    assert max(losses) <= 1
    # a replaced row leaves the total as it is
    assert max(losses) > 0 or (name, neighbours) == ("uniform", Neighbours.REPLACE_ONE)


def test_secure_noise_makes_private_histograms():
    assert release_histogram(LINE, epsilon=1, noise=SecureNoise()).guarantee == PRIVATE


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"method": "magic"}, "method"),
        ({"epsilon": 0}, "epsilon"),
        ({"public_total": True}, "public_total"),
        ({"expected_rows": 0}, "expected_rows"),
    ],
)
def test_a_bad_request_is_refused(changes, what):
    with pytest.raises(InvalidRequest, match=what):
        release_histogram(LINE, **{"epsilon": 1, "noise": SeededNoise(1), **changes})


@pytest.mark.parametrize("counts", [np.zeros(0, int), np.zeros((2, 2, 2), int), np.array(3)])
def test_counts_of_another_shape_are_refused(counts):
    with pytest.raises(ValueError, match="counts"):
        release_histogram(counts, epsilon=1, noise=SeededNoise(1))


def test_counts_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match="counts"):
        release_histogram(np.ones(3), epsilon=1, noise=SeededNoise(1))


def test_a_public_total_is_spread_for_nothing():
    options = {"epsilon": 1, "neighbours": Neighbours.REPLACE_ONE, "public_total": True, "noise": SeededNoise(1)}
    made = release_histogram(LINE, method="uniform", **options)
    np.testing.assert_array_equal(made.cells, LINE.sum() / LINE.size)
    assert (made.epsilon, made.spendings) == (0, ())


@pytest.mark.parametrize("name", ["geometric", "laplace"])
@BOTH
def test_noise_in_every_cell_has_the_variance_of_its_sensitivity(name, neighbours):
    made = release_histogram(
        np.zeros(200_000, int), epsilon="0.1", neighbours=neighbours, noise=SeededNoise(2), method=name
    )
    scale = 10 * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    # the variance of a squared Laplace variable is 20 scale^4: five standard errors, one alarm in a million
    assert made.cells.var() == pytest.approx(2 * scale**2, abs=5 * (20 / 200_000) ** 0.5 * scale**2 + 1)


@pytest.mark.parametrize("shape", [(1,), (32,), (4096,), (8, 8), (64, 64)])
def test_the_default_is_one_method_for_every_shape(shape):
    released = release_histogram(np.zeros(shape, int), epsilon="0.1", noise=SeededNoise(1))
    assert released.method == AUTO == "shrunken_tree"


COARSE = {"mwem", "uniform"}
"""Methods whose error does not vanish with the noise."""


@pytest.mark.parametrize(("name", "counts"), [case for case in CASES if case.values[0] not in COARSE])
def test_with_a_huge_epsilon_counts_come_back(name, counts):
    made = release_histogram(counts, epsilon="1e9", noise=SeededNoise(1), method=name)
    np.testing.assert_allclose(made.cells, counts, atol=1e-6)


KEEPING_TOTALS = ["hb", "greedy_h", "dawa", "shrunken_tree", "uniform"]


@pytest.mark.parametrize("name", KEEPING_TOTALS)
@pytest.mark.parametrize("shape", [(1,), (12,), (3, 4), (100,), (20, 20)])
def test_a_public_total_is_kept(name, shape):
    counts = np.arange(np.prod(shape)).reshape(shape) + 5
    options = {"neighbours": Neighbours.REPLACE_ONE, "public_total": True, "noise": SeededNoise(3)}
    made = release_histogram(counts, epsilon="0.5", method=name, **options)
    assert made.cells.sum() == pytest.approx(counts.sum())


@pytest.mark.parametrize("name", ["dawa", "hb", "greedy_h", "adaptive_grid"])
def test_prefixes_of_a_long_line_are_better_than_with_noise_in_every_cell(name):
    counts = np.repeat(np.random.default_rng(3).integers(0, 50, 64), 64)
    noise = SeededNoise(4)

    def error(method):
        made = [release_histogram(counts, epsilon="0.1", noise=noise, method=method).cells for _ in range(10)]
        return np.mean([np.abs(np.cumsum(cells - counts)).mean() for cells in made])

    assert error(name) < 0.7 * error("geometric")


def test_dawa_finds_the_buckets_that_pay():
    # 4,000 empty cells and a block of 96 full ones: with few rows a hierarchy drowns in its own noise
    counts = np.zeros(4096, int)
    counts[1024:1120] = 30
    noise = SeededNoise(5)

    def error(method):
        made = [release_histogram(counts, epsilon="0.1", noise=noise, method=method).cells for _ in range(20)]
        return np.mean([np.linalg.norm(cells - counts) for cells in made])

    assert error("dawa") < 0.7 * min(error("hb"), error("greedy_h"), error("geometric"))
