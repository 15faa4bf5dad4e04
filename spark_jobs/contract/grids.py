"""Checks that bounds and a number of cells make a valid grid of values; only the request decides, never the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spark_jobs.contract.errors import InvalidRequest

MAX_BOUND = 1e100
"""The largest size of public bounds and units in a request; its inverse is the smallest distance of two bounds and the
smallest unit. Slopes, axes and squares then stay finite."""
LARGEST = 2.0**1000
"""The largest size of bounds and units of any grid, whose inverse is the smallest: computing a position never
overflows."""
FINEST = 2.0**-48
"""The smallest width of a cell, as a fraction of the larger bound."""
DEFAULT_LOG_UNIT = 2.0**-20
"""The default unit of a logarithmic grid that contains 0, as a fraction of its larger bound."""
RESIDUAL_DOUBLINGS, RESIDUAL_STEPS = 60, 64
"""For each axis of the grid of residuals: how often the unit is doubled, and the number of cells in each doubling."""
SCORE_CELLS, LINEAR_SCORE_CELLS, PAIR_CELLS = 76_290, 65_536, 3_714
"""The numbers of cells of the grids of a score (``score_grid``): the grid that is finer towards 0 and 1; the one of
equal width, which was used before; and that of each of two scores that are counted together."""
TAIL_DOUBLINGS = 30
"""Scores differ down to a distance of 2^-30 to 0 and to 1."""
EARLIEST_ROUNDING, ROUNDING = "1", "2"
"""The rules by which values and thresholds were and are compared on a public grid: 1 moved a threshold up to the next
edge, and read a cell's lower edge off a grid; 2 is in ``statistics.value_grid``. Draws and releases keep the rule that
they state; without a statement that is 1."""
NEAR = 1e-6
"""The part of a step within which a number is taken for the nearest value of the lattice."""
MAX_STEPS_FROM_ZERO = 1e9
"""The largest size of a bound in steps; beyond, double precision cannot tell ``NEAR``."""
RESIDUAL_KEYS = (2 * RESIDUAL_STEPS * (RESIDUAL_DOUBLINGS + 2)) ** 2
"""The number of cells of ``statistics.ResidualCounts``, 7936 along each axis; most of them are empty."""


def are_bounds(values: Sequence[float]) -> bool:
    """Whether a request may give these public bounds: two finite, ascending numbers, not too large or too close."""
    return (
        len(values) == 2 and -MAX_BOUND <= values[0] < values[1] <= MAX_BOUND and values[1] - values[0] >= 1 / MAX_BOUND
    )


def unit_of_log(lower: float, upper: float, unit: float | None = None) -> float:
    """The smallest size that a logarithmic grid distinguishes from 0: ``unit``, or a default from the bounds."""
    if unit is not None:
        return float(unit)
    nearer = 0.0 if lower <= 0 <= upper else min(abs(lower), abs(upper))
    return nearer or max(abs(lower), abs(upper)) * DEFAULT_LOG_UNIT


def check_grid(
    *, lower: float, upper: float, cells: int, scale: str, unit: float | None, step: float | None = None
) -> None:
    """Reject bounds and cells that do not make a valid grid (``statistics.ValueGrid``).

    Raises:
        InvalidRequest: the bounds are not numbers in ascending order, the cells are too narrow for double precision,
            the unit does not suit a logarithmic grid between the bounds, or the step does not divide their range.
    """
    if not (-LARGEST <= lower < upper <= LARGEST) or math.isinf(1 / (upper - lower)):
        raise InvalidRequest(
            "bounds", f"{lower}, {upper}", "must be two numbers in ascending order, both between -2^1000 and 2^1000",
            "give public bounds of the values, such as [0, 1000000]",
        )  # fmt: skip
    if step is not None:
        _check_step(lower, upper, scale, step)
    elif scale != "score" and (upper - lower) / cells < FINEST * max(abs(lower), abs(upper)):
        raise InvalidRequest(
            "cells", cells, "must leave cells that double precision can distinguish",
            "give fewer cells, or bounds that are further apart",
        )  # fmt: skip
    if scale not in ("linear", "log", "score"):
        raise InvalidRequest("scale", scale, "must be linear, log or score", "choose one")
    if scale == "log":
        _check_unit(lower, upper, cells, unit_of_log(lower, upper, unit))
    elif unit is not None:
        raise InvalidRequest("unit", unit, "may be given only with scale: log", "leave it out")


def values_of_steps(lower: float, upper: float, step: float) -> int:
    """How many values ``lower``, ``lower + step``, ..., ``upper`` there are."""
    return round((upper - lower) / step) + 1


def values_in_cell(lower: float, upper: float, step: float, cells: int) -> int:
    """How many consecutive values each cell takes: the smallest number for which at most ``cells`` cells suffice."""
    return -(-values_of_steps(lower, upper, step) // cells)


def _check_step(lower: float, upper: float, scale: str, step: float) -> None:
    if scale != "linear":
        raise InvalidRequest("step", step, f"cannot be combined with scale: {scale}", "leave out step or scale")
    if not step > 0 or max(abs(lower), abs(upper)) > MAX_STEPS_FROM_ZERO * step:
        raise InvalidRequest(
            "step", step, "must be above 0 and at least a billionth of the larger bound",
            "give the distance between neighbouring values, such as 1 or 0.01",
        )  # fmt: skip
    steps = (upper - lower) / step
    if round(steps) < 1 or abs(steps - round(steps)) > NEAR:
        raise InvalidRequest(
            "step", step, f"must divide the range of the values, [{lower:.12g}, {upper:.12g}]",
            "give bounds that are a whole number of steps apart",
        )  # fmt: skip


def steps_of_log(lower: float, upper: float, cells: int, unit: float) -> int:
    """The cells per doubling of a logarithmic grid with at most ``cells`` cells; 0 if these are too few."""
    sides = [_doublings(abs(bound) / unit) for bound in (lower, upper)]
    span = sides[1] - sides[0] if lower >= 0 else sum(sides) if upper > 0 else sides[0] - sides[1]
    return max(0, math.floor((cells - 4) / span))


def _check_unit(lower: float, upper: float, cells: int, unit: float) -> None:
    if not 1 / LARGEST <= unit < max(abs(lower), abs(upper)):
        raise InvalidRequest(
            "unit", unit, "must be above 0 and below the larger bound", "give the smallest size that matters"
        )
    if steps_of_log(lower, upper, cells, unit) < 1:
        raise InvalidRequest(
            "cells", cells, "must be at least one for each doubling from the unit to the bounds",
            "give more cells, a larger unit or closer bounds",
        )  # fmt: skip


def _doublings(size: float) -> float:
    """The position of a value of ``size`` units, in doublings: linear within each doubling, 0 up to one unit."""
    if size < 1:
        return 0.0
    mantissa, exponent = math.frexp(size)
    return exponent - 1 + (2 * mantissa - 1)
