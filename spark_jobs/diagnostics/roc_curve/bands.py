"""Bands and intervals of a ROC curve, by simulation of the noise from released values alone.

The distribution of the noise is public. Possible exact counts are simulated: the noisy counts, as drawn, less fresh
noise from a seed. The noisy counts are unbiased, and rates are ratios of their sums. So quantiles over the simulated
curves are Fieller's limits (JRSS B 1954), whatever the released curve assumes; bands also contain the released curve.
Four further errors are added:

* The order of the rows inside a counted cell is unknown. If it is random, the curve deviates from its mean as a random
  path with ``p`` positive and ``q`` negative steps does, which is hypergeometric. The area deviates like the
  Mann-Whitney statistic, with variance ``p q (p + q + 1) / 12``.
* Inside a cell the curve may be bent or straight. The difference counts as one standard deviation, independently in
  each cell; for the area, half of the sum of the differences counts as one more.
* If the ratio of the classes rises or falls steadily over a cell and both of its neighbours, the curve runs between
  the cell's chord and the lines that continue the neighbours' chords. The band of the whole curve extends to them.
* In a cell that holds most of the data, the curve may run anywhere within the cell's box.

Deviations are measured across the curve, at equal FPR + TPR, so that steep and flat parts count alike.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.figure import PARTS, Ends, Figure, Numbers
from spark_jobs.diagnostics._simulation import (
    WIDEST,
    band_of_courses,
    central_range,
    normal,
    tree_errors,
    with_intervals,
)
from spark_jobs.diagnostics.roc_curve.histograms import HistogramCells
from spark_jobs.diagnostics.roc_curve.measurement import ClassCounts, RocDraw
from spark_jobs.diagnostics.roc_curve.shape import (
    CurvePoints,
    Edges,
    area,
    areas_of_cells,
    counts_above,
    read,
    read_straight,
)
from spark_jobs.diagnostics.roc_curve.trace import Trace, sampling_variance
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.noise import SeededNoise

COPIES, COPIES_OF_FULL_GRID = 400, 80
MANY_CELLS = 2_000
SIMULATED = COPIES_OF_FULL_GRID * MANY_CELLS
"""Largest number of simulated counts of a class, but for the full grid: more cells, as of a large epsilon, get fewer
copies."""
UNRESOLVED = 0.4
NO_RUN = 1e-12
"""A cell with less of the data than this has no direction."""
FLOOR = 0.5
"""Smallest count around which copies are drawn, in standard deviations of its noise: estimates of 0 are uncertain."""


def bands(draw: RocDraw, traced: Trace, *, seed: int, sampling: Sampling = OF_ROWS) -> tuple[Numbers, Figure[float]]:
    """The curve with its bands, and its area with its intervals, by simulation.

    A deterministic function of released values and the seed. Bands are [0, 1] if the curve is undefined or the
    distribution of its error is not public.

    Args:
        draw: the draw.
        traced: its curve.
        seed: public seed.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    if not (traced.defined and draw.noise_is_known):
        none, all_ = np.zeros(traced.fpr.size), np.ones(traced.fpr.size)
        widest: dict[str, Any] = dict.fromkeys(PARTS, Ends(none, all_))
        of_area = Figure(value=traced.auc, interval=WIDEST, population=WIDEST, privacy_share=1.0)
        return Figure(value=traced.tpr, **widest), of_area
    curve, points = traced.edges, traced.points
    fpr, tpr = read(curve, points, curve.straight)
    noise = SeededNoise(seed)
    at_edges, chords = _errors(draw, curve, points, noise=noise)
    bend, area_bend = _bends(curve, points)
    single = normal(noise, (len(at_edges), 1, fpr.size))
    shifts = at_edges + np.hypot(_inner_stddev(curve, points, traced.sizes), bend) * single
    areas = chords + math.hypot(_inner_area_stddev(curve, traced.sizes), area_bend) * normal(noise, chords.shape)
    independent = traced.sizes[0] / sampling.effect().value, traced.sizes[1] / sampling.effect().value
    # the order of these rows inside a cell does not matter to their population
    sampled = at_edges + _sampling(curve, points, independent, copies=len(at_edges), noise=noise) + bend * single
    (above, below), (highest, lowest) = (
        _furthest(central_range(copies, draw.confidence)) for copies in (shifts, sampled)
    )
    (above_all, below_all), (highest_all, lowest_all) = (
        _furthest(band_of_courses(copies, draw.confidence)) for copies in (shifts, sampled)
    )
    hidden_below, hidden_above = (side + _one_row(curve, traced.sizes) for side in _hidden_courses(curve, points))
    box_below, box_above, box_area = _boxes(curve, points)
    hidden = below_all + hidden_below, hidden_above - above_all

    def band(low: FloatArray, high: FloatArray) -> Ends[FloatArray]:
        return Ends(_across(fpr, tpr, -np.maximum(low, box_below)), _across(fpr, tpr, np.maximum(high, box_above)))

    of_area = with_intervals(
        area(fpr, tpr),
        areas,
        sampling=math.sqrt(sampling.effect("auc").value * sampling_variance(traced)),
        confidence=draw.confidence,
        slack=box_area,
    )
    of_curve = Figure(
        value=traced.tpr,
        interval=band(below, -above),
        everywhere=band(*hidden),
        population=band(lowest, -highest),
        population_everywhere=band(lowest_all, -highest_all),
    )
    return of_curve, replace(of_area, value=traced.auc)


