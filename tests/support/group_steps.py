"""The groups and estimates of PeGaSus from their definitions: one stream at a time, one step at a time, in lists."""

from __future__ import annotations

import numpy as np

from spark_jobs.papers.streams.smoothing import Smoother
from tests.support.stream_law import deviation


def grouped_by_definition(steps):
    """Starts, estimates and weights of groups of ``open_groups.NextSteps``, all from the first step of the stream."""
    shape = steps.exact.shape
    starts, estimates, weights = np.full(shape, -1), np.zeros(shape), np.ones(shape)
    for stream in range(shape[1]):
        group, start, level = [], 0, 0
        for number, at in enumerate(np.flatnonzero(steps.taken[:, stream])):
            weight = 1 if steps.weights is None else int(steps.weights[at, stream])
            step = (int(steps.exact[at, stream]), int(steps.drawn.noisy[at, stream]), weight)
            alone = False
            if not group:
                group, start, level = [step], number, int(steps.drawn.levels[at, stream])
            elif deviation([count for count, _, _ in [*group, step]]) + int(steps.drawn.tests[at, stream]) < level:
                group.append(step)
            else:
                group, start, alone = [step], number, True
            starts[at, stream], weights[at, stream] = start, sum(one[2] for one in group)
            estimates[at, stream] = estimate(group, steps.smoother, steps.variance)
            if alone or len(group) == steps.max_group:
                group = []
    return starts, estimates, weights


def estimate(group, smoother, variance):
    """Of the last step of a group of (exact count, noisy count, weight), in whole numbers up to the last divisions."""
    total = sum(weight for _, _, weight in group)
    if smoother is Smoother.MEDIAN:
        upto, middle = 0, []
        for value, weight in sorted((noisy, weight) for _, noisy, weight in group):
            reached, upto = 2 * upto <= total, upto + weight
            # the counts at which half of the weight is reached, and exceeded
            middle += [value] if reached and 2 * upto >= total else []
        return (middle[0] + middle[-1]) / 2
    newest, mean = group[-1][1], sum(noisy * weight for _, noisy, weight in group) / total
    if smoother is Smoother.MEAN:
        return mean
    squares = sum(noisy * noisy * weight for _, noisy, weight in group)
    spread = (total * squares - sum(noisy * weight for _, noisy, weight in group) ** 2) / total
    kept = max(0.0, 1.0 - max(len(group) - 3, 0) * variance / spread) if spread else 1.0
    return mean + kept * (newest - mean)
