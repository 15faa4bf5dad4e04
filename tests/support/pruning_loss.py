"""The exact privacy loss of a pruning, from the scale and the step it uses: per path, and of a whole answer."""

from __future__ import annotations

import numpy as np

from spark_jobs.papers.streams.pruning import levels_above
from tests.support.sparse_vector_loss import tail

THRESHOLD = 50


def path_loss(totals: np.ndarray, changed: np.ndarray, scale: float, step: int) -> float:
    """The greatest log ratio over the outcomes of one path: refined down to some level, then not; or throughout."""
    depth = np.arange(totals.size)
    needed = [THRESHOLD + 1 - _scores(each, depth, step, THRESHOLD) for each in (totals, changed)]
    # noise is symmetric: it stays below a bound as often as it reaches one more than the bound's negative
    (yes, no) = (
        np.log(tail(scale, bounds[1]) / tail(scale, bounds[0])) for bounds in (needed, [1 - each for each in needed])
    )
    so_far = np.concatenate([[0.0], np.cumsum(yes)])
    return float(max(np.abs(so_far[:-1] + no).max(), abs(so_far[-1])))


def _scores(totals, depth, step, threshold):
    return np.maximum(totals - depth * step, threshold - step) if step else totals


def worst_path_loss(scale: float, step: int, *, paths: int = 2_000, most: int = 11) -> float:
    """Over one row more on random paths, and on paths whose scores stay where the loss is greatest."""
    random = np.random.default_rng(3)
    worst = 0.0
    for _ in range(paths):
        height = int(random.integers(1, most + 1))
        falls = np.cumsum(random.choice([0, 0, 0, 1, 2, 5, 20], size=height))
        totals = np.maximum(THRESHOLD + int(random.integers(-5, 6)) + int(random.integers(12)) * step - falls, 0)
        worst = max(worst, path_loss(totals, totals + 1, scale, step))
    for height in range(1, most + 1):
        for above in range(-2 * step - 2, (height + 2) * step + 2, max(1, step // 3)):
            level = np.full(height, THRESHOLD + above)
            worst = max(worst, path_loss(level, level + 1, scale, step))
    return worst


def answer_log(counts, answers, scale, step, threshold=THRESHOLD):
    """The log probability of an answer of ``refined_nodes`` on a binary tree over ``counts``."""
    value, asked = 0.0, np.ones(1, dtype=bool)
    for depth, (totals, given) in enumerate(zip(levels_above(np.asarray(counts), 2), answers, strict=True)):
        refined = np.asarray(given)
        needed = threshold + 1 - _scores(totals, depth, step, threshold)
        value += float(np.log(tail(scale, np.where(refined, needed, 1 - needed)))[asked].sum())
        asked = np.repeat(refined, 2)
    return value
