"""Intervals of a ratio of two noisy numbers, by inversion: they hold for groups of any size, empty ones too.

A mean ``t`` is the ratio of a sum to a number of rows. For the true t, the released sum less t times the released rows
is noise alone, whose law is public. The interval is from the smallest to the largest t for which the absolute value of
this difference is at most the quantile of its noise. The level is exact for every number of rows, as it does not
require that the noise is small beside the rows (Fieller 1954, with another law).
"""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends
from spark_jobs.diagnostics.aggregates.simulated import SimulatedNoise
from spark_jobs.mechanisms.cell_noise import CellNoise

PLACES = 201
"""Places of t at which quantiles are computed; between them they are interpolated, to 10^-5 of themselves."""
_AT_ONCE = 1 << 14
"""Cells whose places are computed together: 50 MiB."""


def ratio_intervals(
    sums: FloatArray, rows: FloatArray, law: CellNoise | SimulatedNoise, level: float
) -> Ends[FloatArray]:
    """The intervals of ``sums / rows`` within [-1, 1].

    Args:
        sums: noisy sums of numbers from -1 to 1, one for each cell.
        rows: noisy numbers of rows.
        law: the noise in ``sums`` and ``rows``.
        level: nominal level of an interval for the ratio without noise.
    """
    places = np.linspace(-1.0, 1.0, PLACES)
    reach = law.quantile_of_difference(level, places)
    parts = [
        kept_ratios(sums[start : start + _AT_ONCE], rows[start : start + _AT_ONCE], places, reach)
        for start in range(0, max(sums.size, 1), _AT_ONCE)
    ]
    lower, upper = (np.concatenate([part[end] for part in parts]) for end in range(2))
    return Ends(lower, upper)


def kept_ratios(
    sums: FloatArray, rows: FloatArray, places: FloatArray, reach: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The smallest and the largest ratio for which ``sums - ratio rows`` is within ``reach``.

    Between two neighbouring ``places`` everything is linear in the ratio, so that the ends are computed exactly. If no
    ratio qualifies, both ends are the end of the range that is nearest to qualifying.

    Args:
        sums: the sum of each cell; shape (k,).
        rows: the rows of each cell; shape (k,).
        places: ratios, ascending from -1 to 1.
        reach: how far ``sums - ratio rows`` may be from 0, at each place; shape (places,) or (k, places).
    """
    difference = sums[:, None] - rows[:, None] * places
    above, below = difference - reach, -difference - reach  # a ratio is kept where neither exceeds 0
    first = np.maximum(_enters(above), _enters(below))
    last = np.minimum(_leaves(above), _leaves(below))
    kept = first <= last
    width = places[1] - places[0]
    low = np.where(kept, places[:-1] + width * first, np.inf).min(axis=1)
    high = np.where(kept, places[:-1] + width * last, -np.inf).max(axis=1)
    beyond = np.abs(difference) - reach
    nearest = np.where(beyond[:, -1] < beyond[:, 0], 1.0, -1.0)
    none = ~kept.any(axis=1)
    return np.where(none, nearest, low), np.where(none, nearest, high)


def _enters(values: FloatArray) -> FloatArray:
    """Where in each segment, from 0 to 1, a linear function is first at most 0; infinity if nowhere."""
    left, right = values[:, :-1], values[:, 1:]
    falls = left > right
    crossing = np.where(falls, left, 0.0) / np.where(falls, left - right, 1.0)
    return np.where(left <= 0, 0.0, np.where(right <= 0, crossing, np.inf))


def _leaves(values: FloatArray) -> FloatArray:
    """Where in each segment a linear function is last at most 0; minus infinity if nowhere."""
    left, right = values[:, :-1], values[:, 1:]
    rises = right > left
    crossing = np.where(rises, -left, 0.0) / np.where(rises, right - left, 1.0)
    return np.where(right <= 0, 1.0, np.where(left <= 0, crossing, -np.inf))
