"""The distribution function of an earlier release, as a request holds it, put back on its grid."""

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
    """What ``distance_between`` asks of a release, of one that is not at hand as an ``Ecdf``.

    Attributes:
        cdf: the released fraction of each cell, shape (N,); NaN where the release is undefined.
        grid, cuts: the grid, and the cells as cuts of it.
        noise: the public law of the noise.
        rows: noisy number of rows.
        status, smoothing: of the release.
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
        """The release that a request holds.

        Raises:
            InvalidRequest: its grid is none, or has fewer cells than it rises at.
        """
        grid = ValueGrid(
            lower=function.lower, upper=function.upper, cells=function.cells, scale=function.scale, unit=function.unit
        )
        if function.starts and function.starts[-1] >= grid.size:
            raise InvalidRequest(
                "compare_with.starts", value=function.starts[-1],
                requirement=f"must be cells of the grid, which has {grid.size}",
                remedy="name the release it comes from",
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
