from __future__ import annotations

import itertools

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.exact_choice import uniform_below
from spark_jobs.mechanisms.meter import BudgetMeter, BudgetOverspent
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, laplace_scale
from spark_jobs.mechanisms.selection import (
    exponential_mechanism,
    interval_exponential,
    median_by_exponential,
    median_intervals,
    permute_and_flip,
    report_noisy_max,
)
from tests.support.selection_loss import exponential_probabilities, flip_probabilities, log_ratio
from tests.support.sparse_vector_loss import geometric_mass, tail

EPSILON = 0.7
TOLERANCE = 1e-12
PROBABILITIES = {"exponential": exponential_probabilities, "flip": flip_probabilities}


def score_pairs(moves):
    for scores in ((0, 0, 0), (0, -3, 4), (-900, 0, -2), (0, 1, 1)):
        for move in itertools.product(moves, repeat=3):
            yield scores, tuple(np.add(scores, move))


def worst(kind, moves, **options):
    options = {"epsilon": EPSILON, "sensitivity": 1, "monotone": False, **options}
    chances = PROBABILITIES[kind]
    return max(log_ratio(chances(one, **options), chances(other, **options)) for one, other in score_pairs(moves))


@pytest.mark.parametrize("kind", PROBABILITIES)
def test_loss_of_any_choice_stays_within_epsilon_and_nearly_reaches_it(kind) -> None:
    assert 0.6 * EPSILON < worst(kind, (-1, 0, 1)) <= EPSILON + TOLERANCE
    assert 0.6 * EPSILON < worst(kind, (0, 1), monotone=True) <= EPSILON + TOLERANCE
    assert worst(kind, (-0.25, 0.0, 0.25), sensitivity=0.25) <= EPSILON + TOLERANCE


@pytest.mark.parametrize("kind", PROBABILITIES)
@pytest.mark.parametrize("fault", ["noise halved", "sensitivity off by one", "monotone claimed", "spent twice"])
def test_the_exact_loss_tells_a_wrong_constant(kind, fault) -> None:
    if fault == "noise halved":
        loss = worst(kind, (-1, 0, 1), epsilon=2 * EPSILON)
    elif fault == "sensitivity off by one":
        loss = worst(kind, (-2, 0, 2))
    elif fault == "monotone claimed":
        loss = worst(kind, (-1, 0, 1), monotone=True)
    else:
        loss = 2 * worst(kind, (-1, 0, 1))
    assert loss > EPSILON


def noisy_max_probabilities(scores, scale):
    support, mass = geometric_mass(scale)
    result = []
    for at, own in enumerate(scores):
        others = np.ones(support.size)
        for place, other in enumerate(scores):
            if place != at:
                # a tie goes to the lower index
                others *= 1 - tail(scale, own + support - other + (0 if place < at else 1))
        result.append(float((mass * others).sum()))
    return result


@pytest.mark.parametrize(("moves", "monotone"), [((-1, 0, 1), False), ((0, 1), True)])
def test_noisy_max_stays_within_epsilon_and_halved_noise_does_not(moves, monotone) -> None:
    def loss(scale):
        pairs = [pair for pair in score_pairs(moves) if min(pair[0]) > -100]
        return max(
            np.abs(np.log(np.divide(noisy_max_probabilities(a, scale), noisy_max_probabilities(b, scale)))).max()
            for a, b in pairs
        )

    scale = laplace_scale(EPSILON, 1 if monotone else 2)
    assert loss(scale) <= EPSILON + TOLERANCE
    assert loss(scale / 2) > EPSILON


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "chances"), [(exponential_mechanism, "exponential"), (permute_and_flip, "flip")])
def test_draws_follow_the_probabilities(mechanism, chances) -> None:
    scores, noise, draws = [0.0, 2.5, 2.0, -1.0], SeededNoise(5), 4000
    drawn = np.bincount(
        [mechanism(scores, epsilon=1, l_inf_sensitivity=1, noise=noise) for _ in range(draws)], minlength=4
    )
    expected = np.array([float(p) for p in PROBABILITIES[chances](scores, epsilon=1, sensitivity=1, monotone=False)])
    assert np.all(np.abs(drawn / draws - expected) < 4 * np.sqrt(expected * (1 - expected) / draws))
    halved = np.array([float(p) for p in PROBABILITIES[chances](scores, epsilon=2, sensitivity=1, monotone=False)])
    assert not np.all(np.abs(drawn / draws - halved) < 4 * np.sqrt(halved * (1 - halved) / draws))


