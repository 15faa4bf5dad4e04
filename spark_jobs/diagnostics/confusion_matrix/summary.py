"""Summarises a draw as the confusion matrices that are released; deterministic post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS, Ends, Figure, Numbers
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, UNDEFINED
from spark_jobs.contract.options.score_figures import rate_at
from spark_jobs.contract.results.score_figures import COUNTS, RATES, ConfusionMatrix
from spark_jobs.diagnostics._populations import RatioNoise, population_interval, privacy_share
from spark_jobs.diagnostics._simulation import rounded, solved_interval, tree_errors
from spark_jobs.diagnostics.confusion_matrix.measurement import ConfusionDraw
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, monotone
from spark_jobs.score_grid import edges_of

COPIES = 2000
Named = Mapping[str, FloatArray]


def summarise(draw: ConfusionDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> ConfusionMatrix:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind intervals.
        sampling: what was sampled, rows or units of several rows, with the design effects.
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
    rates: dict[str, Numbers] = {}
    for name in RATES:
        part, whole = _fraction(name, raw)
        copy_part, copy_whole = _fraction(name, copies)
        value = part / np.maximum(whole, 1.0)
        low, high = solved_interval(value, copy_part / np.maximum(copy_whole, 1.0), draw.confidence)
        unknown = ~defined | (whole < np.maximum(DEFINED_ABOVE * copy_whole.std(axis=0), 1.0))
        shown = np.clip(value, 0.0, 1.0)
        intervals = (
            (np.minimum(np.clip(low, 0.0, 1.0), shown), np.maximum(np.clip(high, 0.0, 1.0), shown)),
            _population_interval(name, raw, copies, draw.confidence, effect=_effects(name, draw, sampling)),
        )
        noise_of, population = (
            Ends(*(rounded(np.where(unknown, np.nan, end)) for end in interval)) for interval in intervals
        )
        rates[name] = Figure(
            value=rounded(np.where(unknown, np.nan, shown)),
            interval=noise_of,
            population=population,
            privacy_share=rounded(privacy_share(noise_of, population)),
        )
    in_force = edges_of(draw.grid)[list(draw.at)]
    shown_counts = _counts(_never_falling(below[0]), _never_falling(below[1]), index)
    fields: dict[str, Any] = {name: rounded(np.maximum(shown_counts[name], 0.0)) for name in COUNTS}
    fields |= rates
    return ConfusionMatrix(
        thresholds=in_force,
        requested=np.array(draw.requested or in_force),
        **fields,
        negatives=round(max(sizes[0], 0.0), DECIMALS),
        positives=round(max(sizes[1], 0.0), DECIMALS),
        status=OK if defined else UNDEFINED,
        confidence=draw.confidence,
        **draw.stated,
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


def _effects(rate: str, draw: ConfusionDraw, sampling: Sampling) -> FloatArray:
    """The design effect of a rate at each threshold."""
    return np.array([sampling.effect(rate_at(rate, place)).value for place in range(len(draw.at))])


def _population_interval(
    rate: str, counts: Named, copies: Named, confidence: float, *, effect: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Ends of the interval of a rate for the population.

    Precision and recall have the harmonic mean ``2 p / (1 + p)`` for the share ``p`` of the true positives in all rows
    that are positive or predicted so.
    """
    part, whole = _fraction(rate, counts)
    copy_part, copy_whole = _fraction(rate, copies)
    if rate == "f1":
        part, copy_part = part / 2, copy_part / 2
        whole, copy_whole = whole - part, copy_whole - copy_part
    rows = np.maximum(whole, 1.0)
    noise = RatioNoise.of_copies(copy_part, copy_whole)
    low, high = population_interval(np.clip(part / rows, 0.0, 1.0), rows, noise, confidence=confidence, effect=effect)
    return (2 * low / (1 + low), 2 * high / (1 + high)) if rate == "f1" else (low, high)


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
