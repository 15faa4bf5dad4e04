"""A warning: who knows all rows but one reads the last one's class from an exact AUC (Boyd, Lantz, Page 2015, 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import numpy as np
import pytest

from spark_jobs.diagnostics import auc
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.statistics import ScoreCounts

ROWS, VICTIMS = 120, 300


def area(labels: np.ndarray, scores: np.ndarray) -> float:
    counts = ScoreCounts.from_arrays(labels, scores, cells=4096)
    return float(auc_fraction(counts.negatives, counts.positives))


def success(publish: Callable[[np.ndarray, np.ndarray], float]) -> float:
    """How often the attacker guesses the class of a random row, which is either with equal chance."""
    generator, right = np.random.default_rng(8), 0
    for _ in range(VICTIMS):
        labels, scores = generator.integers(0, 2, ROWS), generator.random(ROWS)
        seen = publish(labels, scores)
        told = {}
        for guess in (0, 1):
            known = labels.copy()
            known[0] = guess
            told[guess] = abs(area(known, scores) - seen)
        right += min(told, key=lambda guess: told[guess]) == labels[0]
    return right / VICTIMS


@pytest.mark.parametrize(("digits", "least"), [(15, 0.99), (4, 0.95), (3, 0.75)])
def test_the_attack_succeeds_on_an_exact_area_rounded_or_not(digits: int, least: float) -> None:
    assert success(lambda labels, scores: round(area(labels, scores), digits)) > least


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5])
def test_the_attack_is_a_coin_toss_on_a_private_area(epsilon: float) -> None:
    """No attack is right more often than e^epsilon / (1 + e^epsilon), but for four standard errors of the count."""
    noise = SeededNoise(3)

    def publish(labels: np.ndarray, scores: np.ndarray) -> float:
        statistic = ScoreCounts.from_arrays(labels, scores, cells=4096)
        return auc.release(statistic, epsilon=epsilon, method="polynomial", interval=False, noise=noise).value

    bound = exp(epsilon) / (1 + exp(epsilon))
    assert success(publish) < bound + 4 * np.sqrt(0.25 / VICTIMS)
