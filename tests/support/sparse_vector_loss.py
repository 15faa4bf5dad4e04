"""Exact output probabilities of threshold tests with two-sided geometric noise: sums over the threshold's noise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from spark_jobs.mechanisms.noise import SeededNoise, laplace_scale

REACH = 150


class RecordingNoise(SeededNoise):
    """Draws from a seed and keeps the scale of every call, so that a test sees the constants the product uses."""

    def __init__(self) -> None:
        super().__init__(7)
        self.scales: list[float] = []

    def laplace(self, values: Any, *, epsilon: Any, l1_sensitivity: int) -> Any:
        self.scales.append(laplace_scale(epsilon, l1_sensitivity))
        return super().laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)


def geometric_mass(scale: float, reach: int = REACH) -> tuple[np.ndarray, np.ndarray]:
    """The support -reach..reach and its probabilities."""
    support = np.arange(-reach, reach + 1)
    ratio = np.exp(-1 / scale)
    return support, (1 - ratio) / (1 + ratio) * ratio ** np.abs(support)


def tail(scale: float, at_least: np.ndarray) -> np.ndarray:
    """P(Z >= at_least) for two-sided geometric Z and integer bounds."""
    ratio = np.exp(-1 / scale)
    upper = ratio ** np.maximum(at_least, 1) / (1 + ratio)
    lower = 1 - ratio ** np.maximum(1 - at_least, 1) / (1 + ratio)
    return np.where(at_least >= 1, upper, lower)


def answer_probability(
    differences: Sequence[int], answers: Sequence[bool], threshold_scale: float, query_scale: float
) -> float:
    """P(the first len(answers) answers are these): ``d + nu >= rho`` for True."""
    support, mass = geometric_mass(threshold_scale)
    product = mass.copy()
    for difference, above in zip(differences, answers, strict=False):
        passing = tail(query_scale, support - difference)
        product *= passing if above else 1 - passing
    return float(product.sum())


def worst_loss(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    threshold_scale: float,
    query_scale: float,
    cutoff: int | None,
) -> float:
    """The largest |log ratio| over the pairs and over every output of a run that stops at ``cutoff`` (None: never)."""
    worst = 0.0
    for one, other in pairs:
        for answers in outputs(len(one), cutoff):
            left = answer_probability(one, answers, threshold_scale, query_scale)
            right = answer_probability(other, answers, threshold_scale, query_scale)
            if min(left, right) > 1e-12:
                worst = max(worst, abs(np.log(left / right)))
    return worst


def outputs(length: int, cutoff: int | None) -> list[tuple[bool, ...]]:
    """Every answer sequence a run can give on ``length`` queries."""
    if cutoff is None:
        return list(itertools.product((False, True), repeat=length))
    found = []
    for answers in itertools.product((False, True), repeat=length):
        passed = np.flatnonzero(answers)
        stop = passed[cutoff - 1] + 1 if len(passed) >= cutoff else length
        found.append(answers[:stop])
    return list(dict.fromkeys(found))
