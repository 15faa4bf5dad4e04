"""Where the scores of a group lie inside it, as far as its noisy sums show.

The mean score of a group is known by its noisy sum. It is combined with a prior about the group's middle; the larger
the noise, the more the prior weighs. Simulations draw the remaining error of the mean afresh. Nothing shows how scores
lie about the mean, so three forms are possible:

* ``SPREAD``: over the group, with a density that is exponential in the score and has this mean (the density of largest
  entropy with this mean). The released figures are those of this form.
* ``POINT``: all at the mean, as scores of few decimals may be, shifted up or down by the most that rounding may have
  moved the mean.
* ``LUMPS``: at two places of each group, drawn at random, one on either side of the mean.

The sums also do not show which rows of a group are positive. Simulations draw this: given the scores, the positives of
a group are a random choice of its rows, about what the fit expects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._simulation import normal, uniform
from spark_jobs.mechanisms.group_sums import NoisyGroups
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from spark_jobs.score_grid import edges_of, furthest_from

NODES = 12
OFF_CENTRE = 0.15
"""Prior standard deviation of the mean score of a group about its middle, as a share of its width."""
NEAREST_END = 0.08
"""Smallest distance of the mean of scores that are spread from both ends of the group, as a share of its width."""
SPREAD, POINT, LUMPS = FORMS = ("spread", "point", "lumps")
FEWEST = 2.0
"""Rows that a mean counts for at the fewest, in standard scales of the noise of a count."""
_STEEPEST, _HALVINGS = 60.0, 40


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoresInside:
    """The scores of each group, as places with weights.

    Attributes:
        scores: the score at each place; shape (groups, places), with as many places as the form needs.
        weights: the share of the group's rows at each place, with sum 1; same shape.
    """

    scores: FloatArray
    weights: FloatArray

    def beyond(self, positives: FloatArray, negatives: FloatArray, source: SeededNoise) -> FloatArray:
        """Random excess of positives at each place over what a fit expects; the excesses of a group add up to 0.

        If the positives are a random choice of the n rows of a group, and w are the shares of the rows at its places,
        the numbers of positives at the places have covariances ``positives negatives / n (diag(w) - w w^T)``.

        Args:
            positives: positive rows of each group; shape (copies, groups).
            negatives: negative rows of each group.
            source: random source of the simulation, from a public seed.

        Returns:
            Shape (copies, groups, places).
        """
        of_class = np.maximum(positives, 0.0), np.maximum(negatives, 0.0)
        spread = np.sqrt(of_class[0] * of_class[1] / np.maximum(of_class[0] + of_class[1], 1.0))
        roots = np.sqrt(self.weights)
        drawn = normal(source, (*positives.shape, roots.shape[-1]))
        free = drawn - roots * (roots * drawn).sum(axis=-1, keepdims=True)
        return np.asarray(spread[..., None] * roots * free, dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Means:
    """Estimated mean scores of groups, each as a fraction of the way from the group's lower end to its upper end.

    Attributes:
        low, width: lower end and width of each group; shape (groups,).
        share: the estimates.
        error: standard deviation of each estimate.
        moved: how far the rounding of scores may have moved each mean.
    """

    low: FloatArray
    width: FloatArray
    share: FloatArray
    error: FloatArray
    moved: FloatArray

    @classmethod
    def of(cls, groups: NoisyGroups) -> Means:
        """Estimate the means from the noisy sums of ``groups``."""
        of_counts, of_sums = groups.scales()
        rows = np.maximum(groups.positives + groups.negatives, FEWEST * of_counts)
        edges = edges_of(groups.grid)[groups.cuts]
        low, width = edges[:-1], np.diff(edges)
        steps = width / groups.units * rows
        variance = np.array([laplace_variance(float(scale)) if scale else 0.0 for scale in of_sums]) / steps**2
        trust = OFF_CENTRE**2 / (OFF_CENTRE**2 + variance)
        share = 0.5 + trust * groups.centred / steps
        middles = low + np.clip(share, 0.0, 1.0) * width
        return cls(
            low=low,
            width=width,
            share=share,
            error=np.sqrt(trust * variance),
            moved=(furthest_from(middles, groups.grid) + groups.off_units) / width,
        )

    def estimated(self) -> ScoresInside:
        """The scores at the estimated means, in the form ``SPREAD``."""
        return self._spread(self.share)

    def drawn(self, source: SeededNoise, form: str) -> ScoresInside:
        """Scores in this form, with means that differ from the estimates by random errors."""
        share = self.share + self.error * normal(source, self.share.shape)
        if form == SPREAD:
            return self._spread(share)
        if form == POINT:
            share = share + np.where(uniform(source, share.size) < 0.5, -1.0, 1.0) * self.moved
        share = np.clip(share, 0.0, 1.0)[:, None]
        if form == POINT:
            return self._at(share, np.ones(share.shape))
        below, above = (uniform(source, share.size)[:, None] * room for room in (share, 1.0 - share))
        weights = np.divide(above, below + above, out=np.ones(share.shape), where=below + above > 0)
        return self._at(np.hstack([share - below, share + above]), np.hstack([weights, 1.0 - weights]))

    def _at(self, places: FloatArray, weights: FloatArray) -> ScoresInside:
        return ScoresInside(scores=self.low[:, None] + self.width[:, None] * places, weights=weights)

    def _spread(self, share: FloatArray) -> ScoresInside:
        places = (np.arange(NODES) + 0.5) / NODES
        wanted = np.clip(share, NEAREST_END, 1 - NEAREST_END)[:, None]
        low, high = np.full(wanted.shape, -_STEEPEST), np.full(wanted.shape, _STEEPEST)
        for _ in range(_HALVINGS):
            steepness = (low + high) / 2
            weights = _weights(steepness, places)
            too_low = (weights * places).sum(axis=1, keepdims=True) < wanted
            low, high = np.where(too_low, steepness, low), np.where(too_low, high, steepness)
        weights = _weights((low + high) / 2, places)
        return self._at(np.broadcast_to(places, weights.shape), weights)


def _weights(steepness: FloatArray, places: FloatArray) -> FloatArray:
    weights: FloatArray = np.exp(steepness * (places - 0.5))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)
