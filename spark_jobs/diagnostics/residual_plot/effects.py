"""Effect sizes of a residual plot: how far residuals are shifted, sloped, bowed and unequally spread.

Each effect size is a function of the counts of pooled columns. Its interval accounts for the noise and for the sampling
of rows: both ends are quantiles over simulated copies, with noise and Poisson counts. For the ratio of spreads, the
quantiles are those of its logarithm.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure, Number
from spark_jobs.diagnostics._simulation import rounded, solved_interval, widest_interval
from spark_jobs.diagnostics.residual_plot.columns import means, spreads

EFFECTS = ("shift", "slope", "bow", "spread_ratio")
"""In the order of ``effect_sizes``. ``shift``: the mean residual. ``slope``: its change per unit of the fitted value.
``bow``: how far the parabola of best fit lies higher at both ends of the rows than halfway between them.
``spread_ratio``: the spread of the fifth of the rows with the largest fitted values, divided by that of the fifth with
the smallest."""
END_SHARE = 0.2
"""The share of the rows that is an end of the fitted values."""
MAX_COPIES = 500
_RANGE = (0.05, 0.95)
"""Between which levels of the rows a bow is measured."""
_ROWS = 1e-9


def effect_sizes(
    columns: FloatArray,
    at: FloatArray,
    rows: FloatArray,
    edges: FloatArray,
    offsets: FloatArray | float = 0.0,
) -> FloatArray:
    """The effect sizes of pooled columns; NaN for effects that need more pools than there are.

    Args:
        columns: counts, possibly negative, shape (..., pools, cells of a column).
        at: the fitted value of each pool, ascending, shape (pools,).
        rows: the rows of each pool, shape (pools,), which weight the pools of all copies.
        edges: edges of the residuals' cells within the box.
        offsets: for each pool, the sum of the offsets of its rows: residual less the middle of the residual's cell;
            shape (..., pools).

    Returns:
        Shape (..., 4), in the order of ``EFFECTS``; the ratio as a logarithm.
    """
    share = np.maximum(rows, _ROWS) / np.maximum(rows, _ROWS).sum()
    after = np.cumsum(share)
    before, level = after - share, means(columns, edges, offsets)
    along = at - share @ at
    spread_out = max(float(share @ along**2), 1e-300)
    slope = level @ (share * along) / spread_out
    bend = along**2 - (share @ along**3) / spread_out * along - spread_out
    reach = np.subtract(*np.interp(_RANGE[::-1], (before + after) / 2, at)) / 2
    bow = level @ (share * bend) / max(float(share @ bend**2), 1e-300) * reach**2
    wide = np.maximum(spreads(columns, edges), (edges[1] - edges[0]) / 8)
    bottom, top = np.clip(END_SHARE - before, 0.0, share), np.clip(after - (1 - END_SHARE), 0.0, share)
    ratio = np.log(wide @ (top / top.sum())) - np.log(wide @ (bottom / bottom.sum()))
    nothing = np.full(slope.shape, np.nan)
    return np.stack(
        [
            level @ share,
            slope if at.size > 1 else nothing,
            bow if at.size > 2 else nothing,
            ratio if at.size > 1 else nothing,
        ],
        axis=-1,
    )


def effect_fields(sizes: FloatArray, copies: FloatArray, *, unit: float, confidence: float) -> dict[str, Number]:
    """The fields of a released residual plot: each effect with its interval, None where there are too few pools.

    Args:
        sizes: ``effect_sizes`` of the released counts, shape (4,).
        copies: ``effect_sizes`` of copies less simulated noise and sampling, shape (copies, 4).
        unit: the unit of fitted values and residuals.
        confidence: nominal level.
    """
    fields: dict[str, Number] = {}
    for i, name in enumerate(EFFECTS):
        fields[name] = Figure(value=None)
        if np.isfinite(sizes[i]):
            interval_of = widest_interval if name == "spread_ratio" else solved_interval
            ends = np.array([sizes[i], *interval_of(sizes[i], copies[:, i], confidence)])
            scale = unit if name in ("shift", "bow") else 1.0
            # relative to the unit, so that tiny units keep their digits
            value, *interval = (np.exp(ends) if name == "spread_ratio" else rounded(ends) * scale).tolist()
            fields[name] = Figure(value=value, interval=Ends(*interval))
    return fields