def test_permute_and_flip_never_scores_lower_than_the_exponential_mechanism() -> None:
    options = {"epsilon": EPSILON, "sensitivity": 1, "monotone": False}
    for scores, _ in score_pairs((0,)):
        flip, exponential = flip_probabilities(scores, **options), exponential_probabilities(scores, **options)
        assert sum(flip) == sum(exponential) == 1
        assert np.dot(scores, flip) >= np.dot(scores, exponential)


def point_probabilities(values, *, steps, widen=0, epsilon=EPSILON, sensitivity=2):
    scores, lengths = median_intervals(values, steps=steps, widen=widen)
    masses = exponential_probabilities(scores, lengths, epsilon=epsilon, sensitivity=sensitivity, monotone=False)
    return [m / int(n) for m, n in zip(masses, lengths, strict=True) if n for _ in range(n)]


def median_loss(neighbours, widen, sensitivity):
    steps, worst_seen = 4, 0.0
    for size in range(4):
        for values in itertools.combinations_with_replacement(range(steps), size):
            for new in range(steps):
                others = [[*values, new]]
                if neighbours is Neighbours.REPLACE_ONE:
                    others = [[*values[:i], new, *values[i + 1 :]] for i in range(size)]
                for other in others:
                    options = {"steps": steps, "widen": widen, "sensitivity": sensitivity}
                    worst_seen = max(
                        worst_seen,
                        log_ratio(point_probabilities(values, **options), point_probabilities(other, **options)),
                    )
    return worst_seen


@pytest.mark.parametrize("widen", [0, 1])
def test_median_is_private_under_both_relations(widen) -> None:
    assert median_loss(Neighbours.REPLACE_ONE, widen, 2) <= EPSILON + TOLERANCE
    assert median_loss(Neighbours.ADD_REMOVE, widen, 1) <= EPSILON + TOLERANCE


def test_median_with_the_weights_of_added_rows_fails_for_replaced_ones() -> None:
    assert median_loss(Neighbours.REPLACE_ONE, 0, 1) > EPSILON
    assert median_loss(Neighbours.ADD_REMOVE, 0, 0.5) > EPSILON


def test_widened_scores_are_the_best_within_reach() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        steps, widen = 12, int(rng.integers(1, 4))
        values = np.sort(rng.integers(0, steps, size=rng.integers(0, 7)))
        scores, lengths = median_intervals(values, steps=steps, widen=widen)
        got = np.repeat(scores, lengths)
        size = values.size
        for y in range(steps):
            # points of the real line strictly within reach of the cell [y, y + 1)'s own point: gaps and values
            best = -abs(2 * int((values <= y - widen).sum()) - size)
            for z in range(y - widen + 1, y + widen + 1):
                low, high = 2 * int((values < z).sum()), 2 * int((values <= z).sum())
                best = max(best, -max(low - size, size - high, 0))
            assert got[y] == best


def test_interval_choice_covers_its_points_and_skips_empty_intervals() -> None:
    noise = SeededNoise(2)
    drawn = {
        interval_exponential([0, 5, 0], [2, 0, 3], epsilon=1, l_inf_sensitivity=1, noise=noise) for _ in range(200)
    }
    assert drawn == set(range(5))
    assert median_by_exponential([], steps=7, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=noise) in range(7)


def test_median_of_many_values_is_near_the_truth_with_secure_noise() -> None:
    values = np.arange(10_000) * 100
    got = median_by_exponential(
        values, steps=1_000_000, epsilon=1, neighbours=Neighbours.REPLACE_ONE, noise=SecureNoise()
    )
    assert abs(got - 500_000) < 100 * 60


def test_uniform_below_is_uniform_on_a_bound_that_is_no_power_of_two() -> None:
    noise = SeededNoise(1)
    drawn = np.bincount([uniform_below(5, noise) for _ in range(5000)], minlength=5)
    assert np.all(np.abs(drawn - 1000) < 4 * np.sqrt(5000 * 0.2 * 0.8))
    assert uniform_below(1, noise) == 0
    with pytest.raises(ValueError, match="bound"):
        uniform_below(0, noise)


def test_odd_scores_never_raise_and_bad_parameters_do() -> None:
    options = {"epsilon": 1, "l_inf_sensitivity": 1, "noise": SeededNoise(1)}
    assert exponential_mechanism([np.nan, np.inf, -np.inf], **options) == 1
    assert permute_and_flip([np.nan, 3.0], **options) == 1
    with pytest.raises(InvalidRequest, match="epsilon"):
        exponential_mechanism([1], **{**options, "epsilon": 0})
    with pytest.raises(ValueError, match="sensitivity"):
        permute_and_flip([1], **{**options, "l_inf_sensitivity": 0})
    with pytest.raises(BudgetOverspent):
        report_noisy_max([1, 2], **options, meter=BudgetMeter("0.5"))
