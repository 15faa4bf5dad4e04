"""PriBRP's sums as published (Chen 2018, section 4.4.2): not private at the epsilon they claim. For tests alone."""

from __future__ import annotations

import numpy as np

from spark_jobs.mechanisms.cells import totals


def uncentred_sums(counts, cuts, *, epsilon, noise):
    """Size, sum of scores and sum of residuals of every bin, each with the noise of the text, in fine cells.

    Half of epsilon pays for the size, at sensitivity 2; a quarter each for the two sums, at the claimed sensitivities
    ``r - l`` and ``1 + r - l``. A score is taken at its cell's upper edge: the worst in a bin closed there.
    """
    grid = counts.shape[1]
    upper = np.arange(1, grid + 1)
    rows = counts.sum(axis=0)
    sizes, scores = totals(rows, cuts), totals(rows * upper, cuts)
    residuals = totals(counts[1] * grid, cuts) - scores
    released = []
    for group, width in enumerate(np.diff(cuts)):
        released.append(
            (
                noise.laplace(sizes[[group]], epsilon=epsilon / 2, l1_sensitivity=2),
                noise.laplace(scores[[group]], epsilon=epsilon / 4, l1_sensitivity=int(width)),
                noise.laplace(residuals[[group]], epsilon=epsilon / 4, l1_sensitivity=int(grid + width)),
            )
        )
    return released


def closed_bins(scores, edges):
    """The bins ``l <= p <= r`` of each score, as printed in (4.8): a score on an edge is in two of them."""
    return [[i for i in range(len(edges) - 1) if edges[i] <= score <= edges[i + 1]] for score in scores]
