"""The privacy loss of location-scale noise, from densities written down anew."""

from __future__ import annotations

import math

import numpy as np


def log_density(density, degrees=1, alpha=2.0):
    """log h(x) of the standard shape, up to a constant that no ratio sees."""
    if density == "cauchy":
        return lambda x: -np.log1p(x * x)
    if density == "student_t":
        return lambda x: -(degrees + 1) / 2 * np.log1p(x * x / degrees)
    if density == "laplace":
        return lambda x: -np.abs(x)
    join = (alpha - 1) * math.log1p(-1 / alpha) + (alpha + 1) * math.log1p(1 / alpha)

    def polynomial(x):
        size = np.abs(x)
        centre = (alpha - 1) * np.log1p(-np.minimum(size, 1 / alpha))
        return np.where(size <= 1 / alpha, centre, join - (alpha + 1) * np.log1p(size))

    return polynomial


def worst_loss(log_h, scale, rate, *, reach=1e5):
    """The largest |log ratio| of f + scale S X over outputs, for S = 1, S' = e^+-rate, shifts up to min(S, S')."""
    half = np.concatenate([np.linspace(0, 12, 6001), np.geomspace(12, reach, 2000)])
    x = scale * np.concatenate([-half[::-1], half])
    worst = 0.0
    for change in (0.0, rate / 2, rate):
        for shift in np.linspace(-1, 1, 9):
            # the wider of the two has bound e^change, the narrower 1, which is the smaller and limits the shift
            wide = log_h((x - shift) / (scale * math.exp(change))) - change
            worst = max(worst, float(np.abs(log_h(x / scale) - wide).max()))
    return worst


def loss_between(log_h, scale, places, *, delta=0.0):
    """The loss between two noisy statistics: each output is its value plus ``scale * bound * X``, X of density h.

    Args:
        log_h: of ``log_density``.
        scale: of the noise.
        places: value and bound of each of two tables.
        delta: 0 for the largest |log ratio|; above, the least epsilon whose hockey-stick divergence is at most this.
    """
    reach = np.geomspace(1e-6, 1e6 if delta == 0 else 1e3, 3000)
    steps = np.concatenate([-reach[::-1], [0.0], reach])
    x = np.unique(np.concatenate([value + steps * scale * bound for value, bound in places]))
    logs = [log_h((x - value) / (scale * bound)) - math.log(bound) for value, bound in places]
    ratio = logs[0] - logs[1]
    if delta == 0:
        return float(np.abs(ratio).max())
    widths = np.gradient(x)
    masses = [np.exp(log) * widths for log in logs]
    masses = [mass / mass.sum() for mass in masses]

    def divergence(epsilon):
        return max(np.maximum(one - math.exp(epsilon) * other, 0).sum() for one, other in (masses, masses[::-1]))

    low, high = 0.0, float(np.abs(ratio).max())
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if divergence(middle) <= delta else (middle, high)
    return high
