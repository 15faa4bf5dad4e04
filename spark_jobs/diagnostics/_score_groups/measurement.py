"""The random part of binned residuals and calibration, which is the same: groups of scores and their noisy numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.diagnostics._score_groups.binning import place_by_looking, place_by_medians, place_evenly
from spark_jobs.mechanisms.group_sums import NoisyGroups, noisy_groups
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.statistics import ScoreCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """The draw: all noisy numbers of one release, and the public facts needed to read them.

    Attributes:
        method: as requested.
        confidence: nominal level of intervals.
        neighbours: the relation of the guarantee.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        spendings: what each part cost; they add up to the release's cost.
        bins: what the release shows, as cuts of the grid; as many as the request says.
        ends: for each counted group the number of bins up to its end.
        groups: the noisy numbers.
    """

    method: str
    confidence: float
    neighbours: Neighbours
    guarantee: str
    spendings: tuple[Spending, ...]
    bins: Int64Array
    ends: Int64Array
    groups: NoisyGroups

    @property
    def epsilon(self) -> Decimal:
        """What all of it cost."""
        return exact_sum(*(spending.epsilon for spending in self.spendings))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "method": self.method,
            "confidence": self.confidence,
            "neighbours": str(self.neighbours),
            "guarantee": self.guarantee,
            "spendings": [spending.to_dict() for spending in self.spendings],
            "bins": self.bins.tolist(),
            "ends": self.ends.tolist(),
            "groups": self.groups.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Measurement:
        """The measurement that ``to_dict`` described."""
        return cls(
            method=fields["method"],
            confidence=fields["confidence"],
            neighbours=Neighbours(fields["neighbours"]),
            guarantee=fields["guarantee"],
            spendings=tuple(Spending.from_dict(spending) for spending in fields["spendings"]),
            bins=np.array(fields["bins"], dtype=np.int64),
            ends=np.array(fields["ends"], dtype=np.int64),
            groups=NoisyGroups.from_dict(fields["groups"]),
        )


def measure_groups(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    method: str,
    bins: int,
    confidence: float,
) -> Measurement:
    """Place groups, then draw their numbers; ``epsilon``-DP for one row added, removed or replaced.

    Spendings compose sequentially: what places the groups, then the numbers of the groups. Groups depend on the request
    and on what was released before, never on the exact counts.

    Args:
        statistic: exact counts; private.
        epsilon: what the release may cost; all of it is spent.
        neighbours: the relation.
        noise: where the noise comes from.
        method: ``auto``, ``recursive_medians`` or ``fixed_bins``.
        bins: what the release shows.
        confidence: nominal level of intervals.

    Raises:
        RequestRefused: more bins than cells, or a number of bins that the method cannot make.
    """
    grid = statistic.cells
    _require_bins(bins, method, grid)
    meter = BudgetMeter(epsilon)
    counts = np.stack([statistic.negatives, statistic.positives])
    if method == "fixed_bins":
        placed = place_evenly(grid, bins)
    else:
        place = place_by_medians if method == "recursive_medians" else place_by_looking
        placed = place(counts.sum(axis=0), bins, meter=meter, neighbours=neighbours, noise=noise)
    rest = meter.spend_rest(label="positives, negatives and scores of each group")
    groups = noisy_groups(counts, placed.cuts, epsilon=rest, neighbours=neighbours, noise=noise)
    return Measurement(
        method=method,
        confidence=confidence,
        neighbours=neighbours,
        guarantee=noise.guarantee,
        spendings=meter.events,
        bins=placed.bins,
        ends=placed.ends,
        groups=groups,
    )


def _require_bins(bins: int, method: str, grid: int) -> None:
    if bins > grid:
        raise RequestRefused(
            "bins",
            given=bins,
            bound=f"must be at most the {grid} cells of the score grid",
            remedy="ask for fewer bins or a finer grid",
        )
    if method == "recursive_medians" and bins.bit_count() != 1:
        raise RequestRefused(
            "bins", given=bins, bound="must be a power of two for recursive_medians", remedy="ask for 8, 16 or 32 bins"
        )
