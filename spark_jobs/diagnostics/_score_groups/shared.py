"""Groups of scores, derived from a measurement that several diagnostics share; post-processing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.options import GroupedSettings
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.mechanisms.group_sums import NoisyGroups
from spark_jobs.mechanisms.noise import Noise


@dataclass(frozen=True, kw_only=True, eq=False)
class MergedGroups(NoisyGroups):
    """Runs of neighbouring groups; the sums of a run, and their noise, add up.

    Attributes:
        parts: the released groups.
        starts: index of the first group of each run.
    """

    parts: NoisyGroups
    starts: Int64Array

    @classmethod
    def of(cls, parts: NoisyGroups, starts: Int64Array) -> MergedGroups:
        """The runs of ``parts`` that begin at ``starts``."""
        names = ("positives", "negatives", "centred")
        return cls(
            parts=parts,
            starts=starts,
            grid=parts.grid,
            cuts=np.append(parts.cuts[starts], parts.cuts[-1]),
            epsilons=parts.epsilons,
            neighbours=parts.neighbours,
            summed=parts.summed,
            **{name: np.add.reduceat(getattr(parts, name), starts) for name in names},
        )

    def values(self) -> FloatArray:
        """Unbiased estimates of the positives, negatives and sum of scores of each run; shape (3, k)."""
        merged: FloatArray = np.add.reduceat(self.parts.values(), self.starts, axis=-1)
        return merged

    def size_variance(self) -> float:
        """The variance of the noise in the number of positives of all groups, and in that of negatives."""
        return self.parts.size_variance()

    def errors(self, copies: int, noise: Noise) -> FloatArray:
        """Fresh copies of the noise in ``values``; shape (copies, 3, k)."""
        merged: FloatArray = np.add.reduceat(self.parts.errors(copies, noise), self.starts, axis=-1)
        return merged


def groups_of_groups(options: GroupedSettings, shared: SharedGroups) -> GroupsDraw:
    """The draw of binned residuals or of a calibration: merges shared groups, or shows one as several bins."""
    groups, bins = shared.groups, options.bins or options.default_bins["auto"]
    count = groups.positives.size
    if count >= bins:
        # one run of groups for each bin, with near-equal noisy numbers of rows
        depth = np.cumsum(np.maximum(groups.positives + groups.negatives, 0) + 1e-3)
        order = np.arange(1, bins)
        starts = np.searchsorted(depth, order / bins * depth[-1])
        starts = np.clip(np.maximum.accumulate(starts - order) + order, order, count - bins + order)
        groups = MergedGroups.of(groups, np.concatenate([[0], starts]))
        shown, ends = groups.cuts, np.arange(1, bins + 1, dtype=np.int64)
    else:
        shown, ends = _split(groups, bins)
    return GroupsDraw(
        **shared.origin,
        method="auto",
        confidence=options.confidence,
        bins=shown,
        ends=ends,
        groups=groups,
        located=shared.located,
    )


def _split(groups: NoisyGroups, bins: int) -> tuple[Int64Array, Int64Array]:
    """Split groups into bins until there are as many as the request asks for."""
    widths, count = np.diff(groups.cuts), groups.positives.size
    parts = np.ones(count, dtype=np.int64)
    for _ in range(bins - count):
        parts[int(np.argmax(np.where(parts < widths, widths / parts, 0.0)))] += 1
    pieces = [
        low + (high - low) * np.arange(part, dtype=np.int64) // part
        for low, high, part in zip(groups.cuts[:-1], groups.cuts[1:], parts, strict=True)
    ]
    return np.append(np.concatenate(pieces), groups.cuts[-1]), np.cumsum(parts)
