"""The reconstruction attack on threshold tests: a histogram's small counts, from answers that claim to be private.

Chen, *Applying differential privacy with sparse vector technique* (2018), algorithms 6 and 7. The attacker asks, for
every ordered pair of cells, whether one count exceeds the other by a threshold; cells that get the same answers against
every other cell fall into one class, and each class's mean count is read with Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.mechanisms.sparse_vector import MAX_QUERIES, above_threshold
from tests.support.flawed.sparse_vector import SHARES, gptt
from tests.support.sparse_vector_loss import tail

Answers = Callable[[NDArray[np.int64], int], NDArray[np.bool_]]
"""(differences, threshold) -> which were answered "above"."""
FAILURE = 0.05
"""Chance that the noisy threshold falls below 0: delta of the paper's experiments."""
ZIPF = np.concatenate([np.repeat(np.arange(61), 1 + 400 // (1 + np.arange(61)) ** 2), [90, 150, 700]])
"""A histogram that anyone can make: most cells small, every count from 0 to 60 there."""


@dataclass(frozen=True, kw_only=True)
class Success:
    """The part of cells whose count was told exactly: of all, of those with 0 to 5, of those with 1 to 5 rows."""

    cells: float
    small: float
    occupied: float


def partition(counts: NDArray[np.int64], answers: Answers, *, epsilon: float) -> NDArray[np.int64]:
    """Algorithm 6: the class of every cell, 0 for the smallest counts. ``epsilon`` is that of the threshold's noise."""
    threshold = math.ceil(math.log(1 / FAILURE) / epsilon)
    differences = counts[None, :] - counts[:, None]
    larger = answers(differences.ravel(), threshold).reshape(differences.shape)
    _, classes = np.unique(np.packbits(larger, axis=1), axis=0, return_inverse=True)
    classes = classes.ravel()
    above = np.array([larger[np.argmax(classes == one)].sum() for one in range(classes.max() + 1)])
    return np.argsort(np.argsort(-above, kind="stable"), kind="stable")[classes]


def reconstruct(
    counts: NDArray[np.int64], classes: NDArray[np.int64], *, epsilon: Any, noise: Any
) -> NDArray[np.int64]:
    """Algorithm 7, lines 3 to 7: each class's noisy total, shared out among its cells."""
    totals = np.bincount(classes, weights=counts).astype(np.int64)
    noisy = noise.laplace(totals, epsilon=epsilon, l1_sensitivity=2)
    return np.rint(noisy / np.bincount(classes)).astype(np.int64)[classes]


def success(counts: NDArray[np.int64], guess: NDArray[np.int64]) -> Success:
    """How much of a histogram was told."""
    right = counts == guess
    return Success(
        cells=float(right.mean()),
        small=float(right[counts <= 5].mean()),
        occupied=float(right[(counts >= 1) & (counts <= 5)].mean()),
    )


def attack(counts: NDArray[np.int64], name: str, *, epsilon: float, noise: Any, draw: Any = None) -> Success:
    """Half of epsilon for a flawed variant's answers, half for the totals. ``draw``: a generator for ``majorities``."""
    first, second = (None if share is None else float(share) * epsilon / 2 for share in SHARES[name])
    if second is None:

        def answers(differences: NDArray[np.int64], threshold: int) -> NDArray[np.bool_]:
            return gptt(differences, epsilon1=first, epsilon2=None, threshold=threshold, noise=noise)
    else:
        answers = majorities(first, second, noise=noise, draw=draw)
    classes = partition(counts, answers, epsilon=first)
    return success(counts, reconstruct(counts, classes, epsilon=epsilon / 2, noise=noise))


def repetitions(epsilon2: float) -> int:
    """How often to ask so that majorities of 17 million questions are right: the odds at the edge are 1/2 +- 1/(4b)."""
    return int((14 * max(1.0, 1 / epsilon2)) ** 2) | 1


def majorities(epsilon1: float, epsilon2: float, *, noise: Any, draw: Any) -> Answers:
    """What most answers say if every question is asked again and again, which costs nothing by the variants' claims.

    Noise on the queries is then as good as none. The number of "above" among independent repetitions is binomial given
    the threshold's noise, and is drawn as such; the tests ask in earnest.
    """

    def answers(differences: NDArray[np.int64], threshold: int) -> NDArray[np.bool_]:
        level = noise.laplace(np.array([threshold]), epsilon=epsilon1, l1_sensitivity=1)[0]
        asked = repetitions(epsilon2)
        lowest = int(differences.min())
        chances = tail(1 / epsilon2, level - np.arange(lowest, int(differences.max()) + 1))
        # far from the edge no binomial is needed to know what most answers say
        near = (chances > 0.3) & (chances < 0.7)
        places = differences - lowest
        found = chances[places] > 0.5
        unsure = np.flatnonzero(near[places])
        found[unsure] = draw.binomial(asked, chances[places[unsure]]) * 2 > asked
        return found

    return answers


def asked_in_earnest(epsilon1: float, epsilon2: float, *, noise: Any) -> Answers:
    """As ``majorities``, every repetition a query of its own to the flawed function."""

    def answers(differences: NDArray[np.int64], threshold: int) -> NDArray[np.bool_]:
        asked = repetitions(epsilon2)
        single = gptt(
            np.repeat(differences, asked), epsilon1=epsilon1, epsilon2=epsilon2, threshold=threshold, noise=noise
        )
        return single.reshape(-1, asked).mean(axis=1) > 0.5

    return answers


def shipped(*, epsilon: float, cutoff: int, noise: Any) -> Answers:
    """The same questions to ``above_threshold``: answers stop at the cut-off, and at its cap on their number."""

    def answers(differences: NDArray[np.int64], threshold: int) -> NDArray[np.bool_]:
        found = np.zeros(differences.size, dtype=bool)
        asked = differences[:MAX_QUERIES]
        made = above_threshold(asked, thresholds=threshold, epsilon=epsilon, cutoff=cutoff, noise=noise)
        found[made.above] = True
        return found

    return answers


def attack_shipped(counts: NDArray[np.int64], *, epsilon: float, cutoff: int, noise: Any) -> Success:
    """The attack on the sparse vector technique as it is here, at the same costs."""
    order = np.random.default_rng(0).permutation(counts.size)  # which cells are asked about first is the attacker's
    shuffled = counts[order]
    answers = shipped(epsilon=epsilon / 2, cutoff=cutoff, noise=noise)
    classes = partition(shuffled, answers, epsilon=epsilon / 2)
    return success(shuffled, reconstruct(shuffled, classes, epsilon=epsilon / 2, noise=noise))
