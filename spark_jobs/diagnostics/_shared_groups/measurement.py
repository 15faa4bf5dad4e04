"""The random part of a shared release: where its groups lie, and their noisy numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.diagnostics.roc_curve.measurement import cells_for, look_at_scores, place_cells
from spark_jobs.mechanisms.cells import NoisyCells, totals
from spark_jobs.mechanisms.group_sums import NoisyGroups, centred_sums
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.statistics import ScoreCounts

NEED_SUMS = frozenset({"binned_residuals", "calibration"})
SUMS_SHARE = Decimal("0.1")
"""Of the budget, for the sums of scores: a sum moves by at most half a group's width, and needs less than a count."""
MOST_GROUPS = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedGroups:
    """The draw: noisy numbers of groups of scores, and the public facts needed to read them.

    Attributes:
        neighbours: the relation of the guarantee.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        spendings: what each part cost, the counts last; they add up to the release's cost.
        groups: the noisy numbers.
        located: the noisy counts by which the groups were placed.
    """

    neighbours: Neighbours
    guarantee: str
    spendings: tuple[Spending, ...]
    groups: NoisyGroups
    located: tuple[NoisyCells, ...]

    @property
    def epsilon(self) -> Decimal:
        """What all of it cost."""
        return exact_sum(*(spending.epsilon for spending in self.spendings))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "neighbours": str(self.neighbours),
            "guarantee": self.guarantee,
            "spendings": [spending.to_dict() for spending in self.spendings],
            "groups": self.groups.to_dict(),
            "located": [cells.to_dict() for cells in self.located],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SharedGroups:
        """The draw that ``to_dict`` described."""
        return cls(
            neighbours=Neighbours(fields["neighbours"]),
            guarantee=fields["guarantee"],
            spendings=tuple(Spending.from_dict(spending) for spending in fields["spendings"]),
            groups=NoisyGroups.from_dict(fields["groups"]),
            located=tuple(NoisyCells.from_dict(cells) for cells in fields["located"]),
        )


def measure_shared(
    statistic: ScoreCounts,
    *,
    kinds: Collection[str],
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
) -> SharedGroups:
    """Draw the noise of a shared release; ``epsilon``-DP for one row added, removed or replaced.

    Spendings compose sequentially: the looks that place the groups, the sums of scores where one of ``kinds`` needs
    them, and the counts of both classes. Groups depend on public facts and on earlier releases alone.

    Args:
        statistic: exact counts; private.
        kinds: the diagnostics that will be made from it; public.
        epsilon: what the release may cost; all of it is spent.
        neighbours: the relation. ``REPLACE_ONE`` doubles all noise.
        noise: where the noise comes from.
    """
    meter = BudgetMeter(epsilon)
    counts = np.stack([statistic.negatives, statistic.positives])
    grid = counts.shape[1]
    located, signal = look_at_scores(counts, meter=meter, neighbours=neighbours, noise=noise)
    cells = min(cells_for(signal), MOST_GROUPS, grid)
    cuts = place_cells(located[-1], grid=grid, cells=cells)
    of_sums = Decimal(0)
    if NEED_SUMS.intersection(kinds):
        of_sums = meter.spend_share(SUMS_SHARE, label=f"sums of scores in {cells} groups")
    of_counts = meter.spend_rest(label=f"counts of both classes in {cells} groups")
    return SharedGroups(
        neighbours=neighbours,
        guarantee=noise.guarantee,
        spendings=meter.events,
        groups=_groups(counts, cuts, of_counts, of_sums, neighbours=neighbours, noise=noise),
        located=located,
    )


def _groups(
    counts: Int64Array, cuts: Int64Array, of_counts: Decimal, of_sums: Decimal, *, neighbours: Neighbours, noise: Noise
) -> NoisyGroups:
    """The groups' numbers, every group with the same parts of epsilon; without sums those stay 0.

    Privacy: ``mechanisms.group_sums`` proves it for any split of each group, so for equal ones; the sums' noise is
    drawn group by group, as their widths differ.
    """
    rows, size = rows_changed(neighbours), cuts.size - 1
    noisy = noise.laplace(totals(counts, cuts), epsilon=of_counts, l1_sensitivity=rows)
    sums = np.zeros(size, dtype=np.int64)
    if of_sums > 0:
        exact = centred_sums(counts.sum(axis=0), cuts)
        for group, width in enumerate(np.diff(cuts) - 1):
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
