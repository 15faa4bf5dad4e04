"""The influence of a row on the rates of released confusion matrices, by its label and score; post-processing."""

from __future__ import annotations

import numpy as np

from spark_jobs.contract.options.score_figures import rate_at
from spark_jobs.diagnostics.confusion_matrix.measurement import ConfusionDraw
from spark_jobs.diagnostics.sampling import Influence


def influences(draw: ConfusionDraw) -> dict[str, Influence]:
    """The influence of a row on each rate that is a share of rows.

    A rate is the share of some rows (such as the true positives) among others (such as the predicted positives). One
    row more among the others moves the rate by its own value, 1 or 0, less the rate, divided by their number.
    """
    below = [np.maximum(tree.prefix_counts(), 0.0) for tree in (draw.negatives, draw.positives)]
    rows = max(float(below[0][-1] + below[1][-1]), 1.0)
    of_rates: dict[str, Influence] = {}
    for place, cut in enumerate(draw.at):
        index = int(np.searchsorted(draw.cuts, cut))
        negatives, positives = (
            np.array([counts[index], max(float(counts[-1] - counts[index]), 0.0)]) for counts in below
        )
        counts = np.stack([negatives, positives])  # label, and whether the score is at the threshold or above
        positive, predicted = np.array([[0, 0], [1, 1]]), np.array([[0, 1], [0, 1]])
        for rate, part, whole in (
            ("accuracy", positive == predicted, np.ones((2, 2))),
            ("precision", positive * predicted, predicted),
            ("recall", positive * predicted, positive),
            ("specificity", (1 - positive) * (1 - predicted), 1 - positive),
        ):
            among = max(float((counts * whole).sum()), 1.0)
            value = float((counts * whole * part).sum()) / among
            of_groups = whole * (part - value) * rows / among
            of_rates[rate_at(rate, place)] = Influence.of_groups(of_groups, counts, np.array([0, cut, draw.grid]))
    return of_rates
