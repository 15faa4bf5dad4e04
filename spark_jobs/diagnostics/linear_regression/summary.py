"""Summarises a draw as the lines that are released; deterministic post-processing, at no cost."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.figure import Ends, Figure, Numbers
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.contract.options.linear import GRADIENTS
from spark_jobs.contract.results.lines import LinearFit
from spark_jobs.diagnostics.linear_regression.intervals import (
    Simulated,
    half_widths_of_lines,
    half_widths_of_sums,
    moved_by_rounding,
)
from spark_jobs.diagnostics.linear_regression.measurement import LinesDraw, MethodDraw, NoisyHeights
from spark_jobs.diagnostics.linear_regression.method_choice import MEAN, MIN_GROUPS
from spark_jobs.diagnostics.linear_regression.robust_intervals import robust_half_widths
from spark_jobs.diagnostics.linear_regression.shrinkage import shrunk_lines, significant
from spark_jobs.mechanisms.regression.lines import NoisyLines
from spark_jobs.mechanisms.regression.moments import NoisyMoments

DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """Lines in units of the box, with their intervals; arrays of shape (groups,) or (groups, places).

    The last place of ``heights`` is the user's x = 0. Intervals are ``slope_centre`` and ``centre`` plus or minus their
    half-widths.
    """

    slope: FloatArray
    heights: FloatArray
    failed: BoolArray
    rows: FloatArray
    slope_centre: FloatArray
    slope_half_width: FloatArray
    centre: FloatArray
    half_width: FloatArray


def summarise(measurement: LinesDraw, *, seed: int) -> LinearFit:
    """The lines of a draw; the same draw and seed give the same result.

    Args:
        measurement: the draw.
        seed: public seed of the simulations for intervals.
    """
    (x_low, x_high), (y_low, y_high) = measurement.x_bounds, measurement.y_bounds
    wide, high = x_high - x_low, y_high - y_low
    at = np.array(measurement.at)
    places = np.append(at, -x_low / wide)
    simulated = Simulated.drawn(seed=seed, confidence=measurement.confidence)
    methods = np.empty(measurement.groups, dtype=object)
    columns: dict[str, FloatArray] = {}
    for part in measurement.parts:
        methods[part.groups] = part.method
        lines = _of_part(part, places, simulated, measurement)
        for field in fields(lines):
            values = getattr(lines, field.name)
            columns.setdefault(field.name, np.empty((measurement.groups, *values.shape[1:])))[part.groups] = values
    slopes, heights = _slopes(columns, measurement.cells), _heights(columns, places, measurement.cells)
    failed = columns["failed"] > 0

    def own(values: FloatArray) -> FloatArray:
        """``values`` as published, with NaN for groups without a slope."""
        return np.where(failed, np.nan, _rounded(values))

    return LinearFit(
        keys=measurement.keys,
        at=at,
        x=x_low + wide * at,
        predictions=heights.mapped(lambda values: _rounded(y_low + high * values[:, :-1])),
        slope=slopes.mapped(lambda values: own(values * (high / wide))),
        intercept=heights.mapped(lambda values: own(y_low + high * values[:, -1])),
        status=tuple(np.where(failed, UNDEFINED, OK).tolist()),
        rows=_rounded(np.maximum(columns["rows"], 0.0)),
        total_rows=float(_rounded(columns["rows"].sum(keepdims=True))[0]),
        methods=tuple(methods.tolist()),
        method=measurement.method,
        x_bounds=measurement.x_bounds,
        y_bounds=measurement.y_bounds,
        public_sizes=measurement.public_sizes,
        confidence=measurement.confidence,
        delta=measurement.delta,
        **measurement.stated,
    )


def _slopes(columns: dict[str, FloatArray], cells: int) -> Numbers:
    """Slopes and their intervals, clipped to the steepest slope between two points of the grid."""
    slope, centre, half_width = (columns[name] for name in ("slope", "slope_centre", "slope_half_width"))
    low, high = (np.clip(centre + side * half_width, -cells, cells) for side in (-1.0, 1.0))
    return Figure(value=slope, interval=Ends(np.minimum(low, slope), np.maximum(high, slope)))


def _heights(columns: dict[str, FloatArray], places: FloatArray, cells: int) -> Numbers:
    """Heights and their intervals, finite; predictions are clipped to the box."""
    # a line lies within the box at its mean of x, and is no steeper than the grid allows
    far = cells * np.maximum(np.abs(places), np.abs(places - 1.0))
    lowest, highest = np.append(np.zeros(places.size - 1), -far[-1]), np.append(np.ones(places.size - 1), 1.0 + far[-1])
    heights = np.clip(columns["heights"], lowest, highest)
    low, high = (np.clip(columns["centre"] + side * columns["half_width"], lowest, highest) for side in (-1.0, 1.0))
    return Figure(value=heights, interval=Ends(np.minimum(low, heights), np.maximum(high, heights)))


def _of_part(part: MethodDraw, places: FloatArray, simulated: Simulated, measurement: LinesDraw) -> _Lines:
    draw, public_sizes = part.draw, measurement.public_sizes
    if isinstance(draw, NoisyHeights):
        return _of_heights(draw, places)
    if isinstance(draw, NoisyMoments):
        return _of_sums(draw, places, simulated, measurement.off)
    slope, heights = draw.slope, draw.centre[:, None] + draw.slope[:, None] * (places - 0.5)
    if part.method in GRADIENTS:
        rows = draw.rows if public_sizes else np.full(slope.size, np.nan)
        return _without_interval(slope, heights, draw.failed, rows)
    half_width = half_widths_of_lines(draw, places, simulated, level=part.method == MEAN)
    return _Lines(
        slope=slope,
        heights=heights,
        failed=draw.failed,
        rows=draw.rows,
        slope_centre=slope,
        slope_half_width=half_width.slope,
        centre=heights,
        half_width=half_width.heights,
    )


def _of_sums(moments: NoisyMoments, places: FloatArray, simulated: Simulated, off: float) -> _Lines:
    """Shrunk lines (``shrinkage``), with intervals around them, or around least squares lines if there are few.

    What rounding may have moved is added in squares: no table whose values have nothing to do with the lattice is moved
    as far, and with the worst one 0.86 of 0.9 hold where it is as large as 0.4 of the noise.
    """
    lines: NoisyLines = moments.lines()
    shrunk = shrunk_lines(moments)
    slope, heights = shrunk.slope, (1 + shrunk.at(2 * places - 1)) / 2
    if moments.rows.size >= MIN_GROUPS:
        half_width = robust_half_widths(shrunk, 2 * places - 1, simulated.confidence)
        slope_centre, centre = slope - half_width.slope_above, heights - half_width.heights_above / 2
    else:
        half_width = half_widths_of_sums(moments, 2 * places - 1, simulated)
        slope_centre = lines.slope - half_width.slope_above
        centre = lines.centre[:, None] + lines.slope[:, None] * (places - 0.5) - half_width.heights_above / 2
    moved = moved_by_rounding(moments, lines.slope, 2 * places - 1, off)
    return _Lines(
        slope=slope,
        heights=heights,
        failed=lines.failed,
        rows=moments.rows,
        slope_centre=slope_centre,
        slope_half_width=np.hypot(half_width.slope, moved.slope),
        centre=centre,
        half_width=np.hypot(half_width.heights, moved.heights) / 2,
    )


def _of_heights(draw: NoisyHeights, places: FloatArray) -> _Lines:
    first, second = draw.places
    slope = (draw.heights[:, 1] - draw.heights[:, 0]) / (second - first)
    heights = draw.heights[:, :1] + slope[:, None] * (places - first)
    return _without_interval(slope, heights, np.zeros(slope.size, dtype=bool), draw.rows)


def _without_interval(slope: FloatArray, heights: FloatArray, failed: BoolArray, rows: FloatArray) -> _Lines:
    none, no_heights = np.full(slope.shape, np.nan), np.full(heights.shape, np.nan)
    return _Lines(
        slope=slope,
        heights=heights,
        failed=failed,
        rows=rows,
        slope_centre=none,
        slope_half_width=none,
        centre=no_heights,
        half_width=no_heights,
    )


def _rounded(values: FloatArray) -> FloatArray:
    """``values`` as published: rounded to 12 significant digits, since further digits differ between machines."""
    return significant(values, DIGITS) + 0.0
