"""Which bounds and cells make a grid of values: known from a request, whatever the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spark_jobs.contract.errors import InvalidRequest

MAX_BOUND = 1e100
"""Of public bounds and units in a request, and its inverse of their distance: slopes, axes and squares stay finite."""
LARGEST = 2.0**1000
"""Bounds and units of any grid stay within this and its inverse: nothing on the way to a position overflows."""
FINEST = 2.0**-48
"""The least width of a cell, as a share of the larger bound."""
DEFAULT_LOG_UNIT = 2.0**-20
"""Where a logarithmic grid holds 0 and no unit is given: this share of its larger bound is the unit."""
RESIDUAL_DOUBLINGS, RESIDUAL_STEPS = 60, 64
"""Of the axes that residuals are counted on: doublings of the unit, and cells of each of them."""
RESIDUAL_KEYS = (2 * RESIDUAL_STEPS * (RESIDUAL_DOUBLINGS + 2)) ** 2
"""Cells of ``statistics.ResidualCounts``, of which most are empty: 7936 of either axis."""


def are_bounds(values: Sequence[float]) -> bool:
    """Whether these are two public bounds that a request may give: ascending, finite, and neither vast nor as one."""
    return (
        len(values) == 2 and -MAX_BOUND <= values[0] < values[1] <= MAX_BOUND and values[1] - values[0] >= 1 / MAX_BOUND
    )


def unit_of_log(lower: float, upper: float, unit: float | None = None) -> float:
    """The smallest size that a logarithmic grid tells apart from 0: ``unit``, or what its bounds make of None."""
    if unit is not None:
        return float(unit)
    nearer = 0.0 if lower <= 0 <= upper else min(abs(lower), abs(upper))
    return nearer or max(abs(lower), abs(upper)) * DEFAULT_LOG_UNIT


def check_grid(*, lower: float, upper: float, cells: int, scale: str, unit: float | None) -> None:
    """Refuse bounds and cells that make no grid (``statistics.ValueGrid``).

    Raises:
        InvalidRequest: the bounds are no numbers in ascending order, or the cells too narrow for them, or the unit is
            none of a logarithmic grid between them.
    """
    if not (-LARGEST <= lower < upper <= LARGEST) or math.isinf(1 / (upper - lower)):
        raise InvalidRequest(
            "bounds",
            value=f"{lower}, {upper}",
            requirement="must be two numbers in ascending order, not beyond 2^1000",
            remedy="give public bounds of the values, such as [0, 1000000]",
        )
    if (upper - lower) / cells < FINEST * max(abs(lower), abs(upper)):
        raise InvalidRequest(
            "cells",
            value=cells,
            requirement="must leave cells that double precision can tell apart",
            remedy="give fewer cells, or bounds that are further apart",
        )
    if scale not in ("linear", "log"):
        raise InvalidRequest("scale", value=scale, requirement="must be linear or log", remedy="choose one")
    if scale == "log":
        _check_unit(lower, upper, cells, unit_of_log(lower, upper, unit))
    elif unit is not None:
        raise InvalidRequest("unit", value=unit, requirement="is of scale: log", remedy="leave it out")


def steps_of_log(lower: float, upper: float, cells: int, unit: float) -> int:
    """Cells of one doubling, of a logarithmic grid of at most ``cells`` cells; below 1 where they do not suffice."""
    sides = [_doublings(abs(bound) / unit) for bound in (lower, upper)]
    span = sides[1] - sides[0] if lower >= 0 else sum(sides) if upper > 0 else sides[0] - sides[1]
    return max(0, math.floor((cells - 4) / span))


def _check_unit(lower: float, upper: float, cells: int, unit: float) -> None:
    if not 1 / LARGEST <= unit < max(abs(lower), abs(upper)):
        raise InvalidRequest(
            "unit",
            value=unit,
            requirement="must be above 0 and below the larger bound",
            remedy="give the smallest size that matters",
        )
    if steps_of_log(lower, upper, cells, unit) < 1:
        raise InvalidRequest(
            "cells",
            value=cells,
            requirement="must be at least one for each doubling from the unit to the bounds",
            remedy="give more cells, a larger unit or closer bounds",
        )


def _doublings(size: float) -> float:
    """Position of ``size`` units in doublings: linear within each of them, 0 up to the unit."""
    if size < 1:
        return 0.0
    mantissa, exponent = math.frexp(size)
    return exponent - 1 + (2 * mantissa - 1)
