"""An earlier release's distribution function, rebuilt on its grid from the fields of a request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figures import OK
from spark_jobs.contract.options import EarlierFunction
from spark_jobs.diagnostics.ecdf.noise_model import NoiseModel
from spark_jobs.mechanisms.trees import Tree
from spark_jobs.statistics.value_grid import ValueGrid


@dataclass(frozen=True, kw_only=True, eq=False)
class Earlier:
    """The part of an earlier release that ``distance_between`` needs.

    Attributes:
        cdf: the released fraction of each cell, shape (N,); NaN where the release is undefined.
        grid: the public grid.
        cuts: indices of the grid's edges at which the cells begin and end, shape (N + 1,).
        noise: the public distribution of the noise.
        rows: noisy number of rows.
        status, smoothing: status and smoothing method of the release.
    """

    cdf: FloatArray
    grid: ValueGrid
    cuts: Int64Array
    noise: NoiseModel
    rows: float
    status: str
    smoothing: str

    @classmethod
    def of(cls, function: EarlierFunction) -> Earlier:
        """The earlier release described in a request.

        Raises:
            InvalidRequest: the grid is invalid, or the function rises at a cell beyond the grid's last one.
        """
        fields = ("lower", "upper", "cells", "scale", "unit", "step")
        grid = ValueGrid(**{name: getattr(function, name) for name in fields})
        if function.starts and function.starts[-1] >= grid.size:
            raise InvalidRequest(
                "compare_with.starts", function.starts[-1], "must be starts of cells of the grid, which has "
                f"{grid.size} cells",
                "give the URI of the earlier release, so that its function is read from there",
            )  # fmt: skip
        cells = np.arange(grid.size)
        steps = np.concatenate([[0.0], function.cdf])
        rising = steps[np.searchsorted(np.array(function.starts, dtype=np.int64), cells, side="right")]
        return cls(
            cdf=rising if function.status == OK else np.full(grid.size, np.nan),
            grid=grid,
            cuts=np.arange(grid.size + 1),
            noise=NoiseModel(
                tree=Tree(cells=grid.size, branching=function.branching, root=function.root),
                scale=function.noise_scale,
                rows=max(1.0, function.rows),
            ),
            rows=function.rows,
            status=function.status,
            smoothing=function.smoothing,
        )