def _furthest(ends: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """The furthest of the ends of a band that is measured along several directions; shapes (directions, points)."""
    return ends[0].min(axis=0), ends[1].max(axis=0)


def hidden_band(traced: Trace) -> tuple[FloatArray, FloatArray]:
    """The range of true positive rates at the curve's points that its counts leave open; the noise is not included."""
    curve, points = traced.edges, traced.points
    fpr, tpr = read(curve, points, curve.straight)
    hidden_below, hidden_above = (side + _one_row(curve, traced.sizes) for side in _hidden_courses(curve, points))
    box_below, box_above, _ = _boxes(curve, points)
    below, above = np.maximum(hidden_below, box_below), np.maximum(hidden_above, box_above)
    return _across(fpr, tpr, -below), _across(fpr, tpr, above)


def _errors(draw: RocDraw, curve: Edges, points: CurvePoints, *, noise: SeededNoise) -> tuple[FloatArray, FloatArray]:
    """Simulated errors of a released curve: across it at each point, shape (copies, points), and of its area.

    Noise taken off the raw counts leaves what the exact counts may be: as raw counts are unbiased, and rates are ratios
    of their sums, quantiles of these copies are Fieller's limits. A copy need not be a curve.
    """
    rates = [above / np.maximum(above[:, -1:], 1.0) for above in exact_copies(draw, curve, noise=noise)]
    fpr, tpr = rates
    areas = (np.diff(fpr) * (tpr[:, 1:] + tpr[:, :-1]) / 2).sum(axis=1)
    cell = points.cell
    at_points = [rate[:, cell] + points.fraction * (rate[:, cell + 1] - rate[:, cell]) for rate in rates]
    line_fpr, line_tpr = read_straight(curve, points)
    flat = _directions(curve)[:, cell]
    of_fpr, of_tpr = ((line[1:] - at)[:, np.newaxis] for line, at in zip((line_fpr, line_tpr), at_points, strict=True))
    off = flat * of_tpr - (1 - flat) * of_fpr
    return _from_the_start(off), area(curve.fpr, curve.tpr) - areas


def exact_copies(draw: RocDraw, curve: Edges, *, noise: SeededNoise) -> tuple[FloatArray, FloatArray]:
    """Copies of the possible exact ``counts_above`` at the edges of ``curve``, negatives first; shape (copies, k)."""
    copies = min(COPIES, max(COPIES_OF_FULL_GRID, SIMULATED // draw.cuts.size))
    kept = np.searchsorted(-draw.cuts[::-1], -curve.cuts)
    negatives, positives = (
        (counts_above(counts.counts()) - simulated_errors(counts, draw, copies=copies, noise=noise))[:, kept]
        for counts in (draw.negatives, draw.positives)
    )
    return negatives, positives


def _directions(curve: Edges) -> FloatArray:
    """FPR's part of the curve's steps around each cell, over three cells and over either two; shape (3, cells).

    Before and after a corner the curve is as steep as on one side of it.
    """
    fpr, tpr = (_steps(rate) for rate in (curve.fpr, curve.tpr))
    flat: FloatArray = fpr / (fpr + tpr)
    return flat


def _from_the_start(values: FloatArray) -> FloatArray:
    """With a first point, where nothing is off."""
    return np.concatenate([np.zeros((*values.shape[:-1], 1)), values], axis=-1)


def steps_around(curve: Edges) -> tuple[FloatArray, FloatArray]:
    """The direction of the curve in each cell, FPR first: its rise over three cells, as a single one may seem empty."""
    return _steps(curve.fpr)[0], _steps(curve.tpr)[0]


def _steps(rate: FloatArray) -> FloatArray:
    """How much a rate rises over a cell with both its neighbours, with the next, and with the one before."""
    around = np.pad(np.diff(rate), 1)
    before, own, after = around[:-2], around[1:-1], around[2:]
    return np.stack([before + own + after, own + after, before + own]) + NO_RUN


def unknown_course(curve: Edges, points: CurvePoints, sizes: tuple[float, float]) -> FloatArray:
    """Standard deviation, across the curve at each point, of the part of the exact curve that counts do not show."""
    bend, _ = _bends(curve, points)
    below, above, _ = _boxes(curve, points)
    return np.maximum(np.hypot(_inner_stddev(curve, points, sizes), bend), (below + above) / 2)


def simulated_errors(tree: ClassCounts, draw: RocDraw, *, copies: int, noise: SeededNoise) -> FloatArray:
    """Copies of the noise in the ``counts_above`` of one class; shape (copies, k)."""
    if isinstance(tree, HistogramCells):
        return counts_above(tree.errors(copies, noise))
    cells = tree_errors(
        tree,
        epsilon=draw.spendings[-1].epsilon,
        neighbours=draw.neighbours,
        copies=copies,
        noise=noise,
    )
    return counts_above(cells)


def _bends(curve: Edges, points: CurvePoints) -> tuple[FloatArray, float]:
    """What the course inside cells may be off, between chord and arc: at each point, and for the area."""
    straight = curve.single
    arcs, chords = (
        areas_of_cells(*rates, points) for rates in (read(curve, points, straight), read_straight(curve, points))
    )
    areas = arcs - chords
    return _across_chord(curve, points, straight), math.hypot(float(np.sqrt((areas**2).sum())), float(areas.sum()) / 2)


def _across_chord(curve: Edges, points: CurvePoints, straight: BoolArray) -> FloatArray:
    """How far the curve with arcs, but for ``straight`` cells, runs above the chords of its cells at each point."""
    line_fpr, line_tpr = read_straight(curve, points)
    fpr, tpr = read(curve, points, straight)
    across: FloatArray = np.interp(line_fpr + line_tpr, fpr + tpr, tpr) - line_tpr
    return across


def _hidden_courses(curve: Edges, points: CurvePoints) -> tuple[FloatArray, FloatArray]:
    """How far below and above the chord of its cell the curve may run at each point, between counted edges.

    Its limit is the lines that continue the chords of both neighbouring cells, if both lie on one side of the cell's
    own chord; the curve is taken to rise straight up before its first cell, and to run flat after its last. The arc of
    a cell is within reach on either side, even if the scores seem to take few values.
    """
    alone = curve.alone
    run, rise = np.diff(curve.fpr) + np.diff(curve.tpr), np.diff(curve.tpr)
    rising = np.where(run > NO_RUN, rise / np.maximum(run, NO_RUN), 0.5)
    before, after = np.append(1.0, rising[:-1]), np.append(rising[1:], 0.0)
    cell, part = points.cell, points.fraction
    from_start = ((before - rising) * run)[cell] * part
    from_end = ((rising - after) * run)[cell] * (1 - part)
    tent = np.where(alone[cell] | (from_start * from_end <= 0), 0.0, np.minimum(np.abs(from_start), np.abs(from_end)))
    tent = np.concatenate([[0.0], np.sign(from_start) * tent])
    arc = np.abs(_across_chord(curve, points, alone))
    return np.maximum(-tent, arc), np.maximum(tent, arc)


def _inner_stddev(curve: Edges, points: CurvePoints, sizes: tuple[float, float]) -> FloatArray:
    """Standard deviation of the exact curve at each point, for rows of a cell in random order."""
    n0, n1 = sizes
    q, p = np.diff(curve.fpr)[points.cell] * n0, np.diff(curve.tpr)[points.cell] * n1
    rows = p + q
    mixed = points.fraction * (1 - points.fraction) * p * q / np.maximum(rows - 1, 1.0)
    mixed = np.where(curve.alone[points.cell], 0.0, mixed)  # one score, whose rows are tied
    deviation = np.sqrt(mixed) * rows / np.maximum(p * n0 + q * n1, 1e-9)
    return np.concatenate([[0.0], deviation])


def _sampling(
    curve: Edges, points: CurvePoints, sizes: tuple[float, float], *, copies: int, noise: SeededNoise
) -> FloatArray:
    """Copies of the sampling error: how far across their population's curve that of these rows runs.

    The rows of each cell are drawn from Poisson laws. Between edges the error is interpolated, as the curve is; shape
    (copies, directions, points).
    """
    errors = []
    for rate, size in zip((curve.fpr, curve.tpr), sizes, strict=True):
        above = np.cumsum(noise.poissons(max(size, 1.0) * np.diff(rate), copies=copies), axis=1)
        off = _from_the_start(above / np.maximum(above[:, -1:], 1) - rate[1:])
        errors.append(off[:, points.cell] + points.fraction * np.diff(off)[:, points.cell])
    flat = _directions(curve)[:, points.cell]
    return _from_the_start(flat * errors[1][:, np.newaxis] - (1 - flat) * errors[0][:, np.newaxis])


def _one_row(curve: Edges, sizes: tuple[float, float]) -> float:
    """Half a step of the exact curve, a staircase, if some cell is wider than one score; otherwise 0."""
    return float((~curve.alone).any()) * sum(1 / max(size, 1.0) for size in sizes) / 2


def _inner_area_stddev(curve: Edges, sizes: tuple[float, float]) -> float:
    wide = ~curve.alone
    q, p = np.diff(curve.fpr)[wide] * sizes[0], np.diff(curve.tpr)[wide] * sizes[1]
    return float(np.sqrt((p * q * (p + q + 1) / 12).sum()) / (sizes[0] * sizes[1]))


def _boxes(curve: Edges, points: CurvePoints) -> tuple[FloatArray, FloatArray, float]:
    """Distances below and above the curve that it may run inside unresolved cells, and the slack of its area."""
    fpr_step, tpr_step = np.diff(curve.fpr), np.diff(curve.tpr)
    open_cell = (np.diff(curve.depth) > UNRESOLVED) & ~curve.alone
    run = points.fraction * (fpr_step + tpr_step)[points.cell]
    course = points.fraction * tpr_step[points.cell]
    lowest = np.maximum(0.0, run - fpr_step[points.cell])
    highest = np.minimum(tpr_step[points.cell], run)
    inside = open_cell[points.cell]
    below = np.where(inside, course - lowest, 0.0)
    above = np.where(inside, highest - course, 0.0)
    slack = float((fpr_step * tpr_step / 2)[open_cell].sum())
    return np.concatenate([[0.0], below]), np.concatenate([[0.0], above]), slack


def _across(fpr: FloatArray, tpr: FloatArray, shift: FloatArray) -> FloatArray:
    """TPR at ``fpr`` of the curve after a shift across itself: up and left if positive, down and right if negative."""
    moved_fpr = np.maximum.accumulate(np.clip(fpr - shift, 0.0, 1.0))
    moved_tpr = np.maximum.accumulate(np.clip(tpr + shift, 0.0, 1.0))
    up = bool((shift >= 0).all())
    moved = np.interp(fpr, moved_fpr, moved_tpr, left=0.0 if not up else None, right=1.0 if up else None)
    return np.maximum(moved, tpr) if up else np.minimum(moved, tpr)
