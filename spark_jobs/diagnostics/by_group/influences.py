"""The influence of rows on the figures of their groups, by label and score; post-processing of released counts."""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.options.by_group import MEAN_RESIDUAL, POSITIVE_RATE
from spark_jobs.contract.options.score_figures import rate_at
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.by_group.measurement import ByGroupDraw
from spark_jobs.diagnostics.sampling import Influence
from spark_jobs.statistics.unit_squares import OfCells


def influences(draw: ByGroupDraw) -> dict[str, Influence]:
    """The influence of a row on each figure by which groups are compared, except areas.

    A row moves a mean of its group by its deviation from the mean, divided by the group's rows. Only the deviation is
    returned, without the division, so that rows weigh alike in all groups. So the design effect that is computed from
    these influences is for all groups together, as a test of equal groups needs it. If a unit has rows in several
    groups, their correlation is treated like that of rows in one group.
    """
    of_groups = [_of_group(group, draw) for group in draw.groups]
    grid = draw.groups[0].groups.grid
    starts = np.concatenate(
        [
            (2 * place + label) * grid + group.groups.cuts[:-1]
            for place, group in enumerate(draw.groups)
            for label in (0, 1)
        ]
    )
    rows = np.concatenate([_rows(group).reshape(-1) for group in draw.groups])
    result = {}
    for name in of_groups[0]:
        values = np.concatenate([of_figures[name].reshape(-1) for of_figures in of_groups])
        result[name] = Influence(
            of_cells=OfCells(starts=starts, size=2 * grid * len(draw.groups), values=values),
            largest=float(np.abs(values).max()),
            rows_square=float((rows * values**2).sum()),
        )
    return result


def _rows(group: SharedGroups) -> FloatArray:
    """The released rows of a group by label and cell, at least 0; negatives first."""
    counts: FloatArray = np.maximum(np.stack([group.groups.negatives, group.groups.positives]), 0).astype(np.float64)
    return counts


def _of_group(group: SharedGroups, draw: ByGroupDraw) -> dict[str, FloatArray]:
    """For each figure, how far a row is off it, by label and cell; 0 of rows that it is not about."""
    cells = group.groups.positives.size
    label = np.broadcast_to(np.array([[0.0], [1.0]]), (2, cells))
    everybody = np.ones((2, cells), dtype=np.bool_)
    of_figures = {
        POSITIVE_RATE: (label, everybody),
        MEAN_RESIDUAL: (label - group.groups.middles, everybody),
    }
    for place, cell in enumerate(draw.threshold_cells):
        reached = np.broadcast_to(group.groups.cuts[:-1] >= cell, (2, cells))
        of_figures |= {
            rate_at("predicted_positive_rate", place): (reached.astype(np.float64), everybody),
            rate_at("recall", place): (reached.astype(np.float64), label == 1),
            rate_at("false_positive_rate", place): (reached.astype(np.float64), label == 0),
            rate_at("precision", place): (label, reached),
        }
    return {name: _off(values, among, _rows(group)) for name, (values, among) in of_figures.items()}


def _off(values: FloatArray, among: BoolArray, rows: FloatArray) -> FloatArray:
    """How far values are off their mean over some of the rows."""
    weights = rows * among
    off: FloatArray = (values - float((weights * values).sum()) / max(float(weights.sum()), 1.0)) * among
    return off
