"""The shared measurement: groups of scores, with their noisy sums, of all rows or of those with each key of a list."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np
from scipy.special import expit, logit

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.options import (
    ByGroupSettings,
    ConfusionMatrixSettings,
    GroupedSettings,
    RecalibrationSettings,
)
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.values import Frozen
from spark_jobs.diagnostics._score_cells import cells_for, locate_scores, place_cells
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.cells import NoisyCells, totals
from spark_jobs.mechanisms.group_sums import NoisyGroups, centred_sums, largest_centred
from spark_jobs.mechanisms.noise import Noise, laplace_scale, scale_of_sum
from spark_jobs.mechanisms.prefix_sums import NoisyTree, rows_changed
from spark_jobs.mechanisms.trees import Tree
from spark_jobs.score_grid import edges_of, threshold_cells
from spark_jobs.statistics import GroupedScoreCounts, ScoreCounts

SUMS_SHARE = Decimal("0.1")
"""Share of the budget for the sums of scores. A row changes a sum by at most half a group's width, so it needs less."""
MAX_GROUPS = 256
WIDEST_IN_LOG_ODDS = 0.7
"""The widest group that a logistic regression on log-odds of scores is read from: its odds differ by a factor of 2."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedGroups(Draw):
    """The noisy sums of groups of scores; the last of ``spendings`` paid for the counts.

    Attributes:
        groups: the noisy sums of all rows.
        located: the noisy histograms that placed the groups.
        by_key: the noisy sums of the rows with each key of a public list, and at the end those of all other rows;
            ``groups`` are their totals. None if all rows were measured together.
        steps: number of steps of the scale of the scores, if the scale has a step.
    """

    groups: NoisyGroups
    located: tuple[NoisyCells, ...]
    by_key: tuple[NoisyGroups, ...] | None = field(default=None, metadata={codec.LEFT_OUT: True})
    steps: int | None = field(default=None, metadata={codec.LEFT_OUT: True})

    @property
    def of_keys(self) -> tuple[SharedGroups, ...]:
        """The measurement of each key's rows; without the histograms, which are of all rows together."""
        return tuple(replace(self, groups=one, located=(), by_key=None) for one in self.by_key or ())

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes."""
        return ClassSizes.of_counts(*self.trees)

    @property
    def trees(self) -> tuple[NoisyTree, NoisyTree]:
        """The noisy counts of both classes, negatives first, as trees without inner nodes."""
        size = self.groups.positives.size
        flat = Tree(cells=size, branching=max(2, size), root="absent")
        of_one = laplace_scale(self.spendings[-1].epsilon, rows_changed(self.neighbours))
        scale = scale_of_sum(of_one, self.groups.summed or 1)
        nodes = self.groups.negatives, self.groups.positives
        negatives, positives = (
            NoisyTree(tree=flat, nodes=(counts,), scale=scale, summed=self.groups.summed) for counts in nodes
        )
        return negatives, positives


def measure_shared(
    statistic: ScoreCounts | GroupedScoreCounts, diagnostics: Sequence[Frozen], terms: Terms
) -> SharedGroups:
    """Draw the noise of a shared measurement; ``epsilon``-DP for one row added, removed or replaced.

    Steps compose sequentially: the noisy histograms that place the groups, the sums of scores if one of
    ``diagnostics`` needs them, and the counts of both classes. Groups depend on public facts, such as the thresholds
    of confusion matrices, and on earlier releases alone.

    By key, the histograms are of all rows, and the numbers of every key get noise of their own at the same epsilons.
    Each row has one key. An added row changes the numbers of its key alone, by as much as it would change the numbers
    of all rows in a measurement without keys. A replaced row, under doubled noise, either keeps its key, or changes the
    numbers of two keys by one row each, at half the cost each. The numbers of all rows are sums of released numbers.

    Args:
        statistic: exact counts of both classes, of all rows or by key; private.
        diagnostics: the options or settings of the diagnostics that will read the measurement; public.
        terms: budget, relation and noise; all of epsilon is spent.
    """
    meter, neighbours, noise = terms.meter(), terms.neighbours, terms.noise
    both = np.stack([statistic.negatives, statistic.positives], axis=-2)
    of_keys = [both] if both.ndim == 2 else list(both)
    counts, grid = np.sum(of_keys, axis=0), both.shape[-1]
    located, signal = locate_scores(counts, meter=meter, neighbours=neighbours, noise=noise)
    cells = cells_for(signal / math.sqrt(len(of_keys)))  # the noise of sums is that of a lower epsilon
    cuts = place_cells(located[-1], grid=grid, cells=min(cells, MAX_GROUPS, grid))
    readers = [*diagnostics, *(kind for of in diagnostics if isinstance(of, ByGroupSettings) for kind in of.kinds)]
    for options in readers:
        if isinstance(options, RecalibrationSettings):
            cuts = _narrowed(cuts, options.clip)
    at = [o.thresholds for o in readers if isinstance(o, ConfusionMatrixSettings)]
    cuts = _with_edges(cuts, *(threshold_cells(thresholds, grid) for thresholds in at))
    cells, of_sums = cuts.size - 1, Decimal(0)
    if any(isinstance(options, (GroupedSettings, RecalibrationSettings)) for options in readers):
        of_sums = meter.spend_share(SUMS_SHARE, label=f"sums of scores in {cells} groups")
    of_counts = meter.spend_rest(label=f"counts of both classes in {cells} groups")
    by_key = [_groups(one, cuts, of_counts, of_sums, neighbours=neighbours, noise=noise) for one in of_keys]
    if isinstance(statistic, ScoreCounts):
        return SharedGroups.of(terms, meter, groups=by_key[0], located=located, steps=statistic.steps)
    return SharedGroups.of(terms, meter, groups=by_key[0].plus(*by_key[1:]), located=located, by_key=tuple(by_key))


def _with_edges(cuts: Int64Array, *edges: Iterable[int]) -> Int64Array:
    """Cuts at all ``edges``, each instead of the nearest cut, so that hardly more groups share the noise."""
    wanted = np.unique([0, cuts[-1], *(edge for some in edges for edge in some)]).astype(np.int64)
    nearest = np.abs(np.subtract.outer(wanted, cuts)).argmin(axis=1)
    return np.union1d(wanted, np.delete(cuts, nearest))


def _narrowed(cuts: Int64Array, clip: float) -> Int64Array:
    """Cuts with more between them, so that no group is wider than ``WIDEST_IN_LOG_ODDS`` within [clip, 1 - clip].

    A group does not reach beyond these ends from inside. Groups that are narrow enough stay as they are.
    """
    grid = int(cuts[-1])
    edges = edges_of(grid)
    ends = np.array([np.searchsorted(edges, clip), np.searchsorted(edges, 1 - clip, side="right") - 1])
    wide = np.union1d(cuts, ends[(ends > 0) & (ends < grid)])
    odds = logit(np.clip(edges[wide], clip, 1 - clip))
    parts = np.ceil(np.diff(odds) / WIDEST_IN_LOG_ODDS - 1e-9)
    between = [
        expit(np.linspace(odds[group], odds[group + 1], int(parts[group]) + 1)[1:-1])
        for group in np.flatnonzero(parts > 1)
    ]
    return np.union1d(wide, np.append(0, _nearest_cuts(np.concatenate([[0.0], *between]), edges)))


def _nearest_cuts(scores: FloatArray, edges: FloatArray) -> Int64Array:
    after = np.searchsorted(edges, scores).clip(1)
    nearer = scores - edges[after - 1] < edges[after] - scores
    return np.where(nearer, after - 1, after).astype(np.int64)


def _groups(
    counts: Int64Array, cuts: Int64Array, of_counts: Decimal, of_sums: Decimal, *, neighbours: Neighbours, noise: Noise
) -> NoisyGroups:
    """The sums of the groups, at the same epsilons in every group; without sums of scores these stay 0.

    Privacy: ``mechanisms.group_sums`` proves it for any split of epsilon in each group. The noise of the sums of
    scores is drawn group by group, because the widths of the groups differ.
    """
    rows, size = rows_changed(neighbours), cuts.size - 1
    noisy = noise.laplace(totals(counts, cuts), epsilon=of_counts, l1_sensitivity=rows)
    sums = np.zeros(size, dtype=np.int64)
    if of_sums > 0:
        exact = centred_sums(counts.sum(axis=0), cuts)
        for group, width in enumerate(largest_centred(cuts, counts.shape[1])):
            if width:
                one = slice(group, group + 1)
                sums[one] = noise.laplace(exact[one], epsilon=of_sums, l1_sensitivity=rows * int(width))
    return NoisyGroups(
        grid=counts.shape[1],
        cuts=cuts,
        positives=noisy[1],
        negatives=noisy[0],
        centred=sums,
        epsilons=((of_counts,) * size, (of_sums,) * size),
        neighbours=neighbours,
    )
