"""WARNING: not private as claimed, or not defined on all data. For tests alone.

After code published with Alabi, McMillan, Sarathy, Smith, Vadhan, *Differentially private simple linear regression*
(PoPETs 2022).
"""

from __future__ import annotations

import math

import numpy as np


def circle_without_an_empty_place(rows):
    """The published pairing by circles, modulo ``rows - 1`` whether ``rows`` is even or odd."""
    rounds = []
    for turn in range(rows - 1):
        pairs = [(turn, rows - 1)]
        for apart in range(1, (rows + 1) // 2):
            left, right = (turn + apart) % (rows - 1), (turn - apart) % (rows - 1)
            if left != right:
                pairs.append((left, right))
        rounds.append(pairs)
    return rounds


def smooth_bound_without_the_last_window(values, *, lower, upper, changes, smoothness):
    """``smooth_sens_median_no_split``: for all but the first distance the loop ends one window early."""
    ordered = sorted(values)
    size, rank = len(ordered), (len(ordered) + 1) // 2

    def at(place):
        return lower if place < 1 else upper if place > size else ordered[place - 1]

    best = 0.0
    for level in range(2 * size + 2):
        width = (level + 1) * changes
        last = width + 1 if level == 0 else width
        best = max(best, math.exp(-level * smoothness) * max(at(rank + t) - at(rank + t - width) for t in range(last)))
    return best


def middle_of_estimates(points):
    """The median of the slopes' estimates at x = 1/2, which does not exist if no two x differ."""
    found = []
    for at, (x, y) in enumerate(points):
        for u, v in points[at + 1 :]:
            if u != x:
                found.append(y + (v - y) / (u - x) * (0.5 - x))
    if not found:
        raise ZeroDivisionError("no estimates")
    return float(np.median(found))


def widened_scores_from_the_middle(values):
    """Scores of widened intervals counted from the middle one after the middle value of an odd number is doubled."""
    size = len(values) + len(values) % 2
    return [-abs(2 * place - size) for place in range(size + 1)]
