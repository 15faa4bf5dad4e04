"""Figures of a ranking, computed from a released ROC curve and from simulated copies of its possible exact counts.

A copy is the noisy counts, as drawn, less fresh noise (``roc_curve.bands``); copies for the population also have a
Poisson sampling error of each cell. The noisy counts are unbiased, so quantiles over the copies are limits for the
exact counts. Counts do not show the course of the curve inside a cell. There each copy departs at random from the
released curve, along a Brownian bridge, as the share of a cell's rows above a score does.

Each copy is evaluated where the released curve reaches the requested recall or depth. From the copy's point there, a
straight line in the direction of the curve leads to the point where the copy has the requested recall or depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._simulation import normal
from spark_jobs.diagnostics.roc_curve.bands import exact_copies, steps_around, unknown_course
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.shape import CurvePoints, Edges, read, read_straight
from spark_jobs.diagnostics.roc_curve.trace import Trace
from spark_jobs.mechanisms.noise import SeededNoise

FINE = 2_048
"""Places at which the course of a curve inside its cells is followed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """Rows of both classes above thresholds, released or simulated; copies are along the first axis.

    Attributes:
        false, true: negatives and positives above each threshold; shape (..., k).
        negatives, positives: sizes of the classes, at least 1; shape (..., 1).
    """

    false: FloatArray
    true: FloatArray
    negatives: FloatArray
    positives: FloatArray

    @property
    def rows(self) -> FloatArray:
        """The number of all rows; shape (..., 1)."""
        return self.negatives + self.positives


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """A released curve, and copies of its possible exact counts at the edges of its cells.

    Attributes:
        curve: the released curve.
        sizes: released class sizes, negatives first, at least 1.
        noise: possible exact counts of the same rows, simulated, negatives first; each of shape (copies, edges).
        population: the same with the sampling error for the population; of the same shapes.
        source: sampler with a public seed.
    """

    curve: Edges
    sizes: tuple[float, float]
    noise: tuple[FloatArray, FloatArray]
    population: tuple[FloatArray, FloatArray]
    source: SeededNoise

    @classmethod
    def of(cls, draw: RocDraw, traced: Trace, source: SeededNoise, *, effect: float = 1.0) -> Ranking:
        """The curve of a draw, with copies; ``effect`` is the design effect of the sampling."""
        curve, sizes = traced.edges, (max(traced.sizes[0], 1.0), max(traced.sizes[1], 1.0))
        noise = exact_copies(draw, curve, noise=source)
        negatives, positives = (
            above + _sampled(effect * np.diff(rates) * size, len(above), source)
            for above, rates, size in zip(noise, (curve.fpr, curve.tpr), sizes, strict=True)
        )
        return cls(curve=curve, sizes=sizes, noise=noise, population=(negatives, positives), source=source)

    def at_edges(self, copies: tuple[FloatArray, FloatArray] | None = None) -> Counts:
        """The numbers of rows above the edges of the cells: released, or simulated if ``copies`` are given."""
        if copies is None:
            false, true = self.curve.fpr * self.sizes[0], self.curve.tpr * self.sizes[1]
        else:
            false, true = copies
        sizes = (np.maximum(above[..., -1:], 1.0) for above in (false, true))
        return Counts(false=false, true=true, negatives=next(sizes), positives=next(sizes))

    def fine(self) -> tuple[FloatArray, Counts]:
        """A fine list of places along the curve, as depths from 0 to 1, and the released counts there."""
        places = np.unique(np.append(np.linspace(0.0, 1.0, FINE + 1), self.curve.depth))
        return places, self.released(places)

    def released(self, places: FloatArray) -> Counts:
        """The released counts at these depths of the curve."""
        points = self._points(places)
        fpr, tpr = (rates[1:] for rates in read(self.curve, points, self.curve.straight))
        sizes = (np.array([size]) for size in self.sizes)
        negatives, positives = sizes
        return Counts(false=fpr * negatives, true=tpr * positives, negatives=negatives, positives=positives)

    def copied(self, places: FloatArray, copies: tuple[FloatArray, FloatArray]) -> Counts:
        """The counts of ``copies`` at the thresholds where the released curve has these depths."""
        points, edges = self._points(places), self.at_edges(copies)
        course = unknown_course(self.curve, points, self.sizes)[1:] * _bridges(points, len(copies[0]), self.source)
        arcs, chords = read(self.curve, points, self.curve.straight), read_straight(self.curve, points)
        false, true = (
            above[:, points.cell]
            + points.fraction * (above[:, points.cell + 1] - above[:, points.cell])
            + size * ((arc - chord)[1:] + side * course)
            for above, size, arc, chord, side in zip(copies, self.sizes, arcs, chords, (-1.0, 1.0), strict=True)
        )
        return Counts(false=false, true=true, negatives=edges.negatives, positives=edges.positives)

    def steps(self, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The direction of the curve at these depths, as numbers of negatives and of positives."""
        cell = self._points(places).cell
        false, true = (step[cell] * size for step, size in zip(steps_around(self.curve), self.sizes, strict=True))
        return false, true

    def _points(self, places: FloatArray) -> CurvePoints:
        depth = self.curve.depth
        cell = np.clip(np.searchsorted(depth, places) - 1, 0, depth.size - 2)
        fraction = np.clip((places - depth[cell]) / np.maximum(np.diff(depth)[cell], 1e-12), 0.0, 1.0)
        return CurvePoints(cuts=self.curve.cuts[cell + 1], cell=cell, fraction=fraction)


def false_per_true(counts: Counts, recalls: FloatArray, steps: tuple[FloatArray, FloatArray]) -> FloatArray:
    """False positives per true positive at these recalls; below 0 in some copies.

    ``counts`` must be near the recalls, and are moved to them along ``steps``, the direction of the curve.
    """
    wanted = recalls * counts.positives
    false = counts.false + (wanted - counts.true) / steps[1] * steps[0]
    return np.asarray(np.minimum(false, counts.negatives) / wanted, dtype=np.float64)


def precision_of(false: FloatArray) -> FloatArray:
    """The precision, given the number of false positives per true positive."""
    return np.asarray(1.0 / (1.0 + np.maximum(false, 0.0)), dtype=np.float64)


def gain_at(counts: Counts, depths: FloatArray, steps: tuple[FloatArray, FloatArray]) -> FloatArray:
    """The share of all positives that are among these fractions of all rows, those of highest score.

    ``counts`` must be near these depths, and are moved to them along ``steps``, the direction of the curve.
    """
    further = depths * counts.rows - counts.true - counts.false
    true = counts.true + further * steps[1] / (steps[0] + steps[1])
    limit = np.minimum(1.0, depths * counts.rows / counts.positives)
    return np.asarray(np.clip(true / counts.positives, 0.0, limit), dtype=np.float64)


def distance(counts: Counts) -> FloatArray:
    """The distance of the curve from the diagonal, TPR - FPR, at each threshold."""
    return counts.true / counts.positives - counts.false / counts.negatives


def mean_cost(counts: Counts, costs: tuple[float, float]) -> FloatArray:
    """The mean cost of a row at each threshold, given the costs of a false positive and of a false negative."""
    cost = (costs[0] * counts.false + costs[1] * (counts.positives - counts.true)) / counts.rows
    return np.asarray(np.clip(cost, 0.0, max(costs)), dtype=np.float64)


def _bridges(points: CurvePoints, copies: int, source: SeededNoise) -> FloatArray:
    """Standardised Brownian bridges over the cells, at these points; 0 at the edges; shape (copies, points)."""
    ends = points.cell, points.cell + 1
    times = np.unique(np.concatenate([points.cell + points.fraction, *ends]))
    steps = normal(source, (copies, times.size - 1)) * np.sqrt(np.diff(times))
    walks = np.concatenate([np.zeros((copies, 1)), np.cumsum(steps, axis=1)], axis=1)
    at, first, last = (walks[:, np.searchsorted(times, time)] for time in (points.cell + points.fraction, *ends))
    deviation = np.sqrt(points.fraction * (1 - points.fraction))
    return np.asarray((at - first - points.fraction * (last - first)) / np.where(deviation > 0, deviation, np.inf))


def _sampled(rows: FloatArray, copies: int, source: SeededNoise) -> FloatArray:
    """Sampling errors of the rows above each edge, given the rows of the cells; shape (copies, edges)."""
    errors = np.sqrt(np.maximum(rows, 0.0)) * normal(source, (copies, rows.size))
    return np.concatenate([np.zeros((copies, 1)), np.cumsum(errors, axis=1)], axis=1)
