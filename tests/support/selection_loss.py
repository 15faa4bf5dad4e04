"""Output probabilities of selection, exactly, from the integers and scales the product uses."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from spark_jobs.mechanisms.exact_choice import FLOOR, UNIT, choice_masses, exponential_rate, integer_weights


def exponential_probabilities(scores: Any, lengths: Any = None, **options: Any) -> list[Fraction]:
    """P(candidate) of the exponential mechanism, candidates weighted by their lengths."""
    scores = np.asarray(scores)
    lengths = np.ones(scores.size, np.int64) if lengths is None else np.asarray(lengths, dtype=np.int64)
    kept = lengths > 0
    levels, weights = integer_weights(scores[kept], exponential_rate(**options))
    masses = choice_masses([weights[level] for level in levels], lengths[kept])
    result = [Fraction(0)] * scores.size
    for at, mass in zip(np.flatnonzero(kept), masses, strict=True):
        result[at] = Fraction(mass, sum(masses))
    return result


def flip_probabilities(scores: Any, **options: Any) -> list[Fraction]:
    """P(candidate) of permute-and-flip: ``p_i`` times the integral of the product of the others' ``1 - t p_j``."""
    levels, weights = integer_weights(scores, exponential_rate(**options))
    accept = [Fraction(min(weights[level] + FLOOR, UNIT), UNIT) for level in levels]
    result = []
    for at, own in enumerate(accept):
        polynomial = [Fraction(1)]
        for other in accept[:at] + accept[at + 1 :]:
            longer = [*polynomial, Fraction(0)]
            for power, coefficient in enumerate(polynomial):
                longer[power + 1] -= other * coefficient
            polynomial = longer
        result.append(own * sum(c / (power + 1) for power, c in enumerate(polynomial)))
    return result


def log_ratio(one: list[Fraction], other: list[Fraction]) -> float:
    """The largest ``|log P(output) / P'(output)|``; infinite where only one can happen."""
    worst = 0.0
    for left, right in zip(one, other, strict=True):
        if (left == 0) != (right == 0):
            return math.inf
        if left:
            ratio = left / right
            worst = max(worst, abs(math.log(ratio.numerator) - math.log(ratio.denominator)))
    return worst
