"""Where the scores of a group lie inside it, as far as its noisy sums show.

Scores are taken to be spread over the group with a density that is exponential in the score and has the mean that the
noisy sum of scores gives (the density of largest entropy with this mean). A noisy mean counts with a prior about the
group's middle, whose weight falls with the noise; what is left of its error is drawn anew for simulations. A group is
narrow in log-odds, so its figures hardly depend on more than the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._simulation import normal
from spark_jobs.mechanisms.group_sums import NoisyGroups
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from spark_jobs.score_grid import middles_of

NODES = 12
OFF_CENTRE = 0.15
"""Prior standard deviation of the mean score of a group about its middle, as a share of its width."""
NEAREST_END = 0.08
"""Smallest distance of the mean from both ends of the group, as a share of its width."""
FEWEST = 2.0
"""Rows that a mean counts for at the fewest, in standard scales of the noise of a count."""
_STEEPEST, _HALVINGS = 60.0, 40


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoresInside:
    """Scores of groups at some places, with weights.

    Attributes:
        scores: shape (groups, NODES).
        weights: of each place of a group, with sum 1; same shape.
    """

    scores: FloatArray
    weights: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Means:
    """What is known of the mean scores of groups, as shares of the way from their lowest score to their highest.

    Attributes:
        low, width: lowest score of each group, and the distance to the highest; shape (groups,).
        share: estimates.
        error: standard deviation of each estimate.
    """

    low: FloatArray
    width: FloatArray
    share: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, groups: NoisyGroups) -> Means:
        """The means by the noisy sums of ``groups``."""
        of_counts, of_sums = groups.scales()
        rows = np.maximum(groups.positives + groups.negatives, FEWEST * of_counts)
        middles = middles_of(groups.grid)
        low = middles[groups.cuts[:-1]]
        width = middles[groups.cuts[1:] - 1] - low
        steps = np.maximum(width / groups.units, 1.0) * rows
        variance = np.array([laplace_variance(float(scale)) if scale else 0.0 for scale in of_sums]) / steps**2
        trust = OFF_CENTRE**2 / (OFF_CENTRE**2 + variance)
        return cls(
            low=low,
            width=width,
            share=np.divide(groups.middles - low, width, out=np.full(width.shape, 0.5), where=width > 0)
            + trust * groups.centred / steps,
            error=np.sqrt(trust * variance),
        )

    def estimated(self) -> ScoresInside:
        """The scores by the estimates."""
        return self._spread(self.share)

    def drawn(self, source: SeededNoise) -> ScoresInside:
        """The scores by means that differ from the estimates by random errors."""
        return self._spread(self.share + self.error * normal(source, self.share.shape))

    def _spread(self, share: FloatArray) -> ScoresInside:
        places = (np.arange(NODES) + 0.5) / NODES
        wanted = np.clip(share, NEAREST_END, 1 - NEAREST_END)[:, None]
        low, high = np.full(wanted.shape, -_STEEPEST), np.full(wanted.shape, _STEEPEST)
        for _ in range(_HALVINGS):
            steepness = (low + high) / 2
            weights = _weights(steepness, places)
            too_low = (weights * places).sum(axis=1, keepdims=True) < wanted
            low, high = np.where(too_low, steepness, low), np.where(too_low, high, steepness)
        return ScoresInside(
            scores=self.low[:, None] + self.width[:, None] * places, weights=_weights((low + high) / 2, places)
        )


def _weights(steepness: FloatArray, places: FloatArray) -> FloatArray:
    weights: FloatArray = np.exp(steepness * (places - 0.5))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)
