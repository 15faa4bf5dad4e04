"""Published bounds of how far one replaced row moves an average precision: valid, and far too large. For tests alone.

Boyd, Lantz, Page, *Differential privacy for classifier evaluation*, 2015, equations 10 and 33.
"""

from __future__ import annotations

from math import log


def with_logarithms(positives: int) -> float:
    """Equation 10."""
    n = positives
    return max(log(n + 1) / n, (9 + log(n - 1)) / (4 * (n - 1))) + max(log(n + 1) / n, (9 + log(n)) / (4 * n))


def with_harmonic_numbers(positives: int) -> float:
    """Equation 33."""
    n = positives
    added = max((_harmonic(n + 1) - 1) / n, (8 + _harmonic(n)) / (4 * n))
    removed = max((_harmonic(n + 1) - 1) / n, (8 + _harmonic(n - 1)) / (4 * (n - 1)))
    return added + removed


def _harmonic(n: int) -> float:
    return sum(1 / i for i in range(1, n + 1))
