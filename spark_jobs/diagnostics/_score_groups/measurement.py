"""The measurement of binned residuals and calibrations: groups of scores, with their noisy sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import GroupedSettings
from spark_jobs.diagnostics._score_groups.binning import bins_by_medians, bins_by_noisy_histogram, bins_of_equal_width
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.mechanisms.cells import NoisyCells
from spark_jobs.mechanisms.group_sums import NoisyGroups, noisy_groups
from spark_jobs.statistics import ScoreCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupsDraw(Draw):
    """The noisy sums of groups of scores.

    Attributes:
        method: method of the request.
        confidence: nominal level of intervals.
        bins: edges of the bins that the release shows, as cuts of the grid.
        ends: number of bins up to the end of each group.
        groups: noisy positives, negatives and sums of scores of each group.
        located: the noisy histograms of ``auto``, by which it placed bins and groups; a tree is not among them.
    """

    method: str
    confidence: float
    bins: Int64Array
    ends: Int64Array
    groups: NoisyGroups
    located: tuple[NoisyCells, ...] = ()

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes."""
        positives, negatives, _ = self.groups.values().sum(axis=-1)
        return ClassSizes(negatives=float(negatives), positives=float(positives), variance=self.groups.size_variance())


def measure_groups(statistic: ScoreCounts, options: GroupedSettings, terms: Terms) -> GroupsDraw:
    """Place groups, then draw their noisy sums; ``epsilon``-DP for one row added, removed or replaced.

    Two steps compose sequentially: the placing of the groups, and three noisy sums of every group. A row changes the
    sums of one group, a replaced row those of two. Groups depend on the request and on earlier releases alone. The
    sizes of the classes stay private under ``REPLACE_ONE`` too.

    Args:
        statistic: exact counts of both classes; private.
        options: the settings.
        terms: budget, relation and noise; all of epsilon is spent.

    Raises:
        InvalidRequest: there are more bins than cells, or the method cannot make this number of bins.
    """
    method, bins = options.method, options.bins_on(statistic.cells)
    meter, neighbours, noise = terms.meter(), terms.neighbours, terms.noise
    grid = statistic.cells
    _require_bins(bins, method, grid)
    counts = np.stack([statistic.negatives, statistic.positives])
    if method == "fixed_bins":
        placed = bins_of_equal_width(grid, bins)
    else:
        place = bins_by_medians if method == "recursive_medians" else bins_by_noisy_histogram
        placed = place(counts.sum(axis=0), bins, meter=meter, neighbours=neighbours, noise=noise)
    rest = meter.spend_rest(label="positives, negatives and scores of each group")
    groups = noisy_groups(counts, placed.cuts, epsilon=rest, neighbours=neighbours, noise=noise)
    return GroupsDraw.of(
        terms,
        meter,
        method=method,
        confidence=options.confidence,
        bins=placed.bins,
        ends=placed.ends,
        groups=groups,
        located=placed.located,
    )


def _require_bins(bins: int, method: str, grid: int) -> None:
    if bins > grid:
        raise InvalidRequest(
            "bins", bins, f"must be at most the {grid} cells of the score grid", "ask for fewer bins or a finer grid"
        )
    if method == "recursive_medians" and bins.bit_count() != 1:
        raise InvalidRequest("bins", bins, "must be a power of two for recursive_medians", "ask for 8, 16 or 32 bins")
