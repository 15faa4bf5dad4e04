"""Rounding of the published numbers of tables of aggregates, to digits that are the same on all machines."""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray

DIGITS = 12
"""Significant digits of published numbers; further ones differ between machines."""


def published(values: FloatArray) -> FloatArray:
    """``values`` rounded to ``DIGITS`` significant digits, without negative zeros."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    scale = 10.0 ** np.clip(np.where(np.isfinite(place), place, 0.0), -300, 300)
    rounded: FloatArray = np.where(np.isfinite(scale), np.rint(values * scale) / scale, values)
    return rounded + 0.0
