"""What a residual plot shows along the fitted values: trend and spread of each column, and quantiles of all residuals.

All of these are functions of the counts in the cells of a column, rows beyond the box included. They are applied to the
released counts, and to copies of them with the noise drawn again.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array

ONE_STDDEV = 0.1586552539314571
"""Of a normal distribution, this part lies more than one standard deviation below its mean."""


def heights(edges: FloatArray) -> FloatArray:
    """The residual that a row in each cell of a column is taken to have: the cell's middle, or the edge of the box."""
    return np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])


def means(columns: FloatArray, edges: FloatArray) -> FloatArray:
    """The mean residual of each column; counts of shape (..., rows of cells)."""
    weights = columns.sum(axis=-1)
    sums = columns @ heights(edges)
    averages: FloatArray = np.clip(sums / np.maximum(weights, 1.0), edges[0], edges[-1])
    return averages


def quantiles(columns: FloatArray, levels: FloatArray, edges: FloatArray) -> FloatArray:
    """Quantiles of each column's residuals, even within cells; at the box's edge where they lie beyond.

    Args:
        columns: counts, possibly negative, shape (..., rows of cells), the first and last of them beyond the box.
        levels: in (0, 1), shape (q,).
        edges: of the cells within the box, rows of cells less 1.

    Returns:
        Shape (..., q).
    """
    below = np.maximum.accumulate(np.cumsum(columns, axis=-1)[..., :-1], axis=-1)  # at each edge
    total = np.maximum(columns.sum(axis=-1, keepdims=True), 1.0)
    share = np.clip(below / total, 0.0, 1.0)[..., None, :]
    wanted = levels[:, None]
    place = np.clip((share < wanted).sum(axis=-1), 1, edges.size - 1)
    low, high = (np.take_along_axis(share[..., 0, :], place - back, axis=-1) for back in (1, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, (levels - low) / (high - low), 0.5)
    values: FloatArray = edges[place - 1] + np.clip(part, 0.0, 1.0) * (edges[place] - edges[place - 1])
    return values


def spreads(columns: FloatArray, edges: FloatArray) -> FloatArray:
    """Half the distance of each column's 16% and 84% quantiles."""
    ends = quantiles(columns, np.array([ONE_STDDEV, 1 - ONE_STDDEV]), edges)
    return np.maximum(ends[..., 1] - ends[..., 0], 0.0) / 2


def pool_starts(rows: FloatArray, min_rows: float) -> Int64Array:
    """Where runs of neighbouring columns start that have at least ``least`` rows each; one run if all have fewer."""
    starts, rows_so_far = [0], 0.0
    for column, more in enumerate(rows):
        if rows_so_far >= min_rows:
            starts.append(column)
            rows_so_far = 0.0
        rows_so_far += float(more)
    while len(starts) > 1 and rows[starts[-1] :].sum() < min_rows:
        starts.pop()
    return np.array(starts, dtype=np.int64)


def on_the_simplex(cells: FloatArray, total: float) -> FloatArray:
    """The cells nearest to these, in squares, that are at least 0 and add up to ``total``.

    Clipping negative cells one by one would add what it cuts off, hundreds of rows on a fine grid.
    """
    if total <= 0:
        return np.zeros_like(cells)
    falling = np.sort(cells, axis=None)[::-1]
    taken = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = max(int((falling > taken).sum()), 1)  # a run from the start; one of very large numbers may lose the total
    nearest: FloatArray = np.maximum(cells - taken[kept - 1], 0.0)
    return nearest


def in_whole_rows(cells: FloatArray, total: int) -> Int64Array:
    """Whole numbers in proportion to ``cells`` that add up to ``total``, by largest remainders, ties in cell order."""
    whole = float(cells.sum())
    if total <= 0 or whole <= 0:
        return np.zeros(cells.shape, dtype=np.int64)
    flat = cells.reshape(-1) * (total / whole)
    floors = np.floor(flat)
    missing = int(np.clip(total - floors.sum(), 0, flat.size))
    floors[np.argsort(floors - flat, kind="stable")[:missing]] += 1
    return floors.astype(np.int64).reshape(cells.shape)
