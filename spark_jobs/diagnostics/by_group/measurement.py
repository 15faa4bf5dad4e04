"""The noisy counts of every group: a shared measurement for each, or parts of that of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from spark_jobs.contract.options import ByGroupOptions, ByGroupSettings, ConfusionMatrixSettings
from spark_jobs.contract.options.by_group import OTHER, KindByGroup
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups, measure_shared
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.score_grid import threshold_cells
from spark_jobs.statistics import GroupedScoreCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class ByGroupDraw(Draw):
    """The noisy counts of every group, and the kinds that are computed from them.

    Attributes:
        keys: the groups as texts; the last one has the rows of no listed group.
        groups: the draw of each group.
        kinds: the kinds that each group gets.
        confidence: nominal level of the intervals by which groups are compared.
    """

    keys: tuple[str, ...]
    groups: tuple[SharedGroups, ...]
    kinds: tuple[KindByGroup, ...]
    confidence: float

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes of all groups together."""
        sizes = [size for group in self.groups if (size := group.class_sizes) is not None]
        return ClassSizes(
            negatives=sum(size.negatives for size in sizes),
            positives=sum(size.positives for size in sizes),
            variance=sum(size.variance for size in sizes),
        )

    @property
    def threshold_cells(self) -> tuple[int, ...]:
        """For each threshold of a confusion matrix, the first cell that reaches it; an edge of every group's cells."""
        one = self.groups[0]
        of_kinds = [options.thresholds for options in self.kinds if isinstance(options, ConfusionMatrixSettings)]
        return tuple(cell for of in of_kinds for cell in threshold_cells(of, one.groups.grid, one.rounding))


def groups_of_shared(options: ByGroupOptions, shared: SharedGroups) -> ByGroupDraw:
    """The draw of the groups, taken from a measurement by the same list that other diagnostics share."""
    return ByGroupDraw(
        **shared.origin,
        keys=(*map(str, options.groups), OTHER),
        groups=shared.of_keys,
        kinds=cast("tuple[KindByGroup, ...]", options.kinds),
        confidence=options.confidence,
    )


def measure_by_group(statistic: GroupedScoreCounts, options: ByGroupSettings, terms: Terms) -> ByGroupDraw:
    """Draw the noise of every group's counts; ``epsilon``-DP for one row added, removed or replaced.

    Each group is measured with the whole epsilon by ``measure_shared``, all of whose noise is Laplace noise. Proof, for
    groups that share no row:

    * ``ADD_REMOVE``: the row is in one group. The other groups' counts stay as they are, and their noise is
      independent, so the loss is that of one measurement.
    * ``REPLACE_ONE``: noise is twice as wide, so that replacing a row within one measurement costs epsilon. This is
      the cost if the row stays in its group. If it changes its group, a row is removed from one measurement and a row
      is added to another; each of these two changes costs half of epsilon.

    Steps of one group depend on public facts and on earlier releases of this group alone.

    Args:
        statistic: exact counts by group; private.
        options: the kinds that will be computed; public.
        terms: budget, relation and noise; all of epsilon is spent, once.
    """
    meter = terms.meter()
    meter.spend_rest(label=f"counts of scores in each of {len(statistic.keys) + 1} groups, which share no row")
    return ByGroupDraw.of(
        terms,
        meter,
        keys=(*map(str, statistic.keys), OTHER),
        groups=tuple(measure_shared(counts, options.kinds, terms) for counts in statistic.groups),
        kinds=cast("tuple[KindByGroup, ...]", options.kinds),
        confidence=options.confidence,
    )
