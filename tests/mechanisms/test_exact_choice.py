import math
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import chisquare

from spark_jobs.mechanisms import exact_choice
from spark_jobs.mechanisms.exact_choice import (
    FLOOR,
    MAX_POINTS,
    UNIT,
    WEIGHT_BITS,
    choice_masses,
    choose_point,
    coins,
    exponential_rate,
    integer_weights,
    point_weight,
)
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.selection import interval_exponential


@pytest.mark.parametrize("rate", ["0.001", "0.7", "40", "1e9"])
def test_a_weight_is_the_one_that_levels_are_given(rate):
    scores = np.array([0, -1, -2, -5, -90, -1000, -(10**6)])
    levels, weights = integer_weights(scores, Decimal(rate))
    for score, level in zip(scores.tolist(), levels.tolist(), strict=True):
        # the lemma of the module allows 2^24 units
        assert abs(point_weight(-score, Decimal(rate)) - weights[level]) < 2**10


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.1", "2", "1e9"])
def test_points_are_drawn_with_the_chances_of_choose(epsilon):
    scores, lengths = np.array([-3, 0, 5, -9, -1, -1]), np.array([7, 3, 0, 10, 1, 2])
    rate = exponential_rate(epsilon, 2, monotone=False)
    kept = lengths > 0
    levels, weights = integer_weights(scores[kept], rate)
    masses = np.array(choice_masses([weights[level] for level in levels], lengths[kept]), dtype=object)
    chances = np.repeat((masses / masses.sum()).astype(float) / lengths[kept], lengths[kept])
    noise, draws = SeededNoise(1), 6000
    starts = np.cumsum(lengths) - lengths
    found = np.zeros(chances.size)
    for _ in range(draws):
        at, offset = choose_point(scores, lengths, rate, noise)
        assert 0 <= offset < lengths[at]
        found[starts[at] + offset] += 1
    assert (found[chances * draws < 1e-3] == 0).all()
    likely = chances * draws > 5
    assert chisquare(found[likely], chances[likely] * found[likely].sum() / chances[likely].sum()).pvalue > 1e-5


@pytest.mark.slow
def test_rough_weights_decide_how_often_it_tries_and_nothing_else(monkeypatch):
    """With proposals that are far too large for one candidate, what is taken is the same."""
    scores, lengths = np.array([0, -1]), np.array([1, 1])
    rate, noise = Decimal("0.5"), SeededNoise(2)
    monkeypatch.setattr(exact_choice.np, "exp", lambda gaps: np.array([1.0, 0.6065306597126334 * 1.6]))
    taken = np.mean([choose_point(scores, lengths, rate, noise)[0] for _ in range(6000)])
    assert taken == pytest.approx(1 / (1 + math.exp(0.5)), abs=0.03)


def test_the_best_of_a_million_ties_in_one_point_is_found():
    scores = np.full(2**20, -(10**6))
    scores[777] = 0
    noise = SecureNoise()
    for _ in range(5):
        assert choose_point(scores, np.ones(scores.size, np.int64), Decimal("0.5"), noise) == (777, 0)


def test_bits_and_bounds_fit():
    scores, noise = np.zeros(2, np.int64), SeededNoise(1)
    assert WEIGHT_BITS == 320
    at, offset = choose_point(scores, np.array([0, MAX_POINTS]), Decimal(1), noise)
    assert at == 1
    assert 0 <= offset < MAX_POINTS
    for lengths in ([0, 0], [1, MAX_POINTS], [-1, 5]):
        with pytest.raises(ValueError, match="lengths"):
            choose_point(scores, np.array(lengths), Decimal(1), noise)


def test_an_interval_beyond_the_many_is_still_chosen_by_levels():
    options = {"epsilon": 1, "l_inf_sensitivity": 1, "noise": SeededNoise(3)}
    assert 0 <= interval_exponential([0, -1], [1, 2**40 - 1], **options) < 2**40
    assert 0 <= interval_exponential([0.0, -1.5], [1, 1], **options) < 2


class Words:
    """Words that are given, not drawn."""

    def __init__(self, *drawn):
        self.drawn = list(drawn)

    def words(self, count):
        return np.array([self.drawn.pop(0) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize(("more", "heads"), [(0, False), (1, True)])
def test_a_coin_whose_first_bits_do_not_decide_is_tossed_on_to_the_last(more, heads):
    levels, weights = np.array([0, 1, 1]), [UNIT, UNIT // 2 - FLOOR + more]
    noise = Words(2**64 - 1, 2**63, 2**63 - 1, 5, 5, 5, 5, 0, 0, 0, 0)
    assert coins(levels, weights, noise).tolist() == [True, heads, True]
    assert noise.drawn == []
