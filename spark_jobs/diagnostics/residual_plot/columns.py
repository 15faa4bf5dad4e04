"""Mean, spread and quantiles of the residuals in a column of cells, as functions of the counts.

The counts include the rows beyond the box. The functions are applied to the released counts, and to copies of them with
simulated noise.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array

ONE_STDDEV = 0.1586552539314571
"""The fraction of a normal distribution that lies more than one standard deviation below its mean."""


def heights(edges: FloatArray) -> FloatArray:
    """The residual assigned to the rows of each cell of a column: the cell's middle; beyond the box, its edge."""
    return np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])


def means(columns: FloatArray, edges: FloatArray, offsets: FloatArray | float = 0.0) -> FloatArray:
    """The mean residual of each column.

    Args:
        columns: counts, possibly negative, shape (..., cells of a column).
        edges: edges of the cells within the box.
        offsets: for each column, the sum over its rows of residual less ``heights``, shape (...).
    """
    weights = columns.sum(axis=-1)
    sums = columns @ heights(edges) + offsets
    averages: FloatArray = np.clip(sums / np.maximum(weights, 1.0), edges[0], edges[-1])
    return averages


def quantiles(columns: FloatArray, levels: FloatArray, edges: FloatArray) -> FloatArray:
    """Quantiles of each column's residuals, interpolated linearly within cells and clipped to the box.

    Args:
        columns: counts, possibly negative, shape (..., k + 2); the first and last cell lie beyond the box.
        levels: levels in (0, 1), shape (q,).
        edges: edges of the cells within the box, shape (k + 1,).

    Returns:
        Shape (..., q).
    """
    share = _shares(columns)
    place = _places(share, levels)
    low, high = (np.take_along_axis(share, place - back, axis=-1) for back in (1, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, (levels - low) / (high - low), 0.5)
    values: FloatArray = edges[place - 1] + np.clip(part, 0.0, 1.0) * (edges[place] - edges[place - 1])
    return values


def _shares(columns: FloatArray) -> FloatArray:
    """The share of each column's rows below each edge of the box, rising; shape (..., edges)."""
    below = np.cumsum(columns, axis=-1)[..., :-1]
    # halfway between the highest so far and the lowest from here on, which noise lifts and lowers alike
    lowest = np.minimum.accumulate(below[..., ::-1], axis=-1)[..., ::-1]
    below = (np.maximum.accumulate(below, axis=-1) + lowest) / 2
    total = np.maximum(columns.sum(axis=-1, keepdims=True), 1.0)
    shares: FloatArray = np.clip(below / total, 0.0, 1.0)
    return shares


def _places(shares: FloatArray, levels: FloatArray) -> Int64Array:
    """The upper edge of the cell in which each quantile lies, from 1; shape (..., q)."""
    places: Int64Array = np.clip((shares[..., None, :] < levels[:, None]).sum(axis=-1), 1, shares.shape[-1] - 1)
    return places


def spread_ends(columns: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The smallest and the largest possible ``spreads``, as either quantile may lie anywhere in its cell."""
    places = _places(_shares(columns), np.array([ONE_STDDEV, 1 - ONE_STDDEV]))
    apart = places[..., 1] - places[..., 0]
    cell = edges[1] - edges[0]
    return np.maximum(apart - 1, 0) * cell / 2, (apart + 1) * cell / 2


def spreads(columns: FloatArray, edges: FloatArray) -> FloatArray:
    """Half the distance between the 16% and 84% quantiles of each column."""
    ends = quantiles(columns, np.array([ONE_STDDEV, 1 - ONE_STDDEV]), edges)
    return np.maximum(ends[..., 1] - ends[..., 0], 0.0) / 2


def pool_starts(rows: FloatArray, min_rows: float) -> Int64Array:
    """Starts of pools of neighbouring columns with at least ``min_rows`` rows each; one pool if all have fewer."""
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
    """The projection of ``cells`` onto the simplex: the nearest values, in least squares, >= 0 and with sum ``total``.

    Clipping each negative cell to 0 would instead add hundreds of rows on a fine grid.
    """
    if total <= 0:
        return np.zeros_like(cells)
    falling = np.sort(cells, axis=None)[::-1]
    taken = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = max(int((falling > taken).sum()), 1)  # at least 1: among very large numbers, rounding may leave none
    nearest: FloatArray = np.maximum(cells - taken[kept - 1], 0.0)
    return nearest


def in_whole_rows(cells: FloatArray, total: int) -> Int64Array:
    """Whole numbers proportional to ``cells`` that sum to ``total``, by largest remainders; earlier cells win ties."""
    whole = float(cells.sum())
    if total <= 0 or whole <= 0:
        return np.zeros(cells.shape, dtype=np.int64)
    flat = cells.reshape(-1) * (total / whole)
    floors = np.floor(flat)
    missing = int(np.clip(total - floors.sum(), 0, flat.size))
    floors[np.argsort(floors - flat, kind="stable")[:missing]] += 1
    return floors.astype(np.int64).reshape(cells.shape)
