"""Statistical privacy audits: a lower bound on epsilon from samples, at a stated confidence.

For outputs ``M(first)`` and ``M(second)`` of neighbouring tables and any event ``E``, epsilon-DP demands ``P[M(first)
in E] <= exp(epsilon) P[M(second) in E]``. Clopper-Pearson bounds on both probabilities therefore give a lower bound
on epsilon that is wrong with a chance of at most ``FALSE_ALARM``: a bound above the claim convicts the mechanism.

Events are learned: outputs are reduced to one number (a statistic under which the tables differ most, usually the log
ratio of the claimed densities), half of the samples choose the threshold that promises most, the other half, never seen
before, is counted.

An audit that finds nothing proves nothing, so each comes with planted faults that it must convict.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

FALSE_ALARM = 1e-6
"""Chance that an audit convicts a mechanism that keeps its promise."""
LONG = os.environ.get("DP_AUDIT") == "long"


def samples(quick: int) -> int:
    """Samples of each table: few in the ordinary run, thirty times as many with ``DP_AUDIT=long``."""
    return quick * 30 if LONG else quick


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What an audit found.

    Attributes:
        epsilon: the lower bound, at confidence ``1 - FALSE_ALARM``.
        hits: how often the event happened under the table that makes it likelier, and under the other.
        samples: counted samples of each table.
    """

    epsilon: float
    hits: tuple[int, int]
    samples: int


def audit(mechanism: Callable[[Any, int], np.ndarray], first: Any, second: Any, *, samples: int) -> Finding:
    """The best lower bound on epsilon between two tables, over both directions.

    Args:
        mechanism: (table, samples) -> that many values of the statistic; larger must speak for ``first``.
        first, second: neighbouring tables.
        samples: outputs to draw of each.
    """
    drawn = np.asarray(mechanism(first, samples), dtype=float), np.asarray(mechanism(second, samples), dtype=float)
    half = samples // 2
    findings = []
    for sign in (1, -1):
        likelier, rarer = (sign * values for values in (drawn if sign == 1 else drawn[::-1]))
        threshold = _best_threshold(likelier[:half], rarer[:half])
        counted = samples - half
        hits = int((likelier[half:] >= threshold).sum()), int((rarer[half:] >= threshold).sum())
        findings.append(Finding(epsilon=_epsilon(*hits, counted), hits=hits, samples=counted))
    return max(findings, key=lambda finding: finding.epsilon)


def log_ratio(noisy: np.ndarray, first: np.ndarray, second: np.ndarray, scale: float) -> np.ndarray:
    """Log ratio of two-sided geometric densities around two exact vectors, summed over the last axis."""
    return ((np.abs(noisy - second) - np.abs(noisy - first)) / scale).sum(axis=-1)


def _best_threshold(likelier: np.ndarray, rarer: np.ndarray) -> float:
    # values that differ by rounding alone are one value; otherwise an atom of the statistic would be torn in two
    candidates = np.unique(np.round(np.concatenate([likelier, rarer]), 9))
    if candidates.size > 200:
        candidates = np.unique(np.quantile(candidates, np.linspace(0, 1, 200), method="nearest"))
    candidates = candidates - 1e-9
    bounds = [_epsilon(int((likelier >= t).sum()), int((rarer >= t).sum()), likelier.size) for t in candidates]
    return float(candidates[int(np.argmax(bounds))])


def _epsilon(likelier: int, rarer: int, count: int) -> float:
    """Clopper-Pearson at ``FALSE_ALARM`` in all: two directions, two sides."""
    alpha = FALSE_ALARM / 4
    low = beta.ppf(alpha, likelier, count - likelier + 1) if likelier else 0.0
    high = beta.isf(alpha, rarer + 1, count - rarer) if rarer < count else 1.0
    return math.log(low / high) if low > high else 0.0


@dataclass
class Tampered:
    """Noise with a fault: what a mechanism draws when its scale is wrong."""

    source: Any
    epsilon_factor: int = 1
    missing_rows: int = 0
    private = False
    guarantee = "NOT PRIVATE"

    def laplace(self, values: np.ndarray, *, epsilon: Any, l1_sensitivity: int) -> np.ndarray:
        """Less noise than was asked for."""
        return self.source.laplace(
            values, epsilon=epsilon * self.epsilon_factor, l1_sensitivity=l1_sensitivity - self.missing_rows
        )
