"""The summary of a draw as released confusion matrices; deterministic post-processing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, UNDEFINED
from spark_jobs.diagnostics._simulation import DECIMALS, rounded, solved_interval, tree_errors
from spark_jobs.diagnostics.confusion_matrix.measurement import ConfusionDraw
from spark_jobs.diagnostics.confusion_matrix.result import COUNTS, RATES, ConfusionMatrix
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, monotone

COPIES = 2000
Named = Mapping[str, FloatArray]


def summarise(draw: ConfusionDraw, *, seed: int) -> ConfusionMatrix:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind intervals.
    """
    index = np.searchsorted(draw.cuts, draw.at)
    below = [tree.prefix_counts() for tree in (draw.negatives, draw.positives)]
    noise = SeededNoise(seed)
    errors = [_errors(tree, draw, noise) for tree in (draw.negatives, draw.positives)]
    raw = _counts(below[0], below[1], index)
    copies = _counts(below[0] - errors[0], below[1] - errors[1], index)
    sizes = [float(counts[-1]) for counts in below]
    noisy = max(float(error[:, -1].std()) for error in errors)
    defined = np.array(min(sizes) >= max(DEFINED_ABOVE * noisy, 1.0))
    rates, lower, upper = {}, {}, {}
    for name in RATES:
        part, whole = _fraction(name, raw)
        copy_part, copy_whole = _fraction(name, copies)
        value = part / np.maximum(whole, 1.0)
        low, high = solved_interval(value, copy_part / np.maximum(copy_whole, 1.0), draw.confidence)
        unknown = ~defined | (whole < np.maximum(DEFINED_ABOVE * copy_whole.std(axis=0), 1.0))
        shown = np.clip(value, 0.0, 1.0)
        rates[name] = rounded(np.where(unknown, np.nan, shown))
        lower[name] = rounded(np.where(unknown, np.nan, np.minimum(np.clip(low, 0.0, 1.0), shown)))
        upper[name] = rounded(np.where(unknown, np.nan, np.maximum(np.clip(high, 0.0, 1.0), shown)))
    shown_counts = _counts(_never_falling(below[0]), _never_falling(below[1]), index)
    return ConfusionMatrix(
        thresholds=np.array(draw.at) / draw.grid,
        counts={name: rounded(np.maximum(shown_counts[name], 0.0)) for name in COUNTS},
        rates=rates,
        lower=lower,
        upper=upper,
        negatives=round(max(sizes[0], 0.0), DECIMALS),
        positives=round(max(sizes[1], 0.0), DECIMALS),
        status=OK if defined else UNDEFINED,
        confidence=draw.confidence,
        epsilon=draw.epsilon,
        neighbours=draw.neighbours,
        guarantee=draw.guarantee,
    )


def _never_falling(below: FloatArray) -> FloatArray:
    """Prefix counts that never fall, up to the same total, which every matrix then adds up to."""
    total = max(float(below[-1]), 0.0)
    return np.append(monotone(below, upper=total)[:-1], total)


def _counts(negatives_below: FloatArray, positives_below: FloatArray, index: NDArray[np.intp]) -> dict[str, FloatArray]:
    """The four counts at each threshold, from the numbers of rows of both classes below every cut (last axis)."""
    tn, fn = negatives_below[..., index], positives_below[..., index]
    fp, tp = negatives_below[..., -1:] - tn, positives_below[..., -1:] - fn
    return dict(zip(COUNTS, (tp, fp, fn, tn), strict=True))


def _fraction(rate: str, counts: Named) -> tuple[FloatArray, FloatArray]:
    tp, fp, fn, tn = (counts[name] for name in COUNTS)
    return {
        "accuracy": (tp + tn, tp + fp + fn + tn),
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "specificity": (tn, tn + fp),
        "f1": (2 * tp, 2 * tp + fp + fn),
    }[rate]


def _errors(tree: NoisyTree, draw: ConfusionDraw, noise: SeededNoise) -> FloatArray:
    """Copies of the noise in the prefix counts of one class; shape (COPIES, cells + 1)."""
    cells = tree_errors(
        tree,
        epsilon=draw.spendings[-1].epsilon,
        neighbours=draw.neighbours,
        copies=COPIES,
        noise=noise,
    )
    return np.concatenate([np.zeros((COPIES, 1)), np.cumsum(cells, axis=1)], axis=1)
